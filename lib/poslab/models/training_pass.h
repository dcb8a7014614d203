// The backward pass of a run: the gradient of the mean loss in every parameter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "poslab/models/transformer_pass.h"

namespace poslab {

template <class T>
class TrainingPass : public TransformerPass<T> {
 public:
  TrainingPass(const TransformerState<T>& state, std::int64_t batch_size, std::int64_t length);

  // The mean nll over the targets, in nats; gradient, in the layout's order, is overwritten.
  double loss_and_gradient(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                           std::span<T> gradient);

  using TransformerPass<T>::batch, TransformerPass<T>::rows, TransformerPass<T>::seq_len, TransformerPass<T>::threads;

 private:
  using Pass = TransformerPass<T>;
  using Pass::attended, Pass::attention, Pass::attention_pool, Pass::bias, Pass::c, Pass::lse, Pass::norm, Pass::pool,
      Pass::qkv, Pass::s, Pass::scratch_size, Pass::slot, Pass::stream_at, Pass::turn_rows, Pass::up, Pass::widest;

  // Runs `run(first, n, sums, scratch)` on every block of rows; the blocks of a task share its sums of `size` numbers,
  // which then are added, task by task, to `gradient`.
  template <class Run>
  void accumulate(std::int64_t size, T* gradient, const Run& run);
  void backward_head(std::span<const std::int64_t> targets, double scale, T* gradient);
  void backward_layer(std::int64_t layer, T* gradient);
  void backward_embed(std::span<const std::int64_t> tokens, T* gradient);

  AlignedBuffer<T> d_stream, d_attended, d_qkv;
  std::int64_t task_rows = 0, n_tasks = 0, partial_size = 0;
  AlignedBuffer<T> partials;  // [n_tasks, partial_size]
  std::vector<double> losses, bias_sums;
};

}  // namespace poslab

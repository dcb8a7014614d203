#include "poslab/models/training_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "poslab/models/linear.h"

namespace poslab {
namespace {

// The backward pass is cut into at most so many tasks, each with its own sums of weight gradients.
constexpr std::int64_t gradient_tasks = 8;

}  // namespace

template <class T>
TrainingPass<T>::TrainingPass(const TransformerState<T>& state, std::int64_t batch_size, std::int64_t length)
    : Pass(state, batch_size, length, ForwardOptions{}, true) {
  d_stream = buffer<T>(rows * c.d_model);
  d_attended = buffer<T>(rows * c.attention_width());
  d_qkv = buffer<T>(rows * c.qkv_width());
  task_rows = ceil_div(ceil_div(rows, gradient_tasks), block_rows) * block_rows;
  n_tasks = ceil_div(rows, task_rows);
  partial_size = std::max(s.layout.layer_size(), c.vocab_size * c.d_model + 2 * c.d_model);
  partials = buffer<T>(n_tasks * partial_size);
  losses.resize(static_cast<std::size_t>(rows));
}

template <class T>
template <class Run>
void TrainingPass<T>::accumulate(std::int64_t size, T* gradient, const Run& run) {
  parallel_for(n_tasks, threads, [&](std::int64_t task) {
    typename Pool<AlignedBuffer<T>>::Lease scratch(pool);
    if (scratch->size() == 0) *scratch = buffer<T>(scratch_size);
    T* sums = partials.data() + task * partial_size;
    std::fill_n(sums, size, T{0});
    const std::int64_t end = std::min((task + 1) * task_rows, rows);
    for (std::int64_t first = task * task_rows; first < end; first += block_rows) {
      run(first, std::min(block_rows, end - first), sums, scratch->data());
    }
  });
  constexpr std::int64_t piece = 1 << 14;
  parallel_for(ceil_div(size, piece), threads, [&](std::int64_t task) {
    const std::int64_t first = task * piece, n = std::min(piece, size - first);
    for (std::int64_t i = 0; i < n_tasks; ++i)
      add_bias(1, n, partials.data() + i * partial_size + first, gradient + first);
  });
}

template <class T>
void TrainingPass<T>::backward_head(std::span<const std::int64_t> targets, double scale, T* gradient) {
  const auto& l = s.layout;
  const std::int64_t d = c.d_model, table = c.vocab_size * d;
  const LinearGradient<T> of_head(c.vocab_size, d, s.values.data() + l.head);
  std::vector<T> sums_of_all(static_cast<std::size_t>(table + 2 * d));
  accumulate(table + 2 * d, sums_of_all.data(), [&](std::int64_t first, std::int64_t n, T* sums, T* scratch) {
    T* normed = scratch;
    T* d_normed = normed + block_rows * d;
    T* logits = d_normed + block_rows * std::max(d, c.d_ff);
    this->head(first, n, normed, logits);
    for (std::int64_t r = 0; r < n; ++r) {
      const std::int64_t target = targets[static_cast<std::size_t>(first + r)];
      T* row = logits + r * c.vocab_size;
      if (target == no_target) {
        std::fill_n(row, c.vocab_size, T{0});
        losses[static_cast<std::size_t>(first + r)] = 0;
      } else {
        losses[static_cast<std::size_t>(first + r)] = cross_entropy(c.vocab_size, row, target, scale);
      }
    }
    of_head.parameters(n, normed, logits, sums, nullptr, this->gradient_scratch(scratch));
    of_head.input(n, logits, d_normed);
    T* d_x = d_stream.data() + first * d;
    std::fill_n(d_x, n * d, T{0});
    norm_backward(norm(l.norm_weight, l.norm_bias, s.values.data()), n, d, stream_at(2 * c.n_layers) + first * d,
                  d_normed, d_x, sums + table, sums + table + d);
  });
  add_bias(1, table, sums_of_all.data(), gradient + l.head);
  add_bias(1, d, sums_of_all.data() + table, gradient + l.norm_weight);
  if (l.norm_bias >= 0) add_bias(1, d, sums_of_all.data() + table + d, gradient + l.norm_bias);
}

template <class T>
void TrainingPass<T>::backward_layer(std::int64_t layer, T* gradient) {
  const LayerOffsets& at_ = s.layout.in_layer();
  const T* p = s.values.data() + s.layout.layer_begin(layer);
  const std::int64_t d = c.d_model, width = c.attention_width();
  T* heads = slot(attended, layer, width);
  // The layer's first tensors are those of attention's input; those of its second half begin at o_weight.
  const std::int64_t split = at_.o_weight;
  const LinearGradient<T> of_down(d, c.d_ff, p + at_.down_weight), of_up(c.up_width(), d, p + at_.up_weight);
  const LinearGradient<T> of_out(d, width, p + at_.o_weight), of_qkv(c.qkv_width(), d, p + at_.qkv_weight);
  accumulate(
      s.layout.layer_size() - split, gradient + split, [&](std::int64_t first, std::int64_t n, T* sums, T* scratch) {
        T* g = sums - split;
        T* normed = scratch;
        T* d_normed = normed + block_rows * d;
        T* activated = d_normed + block_rows * d;
        T* d_activated = activated + block_rows * c.d_ff;
        T* d_raised = d_activated + block_rows * widest;
        const T* between = stream_at(2 * layer + 1) + first * d;
        T* d_x = d_stream.data() + first * d;
        const NormParameters<T> of_layer = norm(at_.norm2_weight, at_.norm2_bias, p);
        norm_forward(of_layer, n, d, between, normed);
        of_down.input(n, d_x, d_activated);
        activation_backward(c.mlp, n, c.d_ff, slot(up, layer, c.up_width()) + first * c.up_width(), d_activated,
                            activated, d_raised);
        T* spare = this->gradient_scratch(scratch);
        of_down.parameters(n, activated, d_x, g + at_.down_weight, tensor_at(g, at_.down_bias), spare);
        of_up.parameters(n, normed, d_raised, g + at_.up_weight, tensor_at(g, at_.up_bias), spare);
        of_up.input(n, d_raised, d_normed);
        norm_backward(of_layer, n, d, between, d_normed, d_x, g + at_.norm2_weight, tensor_at(g, at_.norm2_bias));
        of_out.parameters(n, heads + first * width, d_x, g + at_.o_weight, tensor_at(g, at_.o_bias), spare);
        of_out.input(n, d_x, d_attended.data() + first * width);
      });
  attention_backward(attention(layer), heads, slot(lse, layer, c.n_heads), d_attended.data(), d_qkv.data(),
                     bias_sums.empty() ? nullptr : bias_sums.data(), attention_pool, threads);
  accumulate(split, gradient, [&](std::int64_t first, std::int64_t n, T* g, T* scratch) {
    T* normed = scratch;
    T* d_normed = normed + block_rows * d;
    const T* before = stream_at(2 * layer) + first * d;
    T* d_rows = d_qkv.data() + first * c.qkv_width();
    turn_rows(layer, d_rows, first, n, true);
    const NormParameters<T> of_layer = norm(at_.norm1_weight, at_.norm1_bias, p);
    norm_forward(of_layer, n, d, before, normed);
    of_qkv.parameters(n, normed, d_rows, g + at_.qkv_weight, tensor_at(g, at_.qkv_bias),
                      this->gradient_scratch(scratch));
    of_qkv.input(n, d_rows, d_normed);
    norm_backward(of_layer, n, d, before, d_normed, d_stream.data() + first * d, g + at_.norm1_weight,
                  tensor_at(g, at_.norm1_bias));
  });
}

template <class T>
void TrainingPass<T>::backward_embed(std::span<const std::int64_t> tokens, T* gradient) {
  const std::int64_t d = c.d_model;
  const T scale = static_cast<T>(c.encoding->token_scale(method_model(c)));
  T* added = c.encoding->learns_input() ? gradient + s.layout.method : nullptr;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* from = d_stream.data() + row * d;
    T* to = gradient + s.layout.embed + tokens[static_cast<std::size_t>(row)] * d;
    for (std::int64_t i = 0; i < d; ++i) to[i] += scale * from[i];
    if (added) add_bias(1, d, from, added + row % seq_len * d);
  }
}

template <class T>
double TrainingPass<T>::loss_and_gradient(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                                          std::span<T> gradient) {
  const auto& l = s.layout;
  std::fill(gradient.begin(), gradient.end(), T{0});
  const auto counted = std::ssize(targets) - std::count(targets.begin(), targets.end(), no_target);
  this->forward(tokens);
  this->pack_head();
  bias_sums.assign(static_cast<std::size_t>(bias ? batch * c.n_heads * bias->sums_size() : 0), 0);
  const double scale = counted == 0 ? 0 : 1 / static_cast<double>(counted);
  backward_head(targets, scale, gradient.data());
  for (std::int64_t layer = c.n_layers - 1; layer >= 0; --layer) {
    backward_layer(layer, gradient.data() + l.layer_begin(layer));
  }
  backward_embed(tokens, gradient.data());
  if (!bias_sums.empty()) {
    bias->add_to_gradient(
        bias_sums, gradient.subspan(static_cast<std::size_t>(l.method), static_cast<std::size_t>(l.method_size)));
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0) * scale;
}

template class TrainingPass<float>;
template class TrainingPass<double>;

}  // namespace poslab

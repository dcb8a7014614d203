// A training run: batches drawn from a seed, AdamW with warm-up and cosine, checkpoints on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "poslab/models/adamw.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/corpus.h"
#include "poslab/models/transformer.h"

namespace poslab {

struct TrainOptions {
  std::int64_t steps = 300, batch_size = 16, seq_len = 64;
  double learning_rate = 1e-3;  // at the peak
  std::int64_t warmup = 30;     // steps
  AdamWOptions adamw;
  std::int64_t seed = 0;
  int threads = 1;
  std::string save;             // checkpoint folder; empty: none
  std::int64_t save_every = 0;  // steps; 0: at the end alone
  CheckpointNotes asked;        // what else was asked for: a continuation may leave it out, not change it
};

struct TrainedStep {
  std::int64_t step = 0;  // from 1
  double loss = 0;        // mean nll of the step's batch before its update, nats
  double lr = 0;
  double grad_norm = 0;  // before clipping
};

struct TrainResult {
  std::vector<TrainedStep> history;  // every step of the run, those before a continuation included
  bool interrupted = false;          // stopped by interrupt_requested(), at a whole step
};

// Called after each step of this process with the number of steps done.
using TrainProgress = std::function<void(const TrainedStep&)>;

// The generator of a run's batches and the values of a new model both come from the seed, in this order.
Generator batch_generator(std::int64_t seed);
Transformer<float> new_model(const TransformerConfig& config, std::int64_t seed);

// Trains the model in place. `continued` is the folder of a run to go on from: the model is its model, and the result
// is, to the byte, that of a run that was never interrupted. Saves as options say, and when interrupted. The notes go
// into the checkpoints. Throws std::invalid_argument "[train] ..." when the continued run had other options (steps
// apart) or another source, and for batches that do not fit into this machine's memory; std::runtime_error
// "[train] ..." naming the step where the loss or the gradient is no longer finite. No model is saved before its own
// loss and gradient were finite: the last checkpoint is a good one.
TrainResult train(Transformer<float>& model, const BatchSource& source, const TrainOptions& options,
                  const CheckpointNotes& notes, const std::optional<std::string>& continued,
                  const TrainProgress& progress);

}  // namespace poslab

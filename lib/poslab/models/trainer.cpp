#include "poslab/models/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "poslab/core/interrupt.h"

namespace poslab {
namespace {

constexpr const char* history_key = "history";

// A number per line, as text that reads back to the bit.
std::string history_text(const std::vector<TrainedStep>& history) {
  std::string text;
  for (const TrainedStep& s : history) text += fmt::format("{} {} {} {}\n", s.step, s.loss, s.lr, s.grad_norm);
  return text;
}

std::vector<TrainedStep> parse_history(const std::string& text) {
  std::vector<TrainedStep> history;
  std::istringstream lines(text);
  for (TrainedStep s; lines >> s.step >> s.loss >> s.lr >> s.grad_norm;) history.push_back(s);
  return history;
}

// What a continuation must share with the run that it continues.
CheckpointNotes run_notes(const BatchSource& source, const TrainOptions& o) {
  return {{"source", source.identity()},
          {"seed", fmt::format("{}", o.seed)},
          {"batch_size", fmt::format("{}", o.batch_size)},
          {"seq_len", fmt::format("{}", o.seq_len)},
          {"steps_planned", fmt::format("{}", o.steps)},
          {"learning_rate", fmt::format("{}", o.learning_rate)},
          {"warmup", fmt::format("{}", o.warmup)},
          {"weight_decay", fmt::format("{}", o.adamw.weight_decay)},
          {"clip_norm", fmt::format("{}", o.adamw.clip_norm)}};
}

class Run {
 public:
  Run(Transformer<float>& model, const BatchSource& source, const TrainOptions& options, const CheckpointNotes& notes)
      : model_(model),
        source_(source),
        o_(options),
        notes_(notes),
        optimiser_(model.layout(), options.adamw),
        batches_(batch_generator(options.seed)),
        tokens_(static_cast<std::size_t>(options.batch_size * options.seq_len)),
        targets_(tokens_.size()),
        gradient_(model.values().size()) {
    if (!o_.save.empty()) folder_.emplace(o_.save);
  }

  void resume(const std::string& folder) {
    TrainingState<float> state = load_training_state<float>(folder, model_.layout());
    for (const auto& [key, value] : run_notes(source_, o_)) {
      if (key != "steps_planned" && state.run[key] != value) {
        throw std::invalid_argument(
            fmt::format("[train] {} was trained with {} {}, not {}.", folder, key, state.run[key], value));
      }
    }
    if (state.steps > o_.steps) {
      throw std::invalid_argument(
          fmt::format("[train] {} already took {} steps, more than {}.", folder, state.steps, o_.steps));
    }
    optimiser_.restore(state.steps, state.first_moment, state.second_moment);
    result_.history = parse_history(state.run[history_key]);
    // The batches that the run has seen.
    for (std::int64_t step = 0; step < state.steps; ++step) draw();
  }

  TrainResult run(const TrainProgress& progress) {
    const InterruptScope interrupts;
    while (optimiser_.steps() < o_.steps) {
      if (interrupt_requested()) {
        result_.interrupted = true;
        break;
      }
      step();
      progress(result_.history.back());
      if (o_.save_every > 0 && optimiser_.steps() % o_.save_every == 0 && optimiser_.steps() < o_.steps) save();
    }
    save();
    return std::move(result_);
  }

 private:
  void draw() { source_.draw(batches_, o_.batch_size, o_.seq_len, tokens_, targets_); }

  void step() {
    draw();
    const std::int64_t done = optimiser_.steps();
    TrainedStep s{done + 1, 0, cosine_schedule(o_.learning_rate, done, o_.steps, o_.warmup), 0};
    s.loss = model_.loss_and_gradient(tokens_, targets_, o_.batch_size, gradient_, o_.threads);
    if (std::isfinite(s.loss)) {
      s.grad_norm = optimiser_.step(model_.values(), gradient_, s.lr, o_.threads);
    }
    if (!std::isfinite(s.loss) || !std::isfinite(s.grad_norm)) {
      throw std::runtime_error(fmt::format(
          "[train] the {} is not finite at step {} (learning rate {}); {}.",
          std::isfinite(s.loss) ? "gradient" : "loss", s.step, s.lr,
          saved_ > 0 ? fmt::format("{} holds the model after step {}", o_.save, saved_) : "nothing was saved"));
    }
    result_.history.push_back(s);
  }

  void save() {
    if (!folder_) return;
    TrainingState<float> state;
    state.steps = optimiser_.steps();
    state.first_moment.assign(optimiser_.first_moment().begin(), optimiser_.first_moment().end());
    state.second_moment.assign(optimiser_.second_moment().begin(), optimiser_.second_moment().end());
    state.run = run_notes(source_, o_);
    state.run[history_key] = history_text(result_.history);
    folder_->save<float>(model_, notes_, &state);
    saved_ = state.steps;
  }

  Transformer<float>& model_;
  const BatchSource& source_;
  const TrainOptions& o_;
  const CheckpointNotes& notes_;
  std::optional<CheckpointFolder> folder_;
  AdamW<float> optimiser_;
  Generator batches_;
  std::vector<std::int64_t> tokens_, targets_;
  std::vector<float> gradient_;
  TrainResult result_;
  std::int64_t saved_ = 0;
};

}  // namespace

Generator batch_generator(std::int64_t seed) {
  return Generator(Generator(seed).integer(0, std::numeric_limits<std::int64_t>::max()));
}

Transformer<float> new_model(const TransformerConfig& config, std::int64_t seed) {
  Generator generator(seed);
  generator.integer(0, std::numeric_limits<std::int64_t>::max());
  return Transformer<float>(config, generator);
}

TrainResult train(Transformer<float>& model, const BatchSource& source, const TrainOptions& options,
                  const CheckpointNotes& notes, const std::optional<std::string>& continued,
                  const TrainProgress& progress) {
  if (source.vocab_size() != model.config().vocab_size) {
    throw std::invalid_argument(fmt::format("[train] the text has a vocabulary of {} tokens but the model of {}.",
                                            source.vocab_size(), model.config().vocab_size));
  }
  Run run(model, source, options, notes);
  if (continued) run.resume(*continued);
  return run.run(progress);
}

}  // namespace poslab

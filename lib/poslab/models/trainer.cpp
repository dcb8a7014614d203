#include "poslab/models/trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "poslab/core/interrupt.h"

namespace poslab {
namespace {

constexpr const char* history_key = "history";

// A step per line, its numbers as text that reads back to the bit.
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

// Of the activations that a step keeps for its way back, most of what a large batch needs.
double kept_bytes(const TransformerConfig& c, double tokens) {
  const std::int64_t of_layer = 2 * c.d_model + c.qkv_width() + c.attention_width() + c.up_width() + c.n_heads;
  return static_cast<double>(sizeof(float)) * tokens * static_cast<double>(c.n_layers * of_layer);
}

void require_memory(const TransformerConfig& c, const TrainOptions& o) {
  const double needed = kept_bytes(c, static_cast<double>(o.batch_size) * static_cast<double>(o.seq_len));
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (needed <= there) return;
  throw std::invalid_argument(
      fmt::format("[train] batch_size {} x seq_len {} needs {:.0f} GB, and this machine has {:.0f}.", o.batch_size,
                  o.seq_len, needed / 1e9, there / 1e9));
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
        gradient_(model.values().size()),
        asked_(options.asked) {
    if (!o_.save.empty()) folder_.emplace(o_.save);
  }

  void resume(const std::string& folder) {
    TrainingState<float> state = load_training_state<float>(folder, model_.layout());
    CheckpointNotes now = run_notes(source_, o_);
    now.insert(o_.asked.begin(), o_.asked.end());
    for (const auto& [key, value] : now) {
      const auto before = state.run.find(key);
      if (key == "steps_planned" || (before != state.run.end() && before->second == value)) continue;
      throw std::invalid_argument(
          before == state.run.end()
              ? fmt::format("[train] {} was trained without {}, not with {}.", folder, key, value)
              : fmt::format("[train] {} was trained with {} {}, not {}.", folder, key, before->second, value));
    }
    if (state.steps > o_.steps) {
      throw std::invalid_argument(
          fmt::format("[train] {} already took {} steps, more than {}.", folder, state.steps, o_.steps));
    }
    optimiser_.restore(state.steps, state.first_moment, state.second_moment);
    result_.history = parse_history(state.run[history_key]);
    for (const auto& [key, value] : state.run) {
      if (!now.contains(key) && key != history_key) asked_.emplace(key, value);
    }
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
    }
    if (!folder_) return std::move(result_);
    // No later step looks at the last one's model.
    if (optimiser_.steps() > 0) {
      finite_loss(fmt::format("after step {}", optimiser_.steps()), result_.history.back().lr);
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
    std::tie(s.loss, s.grad_norm) = finite_loss(fmt::format("at step {}", s.step), s.lr);
    // The model of the steps before, now that it is known to be good.
    if (folder_ && o_.save_every > 0 && done > 0 && done % o_.save_every == 0 && done != saved_) save();
    optimiser_.step(model_.values(), gradient_, s.grad_norm, s.lr, o_.threads);
    result_.history.push_back(s);
  }

  // Loss of the drawn batch and the norm of its gradient, which is left in gradient_.
  std::pair<double, double> finite_loss(const std::string& when, double learning_rate) {
    const double loss = model_.loss_and_gradient(tokens_, targets_, o_.batch_size, gradient_, o_.threads);
    const double norm = gradient_norm<float>(gradient_);
    if (std::isfinite(loss) && std::isfinite(norm)) return {loss, norm};
    std::string kept = "nothing was saved";
    if (saved_ > 0) {
      kept = fmt::format("{} holds the model after step {}", o_.save, saved_);
    } else if (folder_ && std::filesystem::exists(o_.save)) {
      kept = fmt::format("{} is as it was", o_.save);
    }
    throw std::runtime_error(fmt::format("[train] the {} is not finite {} (learning rate {}); {}.",
                                         std::isfinite(loss) ? "gradient" : "loss", when, learning_rate, kept));
  }

  void save() {
    TrainingState<float> state;
    state.steps = optimiser_.steps();
    state.first_moment.assign(optimiser_.first_moment().begin(), optimiser_.first_moment().end());
    state.second_moment.assign(optimiser_.second_moment().begin(), optimiser_.second_moment().end());
    state.run = run_notes(source_, o_);
    state.run.insert(asked_.begin(), asked_.end());
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
  CheckpointNotes asked_;
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
  require_memory(model.config(), options);
  Run run(model, source, options, notes);
  if (continued) run.resume(*continued);
  return run.run(progress);
}

}  // namespace poslab

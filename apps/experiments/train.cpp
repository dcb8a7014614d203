#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/model_rope.h"
#include "experiments/rope_params.h"
#include "experiments/token_rate.h"
#include "experiments/train_fields.h"
#include "poslab/core/fields.h"
#include "poslab/core/require.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/corpus.h"
#include "poslab/models/tasks.h"
#include "poslab/models/trainer.h"
#include "poslab/models/transformer.h"
#include "poslab/report/document.h"

namespace poslab {
namespace {

using namespace train_fields;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[train] " + sentence); }

constexpr RequireWithin require_within{"train"};

// Where batches come from, and what a checkpoint must remember of it.
struct Data {
  std::unique_ptr<BatchSource> source;
  CheckpointNotes notes;
};

// What of the tokens of `path` is trained on.
std::vector<std::int64_t> training_part(const Params& p, const std::string& path, std::int64_t seq_len,
                                        std::vector<std::int64_t> tokens) {
  const double share = p.held_out.value_or(0.1);
  if (!(share >= 0 && share < 1)) refuse(fmt::format("held_out must be 0 or more and below 1 but got {}.", share));
  const auto used = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens.size()) * (1 - share)));
  if (used <= seq_len) {
    refuse(fmt::format("{} is too short for seq_len {}: of its {} tokens held_out {} leaves {}, and {} are needed.",
                       path, seq_len, tokens.size(), share, used, seq_len + 1));
  }
  tokens.resize(static_cast<std::size_t>(used));
  return tokens;
}

Data read_data(const Params& p, std::int64_t seq_len, const Checkpoint<float>* base) {
  if ((p.task ? 1 : 0) + (p.text ? 1 : 0) + (p.tokens ? 1 : 0) > 1) {
    refuse("task, text and tokens exclude each other: give one.");
  }
  if (p.text_unit && !p.text) refuse("text_unit needs text.");
  if (p.held_out && !p.text && !p.tokens) refuse("held_out needs text or tokens.");
  Data data;
  if (p.text) {
    const std::string text = read_text(*p.text);
    std::optional<Vocabulary> vocabulary = base ? Vocabulary::from_notes(base->notes) : std::nullopt;
    if (base && !vocabulary) refuse("the checkpoint was not trained on a text: it has no characters.");
    if (vocabulary && p.text_unit && *p.text_unit != vocabulary->unit()) {
      refuse(fmt::format("text_unit is {} but the checkpoint's is {}.", to_word(*p.text_unit),
                         to_word(vocabulary->unit())));
    }
    if (!vocabulary) {
      vocabulary = p.text_unit == TextUnit::bytes ? Vocabulary::bytes() : Vocabulary::characters_of(text);
    }
    vocabulary->to_notes(data.notes);
    data.source =
        text_source(training_part(p, *p.text, seq_len, vocabulary->encode(text)), vocabulary->size(), seq_len);
  } else if (p.tokens) {
    std::vector<std::int64_t> tokens = read_token_file(*p.tokens);
    const std::int64_t needed = *std::max_element(tokens.begin(), tokens.end()) + 1;
    const std::int64_t vocab_size = base ? base->model.config().vocab_size : needed;
    if (needed > vocab_size) {
      refuse(fmt::format("{} holds token {} but the checkpoint knows 0 .. {}.", *p.tokens, needed - 1, vocab_size - 1));
    }
    data.source = text_source(training_part(p, *p.tokens, seq_len, std::move(tokens)), vocab_size, seq_len);
  } else {
    const std::optional<Task> own = base ? trained_task(base->notes) : Task::induction;
    if (!p.task && !own) refuse("give text, tokens or task: the checkpoint was not trained on a task.");
    const Task task = p.task ? *p.task : *own;
    data.source = task_source(task);
    data.notes["task"] = to_word(task);
  }
  return data;
}

// The first parameter given that only a model with turning pairs has, and whether it stretches; empty: none.
struct GivenRope {
  std::string name;
  bool stretches = false;
};
GivenRope given_rope(const Params& p) {
  GivenRope given;
  const auto look = [&](std::string_view name, const auto& value, auto...) {
    const bool base =
        name == "rope_type" || name == "rope_theta" || name == "rotary_dim" || name == "partial_rotary_factor";
    if (value && (given.name.empty() || !base)) given = {std::string(name), !base};
  };
  RopeParams::fields(p.rope, look);
  if (p.layout && given.name.empty()) given.name = "layout";
  return given;
}

// `base`: the checkpoint's, whose weights fix its widths.
void set_rope(const Params& p, const TransformerConfig* base, std::int64_t trained_length, TransformerConfig& c) {
  const GivenRope given = given_rope(p);
  if (!c.encoding->acts_on(Place::rotation)) {
    const std::string what = fmt::format("{} needs an encoding that rotates, not {}.", given.name, to_word(c.encoding));
    if (given.name == "rope_type" && p.rope.rope_type != RopeType()) throw RopeTypeUnavailable(what);
    if (!given.name.empty() && given.name != "rope_type") refuse(what);
    return;
  }
  if (given.stretches && !p.rope.rope_type) refuse(fmt::format("{} needs rope_type.", given.name));
  if (p.layout) c.layout = *p.layout;
  RopeParams flags = p.rope;
  flags.max_position_embeddings = c.max_position_embeddings;
  if (p.rope.rope_type) {
    if (!flags.original_max_position_embeddings) flags.original_max_position_embeddings = trained_length;
    const auto original = static_cast<double>(*flags.original_max_position_embeddings);
    if (!flags.factor) flags.factor = std::max(1.0, static_cast<double>(c.max_position_embeddings) / original);
  }
  if (base) {
    flags = rope_over_model(flags, *base);
  } else {
    flags.head_dim = c.head_dim;
  }
  c.rope = resolve_rope(flags, {}, c.max_position_embeddings).scaling;
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{1} << 40})
    rope_frequencies(c.rope, length);  // or throws
  if (!c.rope.rope_type->trained_on_stated_length) return;
  c.max_position_embeddings = std::min(trained_length, c.max_position_embeddings);
  c.rope.max_position_embeddings = static_cast<double>(c.max_position_embeddings);
}

TransformerConfig new_config(const Params& p, std::int64_t seq_len, std::int64_t vocab_size) {
  TransformerConfig c;
  c.vocab_size = vocab_size;
  c.encoding = p.encoding.value_or(PositionEncoding());
  require_own_parameters("train", *c.encoding, p.method);
  c.method = p.method;
  c.encoding->set_defaults(c.method, seq_len);
  const Architecture architecture =
      p.architecture.value_or(c.encoding->learns_input() ? Architecture::gpt2 : Architecture::llama);
  c.d_model = p.d_model.value_or(64);
  c.n_layers = p.n_layers.value_or(2);
  c.n_heads = p.n_heads.value_or(4);
  c.n_kv_heads = p.n_kv_heads.value_or(c.n_heads);
  require_within("d_model", c.d_model, 1, 1 << 16);
  require_within("n_heads", c.n_heads, 1, c.d_model);
  if (c.d_model % c.n_heads != 0) {
    refuse(fmt::format("d_model {} is not divisible by n_heads {}.", c.d_model, c.n_heads));
  }
  c.head_dim = c.d_model / c.n_heads;
  if (architecture == Architecture::llama) {
    c.norm = NormKind::rms_norm;
    c.mlp = MlpKind::swiglu;
    c.set_biases(false);
    c.d_ff = p.d_ff.value_or((8 * c.d_model / 3 + 31) / 32 * 32);
  } else {
    c.d_ff = p.d_ff.value_or(4 * c.d_model);
  }
  c.tied_head = p.tied_head.value_or(true);
  c.max_position_embeddings = seq_len;
  c.attention_window = p.attention_window.value_or(0);
  set_rope(p, nullptr, seq_len, c);
  return c;
}

// The config of a checkpoint that goes on training, with another scaling or length where asked.
TransformerConfig based_config(const Params& p, std::int64_t seq_len, const TransformerConfig& base) {
  const auto same = [&](const char* name, const std::optional<std::int64_t>& asked, std::int64_t has) {
    if (asked && *asked != has) refuse(fmt::format("{} is {} but the checkpoint's is {}.", name, *asked, has));
  };
  same("d_model", p.d_model, base.d_model);
  same("n_layers", p.n_layers, base.n_layers);
  same("n_heads", p.n_heads, base.n_heads);
  same("n_kv_heads", p.n_kv_heads, base.n_kv_heads);
  same("d_ff", p.d_ff, base.d_ff);
  if (p.encoding && *p.encoding != base.encoding) {
    refuse(fmt::format("encoding is {} but the checkpoint's is {}.", to_word(*p.encoding), to_word(base.encoding)));
  }
  if (p.tied_head && *p.tied_head != base.tied_head) refuse("tied_head differs from the checkpoint's.");
  if (p.architecture && (*p.architecture == Architecture::llama) != (base.mlp == MlpKind::swiglu)) {
    refuse("architecture differs from the checkpoint's.");
  }
  if (to_record(p.method) != to_record(MethodParams{})) {
    refuse("the encoding's parameters are the checkpoint's; leave them out.");
  }
  TransformerConfig c = base;
  if (p.continue_from) {
    same("attention_window", p.attention_window, base.attention_window);
    if (p.layout && *p.layout != base.layout) refuse("layout differs from the checkpoint's.");
  }
  if (p.attention_window) c.attention_window = *p.attention_window;
  const auto trained_length = base.rope.original_max_position_embeddings
                                  ? static_cast<std::int64_t>(*base.rope.original_max_position_embeddings)
                                  : base.max_position_embeddings;
  if (!c.encoding->longest_text(method_model(c)))
    c.max_position_embeddings = std::max(seq_len, base.max_position_embeddings);
  if (!p.continue_from) set_rope(p, &base, trained_length, c);
  return c;
}

void check_ranges(const Params& p, std::int64_t seq_len) {
  require_within("steps", p.steps, 1, std::int64_t{1} << 40);
  require_within("batch_size", p.batch_size, 1, 1 << 20);
  require_within("seq_len", seq_len, 1, 1 << 24);
  require_within("log_every", p.log_every, 1, std::int64_t{1} << 40);
  require_within("save_every", p.save_every, 0, std::int64_t{1} << 40);
  if (p.batch_size * seq_len > std::int64_t{1} << 26) {
    refuse(fmt::format("batch_size {} x seq_len {} is more than {} tokens.", p.batch_size, seq_len, 1 << 26));
  }
  const auto positive = [](const char* name, double value, bool zero) {
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zero)) {
      refuse(fmt::format("{} must be {} but got {}.", name, zero ? "0 or more" : "above 0", value));
    }
  };
  positive("learning_rate", p.learning_rate, false);
  positive("weight_decay", p.weight_decay, true);
  positive("clip_norm", p.clip_norm, true);
  if (p.save_model && p.save_model->empty()) refuse("save_model must name a folder.");
  if (p.save_every > 0 && !p.save_model) refuse("save_every needs save_model.");
  if (p.init && p.continue_from) refuse("init and continue_from exclude each other: give one.");
}

std::string conclude(const Params& p, const Summary& s) {
  std::string text = fmt::format("The loss went from {:.3f} to {:.3f} nats; a uniform guess scores ln({}) = {:.3f}.",
                                 s.first_loss, s.final_loss, s.vocab_size, s.chance_loss);
  if (s.interrupted) {
    text += fmt::format("\nInterrupted after step {} of {}.", s.steps_done, p.steps);
    if (p.save_model) text += fmt::format(" --continue-from {} goes on as if nothing had happened.", *p.save_model);
  }
  if (p.save_model) text += fmt::format("\n{} holds the model.", *p.save_model);
  return text;
}

std::int64_t text_length(const Params& p, const TransformerConfig* base) {
  return p.seq_len.value_or(base && p.continue_from ? base->max_position_embeddings : 64);
}

std::string left_out(const Record& record) {
  const auto p = from_record<Params>(record);
  try {
    if (p.continue_from) return "";
    std::optional<TransformerConfig> base;
    if (p.init) base = read_config((std::filesystem::path(p.init->c_str()) / "config.json").string()).config;
    const std::int64_t seq_len = text_length(p, base ? &*base : nullptr);
    const TransformerConfig c = base ? based_config(p, seq_len, *base) : new_config(p, seq_len, 2);
    if (p.save_model) config_json(c, {}, "float32");
  } catch (const RopeTypeUnavailable& e) {
    return e.reason();
  } catch (const std::exception&) {
    // The run itself reports it.
  }
  return "";
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  std::optional<Checkpoint<float>> base;
  if (const auto& from = p.continue_from ? p.continue_from : p.init) base = load_checkpoint<float>(*from);
  const std::int64_t seq_len = text_length(p, base ? &base->model.config() : nullptr);
  check_ranges(p, seq_len);
  Data data = read_data(p, seq_len, base ? &*base : nullptr);
  Transformer<float> model = [&] {
    if (!base) return new_model(new_config(p, seq_len, data.source->vocab_size()), p.seed);
    Transformer<float> started(based_config(p, seq_len, base->model.config()));
    std::copy(base->model.values().begin(), base->model.values().end(), started.values().begin());
    return started;
  }();
  if (p.save_model) config_json(model.config(), data.notes, "float32");  // refuses now what could not be saved later

  TrainOptions options;
  options.steps = p.steps;
  options.batch_size = p.batch_size;
  options.seq_len = seq_len;
  options.learning_rate = p.learning_rate;
  options.warmup = p.warmup.value_or(std::clamp<std::int64_t>(p.steps / 10, 1, 100));
  require_within("warmup", options.warmup, 0, p.steps);
  options.adamw.weight_decay = p.weight_decay;
  options.adamw.clip_norm = p.clip_norm;
  options.seed = p.seed;
  options.threads = context.threads;
  options.asked = given_values(field_specs<RopeParams>(), to_record(p.rope));
  options.save = p.save_model.value_or("");
  options.save_every = p.save_every;

  TokenRate rate;
  std::int64_t steps_here = 0;
  const TrainResult trained =
      train(model, *data.source, options, data.notes, p.continue_from, [&](const TrainedStep& step) {
        ++steps_here;
        rate.add(static_cast<double>(p.batch_size * seq_len));
        context.status(fmt::format("loss {:.3f}, {}", step.loss, rate.words()));
        context.progress(static_cast<double>(step.step) / static_cast<double>(p.steps));
      });

  TypedReport<Summary, Row> report;
  const std::vector<TrainedStep>& history = trained.history;
  Summary& s = report.summary;
  s.parameters = model.layout().size();
  s.vocab_size = model.config().vocab_size;
  s.steps_done = std::ssize(history);
  s.trained_tokens = s.steps_done * p.batch_size * seq_len;
  s.chance_loss = std::log(static_cast<double>(s.vocab_size));
  s.interrupted = trained.interrupted;
  s.resolved_encoding = model.config().encoding;
  s.format = model_family(model.config());
  const std::int64_t last = std::clamp<std::int64_t>(s.steps_done / 10, 1, 50);
  Series curve{"loss", {}, {}};
  for (std::int64_t i = 0; i < s.steps_done; ++i) {
    const TrainedStep& step = history[static_cast<std::size_t>(i)];
    if (i == 0) s.first_loss = step.loss;
    if (i >= s.steps_done - last) s.final_loss += step.loss / static_cast<double>(last);
    if (i > 0 && i + 1 < s.steps_done && step.step % p.log_every != 0) continue;
    report.rows.push_back({step.step, step.loss, step.lr, step.grad_norm});
    curve.x.push_back(static_cast<double>(step.step));
    curve.y.push_back(step.loss);
  }
  report.conclusion = conclude(p, s);
  Picture picture;
  picture.title = "training loss";
  picture.x_label = "step";
  picture.y_label = "loss (nats)";
  picture.series.push_back(std::move(curve));
  report.pictures.push_back(std::move(picture));
  if (steps_here > 0) {
    report.notes.push_back(
        fmt::format("{} steps in this process, {} with {} threads", steps_here, rate.words(), context.threads));
  }
  return report;
}

Experiment describe_train() {
  Experiment e = describe<Params, Summary, Row>(
      "train", "How does a small transformer learn with this encoding, from a text or from a task made on the spot?",
      "poslab train --task induction --encoding rope --steps 300 --save induction-model", run);
  e.excluded = left_out;
  e.stops_at_signal = true;
  return e;
}

const Registrar registrar("train", describe_train);

}  // namespace
}  // namespace poslab

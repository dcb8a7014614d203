#include "poslab/model_configs/permute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/evaluated_model.h"
#include "experiments/experiment.h"
#include "poslab/formats/safetensors.h"
#include "poslab/model_configs/family.h"

namespace poslab {
namespace {

struct Params {
  std::optional<FilePath> model, save_weights;
  std::optional<RopeLayout> from;
  std::optional<std::int64_t> n_heads, n_kv_heads, head_dim, rotary_dim;
  std::optional<FusedOrder> fused;
  bool detect = false;
  TextParams text;

  static void fields(auto& self, auto&& field) {
    field(
        "model", self.model,
        "a .safetensors file, an index of shards, or a folder with either; absent: the rows are shown without a file");
    field("save_weights", self.save_weights,
          "the .safetensors file to write, or for shards the folder; needed with model");
    renamed_from(field, "save");
    field("from", self.from, "the layout that the weights have; absent: the config's beside them, else half");
    field("n_heads", self.n_heads, "query heads; absent: the config's, else 4");
    field("n_kv_heads", self.n_kv_heads, "key heads; absent: the config's, else n_heads");
    field("head_dim", self.head_dim, "channels of a head; absent: the config's, else 8", "channels");
    field("rotary_dim", self.rotary_dim, "channels that are rotated; absent: the config's, else head_dim", "channels");
    field("fused", self.fused,
          "order inside tensors that hold q, k and v; absent: grouped by key head in query_key_value (not ChatGLM's), "
          "else stacked");
    field("detect", self.detect,
          "read a text under both layouts and say which one the weights want; nothing is written. The model may be a "
          "GGUF file");
    TextParams::fields(self.text, field);
  }
};

struct Summary {
  RopeLayout resolved_from = RopeLayout::half, resolved_to = RopeLayout::interleaved;
  std::int64_t resolved_n_heads = 0, resolved_n_kv_heads = 0, resolved_head_dim = 0, resolved_rotary_dim = 0;
  std::int64_t tensors = 0;
  std::optional<bool> round_trip;
  std::vector<std::int64_t> head_order;
  std::optional<RopeLayout> wanted_layout;
  std::optional<double> half_nll, interleaved_nll, nll_difference_stderr;
  std::optional<std::int64_t> text_tokens;

  static void fields(auto& self, auto&& field) {
    field("resolved_from", self.resolved_from, "the layout before");
    field("resolved_to", self.resolved_to, "the layout after");
    field("resolved_n_heads", self.resolved_n_heads, "query heads in effect");
    field("resolved_n_kv_heads", self.resolved_n_kv_heads, "key heads in effect");
    field("resolved_head_dim", self.resolved_head_dim, "channels of a head in effect", "channels");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that are rotated, in effect", "channels");
    field("tensors", self.tensors, "tensors that were rewritten");
    field("round_trip", self.round_trip, "permuting the written file back gave every byte again (null: no file)");
    field("head_order", self.head_order, "row i of a head is row head_order[i] of before");
    field("wanted_layout", self.wanted_layout, "with detect: the layout of the lower loss (null: no clear difference)");
    field("half_nll", self.half_nll, "with detect: mean loss when pairs are i, i + rotary_dim / 2", "nats/token");
    field("interleaved_nll", self.interleaved_nll, "with detect: mean loss when pairs are 2i, 2i + 1", "nats/token");
    field("nll_difference_stderr", self.nll_difference_stderr,
          "with detect: standard error of the difference, token by token", "nats/token");
    field("text_tokens", self.text_tokens, "with detect: tokens scored", "tokens");
  }
};

struct Row {
  std::string tensor;
  std::int64_t heads = 0, moved_rows = 0;

  static void fields(auto& self, auto&& field) {
    field("tensor", self.tensor, "its name");
    field("heads", self.heads, "heads it was cut into");
    field("moved_rows", self.moved_rows, "rows that stand elsewhere now", "rows");
  }
};

// The sizes and the layout of the config.json beside the weights, where there is one.
std::optional<ModelConfig> config_beside(const std::string& weights) {
  const auto path = std::filesystem::path(weights).parent_path() / "config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  ModelConfig config = load_model_config(path.is_absolute() ? path.string() : "./" + path.string());
  if (config.layers.front().encoding != ModelEncoding::rope) {
    throw std::invalid_argument(fmt::format("[permute] {} has no RoPE, so its weights have no layout.", path.string()));
  }
  return config;
}

// The folder or GGUF file that the weights stand in.
std::string model_of(const std::string& path) {
  std::error_code error;
  if (path.ends_with(".gguf") || std::filesystem::is_directory(path, error)) return path;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

TypedReport<Summary, Row> detect(const Params& p, const RunContext& context) {
  if (!p.model) throw std::invalid_argument("[permute] detect needs a model, whose weights it reads.");
  if (p.save_weights) throw std::invalid_argument("[permute] detect writes nothing: leave save_weights out.");
  const auto shared = load_evaluated_model(model_of(*p.model), Task::copy, context);
  const EvaluatedModel& loaded = *shared;
  const TransformerConfig& config = loaded.model.config();
  if (!config.encoding->acts_on(Place::rotation)) {
    throw std::invalid_argument(fmt::format("[permute] {} has no RoPE, so its weights have no layout.", loaded.name));
  }
  const EvaluatedText source(p.text, loaded);
  const std::int64_t length = std::min(trained_length(config), source.longest().value_or(trained_length(config)));
  const EvaluationText text = source.of_length(length);
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.resolved_from = s.resolved_to = config.layout;
  s.resolved_n_heads = config.n_heads;
  s.resolved_n_kv_heads = config.n_kv_heads;
  s.resolved_head_dim = config.head_dim;
  s.resolved_rotary_dim = config.rope.rotary_dim;
  s.head_order = layout_rows(RopeLayout::half, RopeLayout::interleaved, 1, config.head_dim, config.rope.rotary_dim);
  std::vector<double> losses[2];
  for (const RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    const std::size_t which = layout == RopeLayout::half ? 0 : 1;
    ForwardOptions options;
    options.rope = unscaled_frequencies(config);
    options.layout = layout;
    options.threads = context.threads;
    const auto progress = [&](double share) { context.progress((static_cast<double>(which) + share) / 2); };
    for (const ScoredToken& token :
         score_windows<float>(loaded.model, text, covering_chunks(text.size(), length), options, progress)) {
      losses[which].push_back(token.nll);
    }
  }
  std::vector<double> difference;
  for (std::size_t i = 0; i < losses[0].size(); ++i) difference.push_back(losses[0][i] - losses[1][i]);
  const MeanLoss off = mean_loss(difference);
  if (off.tokens == 0) throw std::invalid_argument("[permute] the text asks for no token.");
  s.half_nll = mean_loss(losses[0]).mean_nll;
  s.interleaved_nll = mean_loss(losses[1]).mean_nll;
  s.nll_difference_stderr = off.standard_error;
  s.text_tokens = off.tokens;
  constexpr double clear = 4;  // standard errors
  if (off.standard_error && std::abs(off.mean_nll) > clear * *off.standard_error) {
    s.wanted_layout = off.mean_nll > 0 ? RopeLayout::interleaved : RopeLayout::half;
  }
  report.conclusion =
      fmt::format("{} on {}, {} tokens: {:.4f} nats/token when pairs are halves, {:.4f} when they are neighbours.\n",
                  loaded.name, source.name(), off.tokens, *s.half_nll, *s.interleaved_nll);
  if (!s.wanted_layout) {
    report.conclusion += "The difference is within four standard errors: a longer or plainer text may tell.";
  } else {
    report.conclusion += fmt::format(
        "The weights want {}, {}.", to_word(*s.wanted_layout),
        *s.wanted_layout == config.layout
            ? "as the model says"
            : fmt::format("but the model says {}: permute them, or tell the engine", to_word(config.layout)));
  }
  return report;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  if (p.detect) return detect(p, context);
  if (p.text.tokens || p.text.text) throw std::invalid_argument("[permute] tokens and text are for detect.");
  std::string weights = p.model.value_or("");
  std::error_code error;
  if (std::filesystem::is_directory(weights, error)) weights = SafetensorsFile(weights).path();
  if (p.model.has_value() != p.save_weights.has_value()) {
    throw std::invalid_argument(
        "[permute] model and save_weights go together: the file to read and the file to write.");
  }
  const auto config = p.model ? config_beside(weights) : std::nullopt;
  const LayerPositions* layer = config ? &config->layers.front() : nullptr;
  const auto needed = [&](std::optional<std::int64_t> given, std::optional<std::int64_t> of_config,
                          std::int64_t fallback, const char* name) {
    if (given) return *given;
    if (of_config) return *of_config;
    if (p.model) throw std::invalid_argument(fmt::format("[permute] no config.json says {}: give it.", name));
    return fallback;
  };
  PermuteSizes sizes;
  sizes.n_heads = needed(p.n_heads, config ? config->n_heads : std::nullopt, 4, "n_heads");
  // A wrong count is caught where the rows are counted.
  sizes.n_kv_heads = p.n_kv_heads.value_or(config && config->n_kv_heads ? *config->n_kv_heads : sizes.n_heads);
  sizes.head_dim = needed(p.head_dim, layer ? std::optional(layer->rope.head_dim) : std::nullopt, 8, "head_dim");
  sizes.fused = p.fused;
  if (!p.fused && config && config->family && config->family->fused_stacked) sizes.fused = FusedOrder::stacked;
  sizes.rotary_dim = p.rotary_dim.value_or(layer && !p.head_dim ? layer->rope.rotary_dim : sizes.head_dim);

  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.resolved_from = p.from.value_or(layer ? layer->layout : RopeLayout::half);
  s.resolved_to = s.resolved_from == RopeLayout::half ? RopeLayout::interleaved : RopeLayout::half;
  s.resolved_n_heads = sizes.n_heads;
  s.resolved_n_kv_heads = sizes.n_kv_heads;
  s.resolved_head_dim = sizes.head_dim;
  s.resolved_rotary_dim = sizes.rotary_dim;
  s.head_order = layout_rows(s.resolved_from, s.resolved_to, 1, sizes.head_dim, sizes.rotary_dim);

  if (p.model) {
    for (const PermutedTensor& t : permute_file(weights, *p.save_weights, s.resolved_from, s.resolved_to, sizes)) {
      report.rows.push_back({t.name, t.heads, t.moved_rows});
    }
    s.round_trip = true;
  } else {
    const auto moved = [&](std::int64_t heads) {
      const auto rows = layout_rows(s.resolved_from, s.resolved_to, heads, sizes.head_dim, sizes.rotary_dim);
      std::int64_t count = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) count += rows[r] != static_cast<std::int64_t>(r);
      return count;
    };
    report.rows.push_back({"q_proj", sizes.n_heads, moved(sizes.n_heads)});
    report.rows.push_back({"k_proj", sizes.n_kv_heads, moved(sizes.n_kv_heads)});
  }
  s.tensors = static_cast<std::int64_t>(report.rows.size());
  report.conclusion = fmt::format(
      "{} from {} to {}: a head's rows in the order {}.\nThe scores stay the same only if the rotation is told the new "
      "layout; with the old one the model would pair channels that do not belong together.",
      p.model ? "Rewritten" : "The rows move", to_word(s.resolved_from), to_word(s.resolved_to),
      fmt::join(std::vector<std::int64_t>(s.head_order.begin(),
                                          s.head_order.begin() + std::min<std::ptrdiff_t>(8, std::ssize(s.head_order))),
                ", "));
  if (s.head_order.size() > 8) report.conclusion += " (The order shows its first 8.)";
  if (p.model) report.conclusion += "\nTurned back, the written file gives the first one's tensors byte for byte.";
  return report;
}

Experiment describe_permute() {
  return describe<Params, Summary, Row>(
      "permute",
      "How do query and key weights move between the half and the interleaved layout, and which do they want?",
      "poslab permute --head-dim 16 --rotary-dim 8", run);
}

const Registrar registrar("permute", describe_permute);

}  // namespace
}  // namespace poslab

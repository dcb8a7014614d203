// How the described families are written down: a row is built from its defaults, one call for each thing that is not as
// in Llama. Sources: the configuration_*.py and modeling_*.py of transformers 5, or the code beside the weights.
#pragma once

#include <span>
#include <string_view>

#include "poslab/model_configs/family.h"

namespace poslab {

struct Row {
  Family f;

  constexpr operator Family() const { return f; }

  constexpr Row also(std::string_view first, std::string_view second = {}) const {
    return with([&](Family& c) { c.other_types = {first, second}; });
  }
  // Hugging Face's class.
  constexpr Row interleaved() const {
    return with([](Family& c) { c.hf.layout = RopeLayout::interleaved; });
  }
  constexpr Row reads(RopeReading v) const {
    return with([&](Family& c) { c.hf.reading = v; });
  }
  constexpr Row latent(bool interleave_key = true) const {
    return with([&](Family& c) {
      c.hf.layout = RopeLayout::interleaved;
      c.hf.reading = RopeReading::mla;
      c.hf.interleave_key = interleave_key;
    });
  }
  constexpr Row kv_heads(std::int64_t v) const {
    return with([&](Family& c) { c.hf.n_kv_heads = v; });
  }
  constexpr Row theta(double v) const {
    return with([&](Family& c) { c.hf.rope_theta = v; });
  }
  constexpr Row theta_key(std::string_view v) const {
    return with([&](Family& c) { c.hf.theta_key = v; });
  }
  constexpr Row partial_key(std::string_view v) const {
    return with([&](Family& c) { c.hf.partial_key = v; });
  }
  constexpr Row rotary_width_key(std::string_view v) const {
    return with([&](Family& c) { c.hf.rotary_width_key = v; });
  }
  // Its default type honours a partial factor; v is the class default, 0 for none.
  constexpr Row partial(double v) const {
    return with([&](Family& c) {
      c.hf.partial_rotary_factor = v;
      c.hf.default_type_is_partial = true;
    });
  }
  constexpr Row no_head_dim() const {
    return with([](Family& c) { c.hf.has_head_dim = false; });
  }
  constexpr Row divisible() const {
    return with([](Family& c) { c.hf.divisible = true; });
  }
  constexpr Row lists_layers_without() const {
    return with([](Family& c) { c.hf.lists_layers_without = true; });
  }
  constexpr Row full(FullAttention v) const {
    return with([&](Family& c) { c.hf.full_attention = v; });
  }
  constexpr Row table_after_padding() const {
    return with([](Family& c) { c.hf.table_after_padding = true; });
  }
  constexpr Row parameters(std::string_view v) const {
    return with([&](Family& c) { c.hf.rope_parameters = v; });
  }
  constexpr Row own(std::string_view v) const {
    return with([&](Family& c) { c.hf.own_keys = v; });
  }
  constexpr Row sets(RopeReading v, std::span<const LayerSet> layers) const {
    return with([&](Family& c) {
      c.hf.reading = v;
      c.hf.layers = layers;
    });
  }
  constexpr Row chooses(void (*choose)(ConfigText&, EncodingChoice&)) const {
    return with([&](Family& c) { c.hf.choose_encoding = choose; });
  }
  // Its architecture in GGUF files.
  constexpr Row gguf(GgufArchitecture v) const {
    return with([&](Family& c) { c.gguf = v; });
  }
  constexpr Row gguf(std::string_view name, RopeLayout layout = RopeLayout::half) const {
    return gguf({.name = name, .layout = layout});
  }
  // Its tensors.
  constexpr Row gated_queries() const {
    return with([](Family& c) { c.gated_queries = true; });
  }
  constexpr Row fused_heads_unsaid() const {
    return with([](Family& c) { c.fused_heads_unsaid = true; });
  }
  constexpr Row fused_stacked() const {
    return with([](Family& c) { c.fused_stacked = true; });
  }

 private:
  template <class Change>
  constexpr Row with(const Change& change) const {
    Row copy = *this;
    change(copy.f);
    return copy;
  }
};

constexpr Row other(std::string_view model_type, std::string_view name, std::string_view who, ModelEncoding encoding,
                    std::int64_t hidden_size, std::int64_t n_heads, std::int64_t max_positions) {
  Row row{{.name = name, .who = who, .model_type = model_type, .encoding = encoding}};
  row.f.hf.hidden_size = hidden_size;
  row.f.hf.n_heads = n_heads;
  row.f.hf.max_positions = max_positions;
  return row;
}

// head_dim 0: hidden_size / n_heads.
constexpr Row rotary(std::string_view model_type, std::string_view name, std::string_view who, std::int64_t hidden_size,
                     std::int64_t n_heads, std::int64_t head_dim, std::int64_t max_positions) {
  Row row = other(model_type, name, who, ModelEncoding::rope, hidden_size, n_heads, max_positions);
  row.f.hf.head_dim = head_dim;
  return row;
}

// A family whose GGUF files alone are known.
constexpr Row gguf_only(std::string_view name, std::string_view who, ModelEncoding encoding, GgufArchitecture v) {
  return Row{{.name = name, .who = who, .encoding = encoding, .gguf = v}};
}

}  // namespace poslab

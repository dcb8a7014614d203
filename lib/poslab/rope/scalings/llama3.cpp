// Llama 3.1: w_i where wavelength < O / high_freq_factor, w_i / k where wavelength > O / low_freq_factor, between them
// w_i / k (1 - s) + w_i s, s = (O / wavelength - low) / (high - low) (Meta, llama-models, apply_scaling, 2024).
#include <fmt/format.h>

#include <utility>

#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scaling_mistakes.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  const double k = required_factor(s);
  const double original = original_length(s);
  std::vector<double> inv_freq = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) {
    const double wavelength = two_pi / w;
    if (wavelength > original / s.low_freq_factor) {
      w /= k;
    } else if (wavelength >= original / s.high_freq_factor) {
      const double rotations = original / wavelength;
      w = blend(w, k, 1 - (rotations - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor));
    }
  }
  return {std::move(inv_freq), 1};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength) {
  const double original = original_length(s);
  const float factor = static_cast<float>(*s.factor);
  const float low = static_cast<float>(s.low_freq_factor);
  const float span = static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  const float long_wave = static_cast<float>(original / s.low_freq_factor);
  const float short_wave = static_cast<float>(original / s.high_freq_factor);
  std::vector<float> out = plain_inv_freq_f32(s.rope_theta, s.rotary_dim);
  for (float& w : out) {
    const float wavelength = static_cast<float>(two_pi) / w;
    if (wavelength > long_wave) {
      w = w / factor;
    } else if (wavelength >= short_wave) {
      const float keep = (static_cast<float>(original) / wavelength - low) / span;
      w = (1.0f - keep) * w / factor + keep * w;
    }
  }
  return out;
}

std::vector<std::string> doubts(const RopeScaling& s) {
  std::vector<std::string> out;
  if (s.high_freq_factor <= s.low_freq_factor) {
    out.push_back(
        fmt::format("high_freq_factor {} is not above low_freq_factor {}.", s.high_freq_factor, s.low_freq_factor));
  }
  if (s.max_position_embeddings && *s.original_max_position_embeddings >= *s.max_position_embeddings) {
    out.push_back(fmt::format("original_max_position_embeddings {} is not below max_position_embeddings {}.",
                              *s.original_max_position_embeddings, *s.max_position_embeddings));
  }
  return out;
}

std::string note(const RopeScaling&, double, std::int64_t) {
  return "llama.cpp reads the factors from the GGUF file: put rope_scaling into config.json and convert";
}

std::vector<ScalingMistake> mistakes(const RopeScaling& meant, FollowedLength seq_len) {
  MistakeList list(meant, seq_len);
  list.ignored("Llama-3 block ignored");
  const std::vector<double> plain = plain_inv_freq(meant.rotary_dim, meant.rope_theta);
  const double k = effective_factor(meant), original = original_length(meant);
  const auto stepped = [&](std::string word, double rotations) {
    list.frequencies(std::move(word), [&](std::vector<double>& inv_freq) {
      for (std::size_t i = 0; i < inv_freq.size(); ++i) {
        inv_freq[i] = original * plain[i] / two_pi > rotations ? plain[i] : plain[i] / k;
      }
    });
  };
  stepped("smoothing missing", meant.low_freq_factor);
  stepped("smoothing missing", meant.high_freq_factor);
  list.parameters("low_freq_factor and high_freq_factor swapped",
                  [](RopeScaling& s) { std::swap(s.low_freq_factor, s.high_freq_factor); });
  stepped("low_freq_factor and high_freq_factor swapped", meant.low_freq_factor);
  return list.take();
}

}  // namespace

const Scaling llama3_scaling{
    .word = "llama3",
    .title = "Llama 3.1's scaling",
    .sentence = "divides long wavelengths' frequencies by the factor, keeps short ones, and blends those between",
    .source = "Meta 2024, llama-models, apply_scaling",
    .used_by = "Llama 3.1, 3.2 and 3.3",
    .needs_original_length = true,
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .to_ggml = ggml_by_factors,
    .mistakes = mistakes,
    .config = {.required = {"factor", "low_freq_factor", "high_freq_factor"},
               .optional = {"original_max_position_embeddings"},
               .integers = {"original_max_position_embeddings"},
               .doubts = doubts},
    .engines = {.note = note},
};

}  // namespace poslab

// What `shuffle-test` takes and gives: the field lists of its parameters, summary and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poslab/attention/mask.h"
#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/rope/rope.h"

namespace poslab::shuffle_test_fields {

enum class Precision { f64, f32 };
constexpr auto words(Precision) { return word_table<Precision>({{Precision::f64, "f64"}, {Precision::f32, "f32"}}); }

enum class Verdict { equivariant, order_aware };
constexpr auto words(Verdict) {
  return word_table<Verdict>({{Verdict::equivariant, "equivariant"}, {Verdict::order_aware, "order-aware"}});
}

struct Params {
  PositionEncoding encoding{none_method()};
  MethodParams method;
  Mask mask = Mask::none;
  std::optional<std::string> words;
  std::optional<std::int64_t> seq_len;
  std::int64_t d_model = 8;
  std::int64_t n_heads = 1;
  std::optional<std::int64_t> n_kv_heads;
  std::optional<std::vector<std::int64_t>> order;
  Precision dtype = Precision::f64;
  std::int64_t seed = 0;
  double rtol = 1e-5;
  std::optional<double> atol;
  double rope_theta = 10000;
  std::optional<std::int64_t> rotary_dim;
  RopeLayout layout = RopeLayout::interleaved;

  static void fields(auto& self, auto&& field) {
    field("encoding", self.encoding, "what tells attention the positions 0 .. seq_len - 1");
    field("mask", self.mask, "causal: a token sees itself and the tokens before it");
    field("words", self.words, "a text; each distinct word gets one vector (default: every token its own vector)");
    field("seq_len", self.seq_len, "tokens in the text (default: the number of words, else 5)", "tokens");
    field("d_model", self.d_model, "values of a token's vector", "channels");
    field("n_heads", self.n_heads, "attention heads of d_model / n_heads channels");
    field("n_kv_heads", self.n_kv_heads, "heads of keys and values, each shared by a group (default: n_heads)");
    field("order", self.order,
          "the shuffle: place i takes token order[i] (default: 3,0,4,1,2 for five tokens, else drawn last)", "tokens");
    field("dtype", self.dtype, "element type of all arrays; draws are f64 and narrowed");
    field("seed", self.seed, "seed of the draws: X, W_q, W_k, W_v, a table, the order");
    field("rtol", self.rtol, "equal means |a - b| <= atol + rtol * |b|, as in numpy.allclose");
    field("atol", self.atol, "the absolute part of it (default: 1e-8, in f32 1e-5 times the largest output)");
    field("rope_theta", self.rope_theta, "rope: base of the frequencies");
    field("rotary_dim", self.rotary_dim, "rope: first channels of a head that turn (default: all)", "channels");
    field("layout", self.layout, "rope: which channels form a pair");
    MethodParams::fields(self.method, field);
  }
};

struct Summary {
  Verdict verdict = Verdict::equivariant;
  bool equivariant = false;
  double max_abs_diff = 0;
  std::int64_t worst_token = 0;
  std::optional<double> leaked_order;
  std::optional<bool> words_keep_output;
  std::optional<double> max_word_diff;
  std::int64_t resolved_seq_len = 0, resolved_n_kv_heads = 0;
  double resolved_atol = 0;

  static void fields(auto& self, auto&& field) {
    field("verdict", self.verdict, "whether shuffling the input only shuffles the output");
    field("equivariant", self.equivariant, "the same as true or false");
    field("max_abs_diff", self.max_abs_diff, "largest |attention(X[order]) - attention(X)[order]|");
    field("worst_token", self.worst_token, "the token, by its place in the text, where that is");
    field("leaked_order", self.leaked_order,
          "causal mask without an encoding: the root mean square of the difference over that of the output");
    field("words_keep_output", self.words_keep_output, "every word has one output wherever it stands");
    field("max_word_diff", self.max_word_diff, "largest difference between two outputs of one word");
    field("resolved_seq_len", self.resolved_seq_len, "tokens in the text", "tokens");
    field("resolved_n_kv_heads", self.resolved_n_kv_heads, "heads of keys and values");
    field("resolved_atol", self.resolved_atol, "the absolute tolerance used");
  }
};

struct Row {
  std::int64_t position = 0, token = 0;
  std::optional<std::string> word;
  double diff = 0;
  bool same = false;
  std::optional<double> word_diff;
  std::optional<bool> word_same;

  static void fields(auto& self, auto&& field) {
    field("position", self.position, "place in the shuffled text", "tokens");
    field("token", self.token, "place in the text", "tokens");
    field("word", self.word, "the word there");
    field("max_abs_diff", self.diff, "largest difference between the token's outputs in the two texts");
    field("same", self.same, "all its channels are equal within rtol and atol");
    field("word_diff", self.word_diff, "the same against the word's first occurrence in the text");
    field("word_same", self.word_same, "equal to it within rtol and atol in both texts");
  }
};

}  // namespace poslab::shuffle_test_fields

// What `table` takes and gives: the field lists of its parameters, summary and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/rope/rope.h"

namespace poslab::table_fields {

struct Params {
  std::optional<PositionEncoding> encoding;
  MethodParams method;
  std::optional<std::int64_t> seq_len, d_model;
  std::int64_t head_dim = 16;
  std::optional<std::int64_t> rotary_dim;
  double rope_theta = 10000;
  RopeLayout layout = RopeLayout::interleaved;
  std::int64_t n_heads = 8;
  std::int64_t first_relative_position = -130, last_relative_position = 130;
  std::optional<FilePath> position_table;
  std::int64_t seed = 0;
  DType dtype = DType::f64;
  std::optional<std::int64_t> similar_to;
  std::int64_t top = 5;
  std::optional<FilePath> compare_with;

  static void fields(auto& self, auto&& field) {
    field("encoding", self.encoding,
          "whose table; absent: that of position_table, else the waves of the first transformer");
    MethodParams::fields(self.method, [&](std::string_view name, auto& value, auto... texts) {
      // The experiment's own parameters keep the places that they had before there was a list of methods.
      if (name == "base") vector_fields(self, field);
      if (name == "alibi_bias_max") head_fields(self, field);
      field(name, value, texts...);
    });
    field("first_relative_position", self.first_relative_position, "buckets: first key minus query", "tokens");
    field("last_relative_position", self.last_relative_position, "buckets: last key minus query", "tokens");
    field("position_table", self.position_table, "learned: a .npy of rows x columns; absent: drawn from seed");
    field("seed", self.seed, "seed of what the method learns, drawn as before training");
    field("dtype", self.dtype, "element type that values are narrowed to, once (buckets stay as they are)");
    field("similar_to", self.similar_to,
          "rank all positions by their vector's product with this one's, in f64; absent: no ranking", "tokens");
    field("top", self.top, "how many of the ranking to show", "positions");
    field("compare_with", self.compare_with, "your own table as .npy: how far it is, and which variant it fits best");
  }

  static void vector_fields(auto& self, auto&& field) {
    field("seq_len", self.seq_len,
          "positions, or distances, 0 .. seq_len - 1; absent: the rows of position_table or compare_with, else 64",
          "tokens");
    field("d_model", self.d_model,
          "length of a vector added to the tokens; absent: the columns of position_table or compare_with, else 32",
          "channels");
  }
  static void head_fields(auto& self, auto&& field) {
    field("head_dim", self.head_dim, "rotations: channels of a head", "channels");
    field("rotary_dim", self.rotary_dim, "rotations: channels that turn; absent: head_dim", "channels");
    field("rope_theta", self.rope_theta, "rotations: base of the frequencies");
    field("layout", self.layout, "rope: where the cos and sin of a pair stand");
    field("n_heads", self.n_heads, "biases: heads, any number", "heads");
  }
};

struct Summary {
  PositionEncoding resolved_encoding;
  std::string formula, source;
  std::int64_t n_rows = 0, n_values = 0;
  std::optional<double> shortest_wavelength, longest_wavelength;
  std::optional<std::vector<std::int64_t>> most_similar;
  std::optional<std::vector<double>> similarities;
  std::optional<std::vector<std::int64_t>> ties;
  std::optional<double> max_abs_diff;
  std::optional<std::int64_t> worst_position, worst_channel;
  std::optional<std::string> best_variant;
  std::optional<std::vector<std::string>> compared_variants;
  std::optional<std::vector<double>> compared_max_abs_diff;

  static void fields(auto& self, auto&& field) {
    field("resolved_encoding", self.resolved_encoding, "whose table this is");
    field("formula", self.formula, "how a value is computed; p is the position");
    field("source", self.source, "where the formula comes from");
    field("n_rows", self.n_rows, "rows of the table");
    field("n_values", self.n_values, "values in a row");
    field("shortest_wavelength", self.shortest_wavelength, "of the fastest wave", "tokens");
    field("longest_wavelength", self.longest_wavelength, "of the slowest wave", "tokens");
    field("most_similar", self.most_similar, "positions by similarity, best first, the lower first within a tie",
          "tokens");
    field("similarities", self.similarities, "product of each one's vector with that of similar_to");
    field("ties", self.ties,
          "rank of each: 1, 2, 2, 4, 4; equal distances tie by formula, in a learned table equal bits do");
    field("max_abs_diff", self.max_abs_diff, "largest difference from the table of compare_with");
    field("worst_position", self.worst_position, "where it is", "tokens");
    field("worst_channel", self.worst_channel, "where it is");
    field("best_variant", self.best_variant, "variant (rope: layout) that fits compare_with best");
    field("compared_variants", self.compared_variants, "what compare_with was compared to");
    field("compared_max_abs_diff", self.compared_max_abs_diff, "the largest difference from each");
  }
};

struct Row {
  std::optional<std::int64_t> position, head, pair, relative_position, bucket;
  std::optional<double> slope;
  std::vector<double> values;

  static void fields(auto& self, auto&& field) {
    field("position", self.position, "place in the text", "tokens");
    field("head", self.head, "attention head");
    field("pair", self.pair, "pair of channels that rotate");
    field("slope", self.slope, "penalty per token of distance", "score/token");
    field("relative_position", self.relative_position, "key minus query", "tokens");
    field("bucket", self.bucket, "which learned number is added to the score");
    field("values", self.values, "the position's vector, or the bias or decay at distances 0, 1, 2, ...");
  }
};

}  // namespace poslab::table_fields

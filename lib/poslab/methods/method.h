// What a positional method is: where it acts in a transformer, what it does there, its parameters, what it learns. One
// file pair each; methods/list.h names them all, and everything else asks a method instead of knowing it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/attention/score_bias.h"
#include "poslab/core/fields.h"
#include "poslab/core/random.h"
#include "poslab/methods/method_table.h"
#include "poslab/rope/rope.h"

namespace poslab {

struct MethodParams;  // methods/list.h: the parameters of all methods

// The places of a transformer where a method can act.
//   input        a vector per position is added to the tokens' vectors
//   rotation     queries and keys rotate by their positions
//   score_bias   a number is added to each score
//   positions    queries and keys get other positions than their places in the text
//   logit_scale  scores are multiplied by a number that depends on the positions
//   content      what is added or changed depends on the tokens themselves
enum class Place { input, rotation, score_bias, positions, logit_scale, content };
constexpr auto words(Place) {
  return word_table<Place>({{Place::input, "input"},
                            {Place::rotation, "rotation"},
                            {Place::score_bias, "score_bias"},
                            {Place::positions, "positions"},
                            {Place::logit_scale, "logit_scale"},
                            {Place::content, "content"}});
}

// What a method's hooks may know of the model that they serve.
struct MethodModel {
  const MethodParams& params;
  std::int64_t d_model = 1, n_heads = 1, head_dim = 1;
  std::int64_t max_position_embeddings = 1;  // tokens; the rows of a learned table, else the trained length
  bool causal = true;                        // a token sees none after it
};

// A tensor of learned values, all layers share it; its name stands behind "model.".
struct MethodTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Vectors that are added to the tokens' at the input.
class InputVectors {
 public:
  virtual ~InputVectors() = default;
  // Those of positions first_position, first_position + 1, ..., into out, whose size is a multiple of d_model.
  virtual void fill(std::int64_t first_position, std::span<double> out) const = 0;
};

class Method {
 public:
  virtual ~Method() = default;

  virtual std::string_view word() const = 0;
  // What it does, as the end of a sentence that starts with its name.
  virtual std::string_view sentence() const = 0;
  virtual std::string_view source() const = 0;   // paper and equation
  virtual std::string_view used_by() const = 0;  // models, or "-"
  virtual std::vector<Place> places() const = 0;
  bool acts_on(Place place) const;

  // Its own parameters, by the names that they have in MethodParams.
  virtual std::vector<FieldSpec> parameters() const { return {}; }
  // Parameters that follow from the trained length where they are absent.
  virtual void set_defaults(MethodParams& /*params*/, std::int64_t /*trained_length*/) const {}
  // Throws std::invalid_argument, "[method] ...", for parameters out of range.
  virtual void check(const MethodModel& /*model*/) const {}
  // The longest text it has positions for; absent: any.
  virtual std::optional<std::int64_t> longest_text(const MethodModel& /*model*/) const { return std::nullopt; }

  // What it learns, side by side in this order, and the values before training.
  virtual std::vector<MethodTensor> tensors(const MethodModel& /*model*/) const { return {}; }
  virtual void initialise(const MethodModel& /*model*/, Generator& /*generator*/, std::span<double> /*values*/) const {}

  // Place::input. The vectors, from the learned values where it has such; token vectors are multiplied by token_scale
  // first.
  virtual std::unique_ptr<const InputVectors> input(const MethodModel& /*model*/,
                                                    std::vector<double> /*learned*/) const {
    return nullptr;
  }
  virtual std::string input_formula(const MethodParams& /*params*/) const { return ""; }  // of position p
  // The learned values are the vectors themselves, [max_position_embeddings, d_model].
  virtual bool learns_input() const { return false; }
  virtual double token_scale(const MethodModel& /*model*/) const { return 1; }

  // Place::rotation. By what each pair of a query at a position is also multiplied, and of a key divided; empty: 1.
  virtual PairGrowth growth(const MethodModel& /*model*/, std::int64_t /*n_pairs*/) const { return {}; }
  // The rotation alone acts, so that frequencies can be scaled for longer texts.
  virtual bool is_plain_rotation() const { return false; }

  // Place::score_bias.
  virtual std::shared_ptr<const PositionBias> bias(const MethodModel& /*model*/,
                                                   std::span<const double> /*learned*/) const {
    return nullptr;
  }

  // Its word in a config's position_embedding_type, and whether poslab's Llama checkpoints can say all of it.
  virtual std::string_view config_word() const { return word(); }
  virtual bool fits_llama_config(const MethodParams& /*params*/) const { return false; }

  // Keys of Hugging Face configs beside its own parameters' names, and whether what it does depends on the heads.
  virtual std::vector<std::pair<std::string_view, std::string_view>> config_keys() const { return {}; }
  virtual bool depends_on_heads() const { return false; }

  // What `table` shows of it; by default the bias by distance. Empty: nothing.
  virtual MethodTable table(const TableRequest& request) const;
  // A command that shows it at work.
  virtual std::string shown_by() const;
};

// The learned values before training, drawn in the order of the tensors.
std::vector<double> initial_values(const Method& method, const MethodModel& model, Generator& generator);
std::int64_t learned_size(const Method& method, const MethodModel& model);

// One of the methods of the list.
class PositionEncoding {
 public:
  PositionEncoding() : PositionEncoding("rope") {}
  // Throws std::invalid_argument "[method] ..." for a word that is not on the list.
  explicit PositionEncoding(std::string_view word);
  explicit PositionEncoding(const Method& method) : method_(&method) {}

  static std::vector<std::string_view> words();
  static PositionEncoding from_word(std::string_view word) { return PositionEncoding(word); }
  std::string_view word() const { return method_->word(); }

  const Method& operator*() const { return *method_; }
  const Method* operator->() const { return method_; }
  bool operator==(const PositionEncoding& other) const = default;

 private:
  const Method* method_;
};

// In the list's order.
const std::vector<const Method*>& all_methods();
// The method that has a parameter of this name, or null.
const Method* method_with_parameter(std::string_view name);

// Refuses parameters that were given and belong to another method: throws std::invalid_argument "[where] ...". What
// differs from its default was given.
void require_own_parameters(std::string_view where, const Method& method, const MethodParams& params);

}  // namespace poslab

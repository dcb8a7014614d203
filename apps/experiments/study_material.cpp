#include "experiments/study_material.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace poslab {

StudyMaterial::StudyMaterial(const std::optional<std::string>& text, Task task, std::int64_t longest) {
  if (!text) {
    name_ = fmt::format("task {}", to_word(task));
    source_ = task_source(task);
    return;
  }
  name_ = *text;
  const std::string characters = read_text(*text);
  const Vocabulary vocabulary = Vocabulary::characters_of(characters);
  std::vector<std::int64_t> tokens = vocabulary.encode(characters);
  const auto held_out = tokens.size() / 10;
  held_out_ = next_tokens(std::span(tokens).last(held_out));
  tokens.resize(tokens.size() - held_out);
  source_ = text_source(std::move(tokens), vocabulary.size(), longest);
}

std::string StudyMaterial::identity() const {
  if (!held_out_) return source_->identity();
  return source_->identity() + ", " + text_source(held_out_->tokens, source_->vocab_size(), 1)->identity();
}

EvaluationText StudyMaterial::asked(std::int64_t length, std::int64_t positions) const {
  const std::int64_t n = std::max<std::int64_t>(1, positions / length);
  if (held_out_) {
    EvaluationText text = *held_out_;
    const auto size = static_cast<std::size_t>(std::min(n, text.size() / length) * length);
    if (size == 0) {
      throw std::invalid_argument(fmt::format(
          "[study] the last tenth of the text has {} tokens, too few for a length of {}.", text.size() + 1, length));
    }
    text.tokens.resize(size);
    text.targets.resize(size);
    return text;
  }
  constexpr std::int64_t seed = 0x5eed;
  EvaluationText text;
  text.tokens.resize(static_cast<std::size_t>(n * length));
  text.targets.resize(text.tokens.size());
  Generator generator(seed);
  source_->draw(generator, n, length, text.tokens, text.targets);
  return text;
}

}  // namespace poslab

#include "poslab/models/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "poslab/models/transformer.h"

namespace poslab {
namespace {

constexpr std::int64_t symbols = 16;            // copy, reverse
constexpr std::int64_t keys = 16, values = 16;  // induction: tokens 0 .. 15 and 16 .. 31
constexpr std::int64_t modulus = 23;            // modular addition; the token after the numbers is "="
constexpr std::int64_t passkeys = 16, filler = 8, mark = passkeys + filler;

using Tokens = std::span<std::int64_t>;

void fill_copy(Generator& generator, bool backwards, Tokens tokens, Tokens targets) {
  const std::int64_t n = std::ssize(tokens);
  const std::int64_t half = n / 2;  // symbols before the separator
  const auto again = [&](std::int64_t i) { return tokens[backwards ? half - 1 - i % half : i % half]; };
  for (std::int64_t i = 0; i < half; ++i) tokens[i] = generator.integer(0, symbols);
  tokens[half] = symbols;
  for (std::int64_t i = half + 1; i < n; ++i) tokens[i] = again(i - half - 1);
  std::fill(targets.begin(), targets.end(), no_target);
  for (std::int64_t i = half; i < std::min(n, 2 * half); ++i) targets[i] = again(i - half);
}

// From the front or from the back, so that the last token is a key.
void fill_pairs(Generator& generator, std::int64_t first, Tokens tokens, Tokens targets) {
  std::vector<std::int64_t> value_of(keys);
  for (std::int64_t& value : value_of) value = keys + generator.integer(0, values);
  std::vector<bool> seen(keys);
  std::fill(targets.begin(), targets.end(), no_target);
  if (first == 1) tokens[0] = keys + generator.integer(0, values);
  for (std::int64_t i = first; i < std::ssize(tokens); i += 2) {
    const std::int64_t key = generator.integer(0, keys);
    tokens[i] = key;
    if (seen[key]) targets[i] = value_of[key];
    seen[key] = true;
    if (i + 1 < std::ssize(tokens)) tokens[i + 1] = value_of[key];
  }
}

// Filler 16, 17, ... 23 over and over, the mark and the key at `place` and behind it, the mark at the end.
std::int64_t fill_passkey(Generator& generator, std::int64_t place, Tokens tokens) {
  const std::int64_t start = generator.integer(0, filler);
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) tokens[i] = passkeys + (start + i) % filler;
  const std::int64_t key = generator.integer(0, passkeys);
  tokens[place] = mark;
  tokens[place + 1] = key;
  tokens.back() = mark;
  return key;
}

void check_length(std::int64_t n) {
  if (n < 8) throw std::invalid_argument(fmt::format("[task] a text needs at least 8 tokens but has {}.", n));
}

}  // namespace

std::int64_t task_vocab_size(Task task) {
  switch (task) {
    case Task::copy:
    case Task::reverse:
      return symbols + 1;
    case Task::induction:
      return keys + values;
    case Task::passkey:
      return mark + 1;
    case Task::modular_addition:
      return modulus + 1;
    case Task::parity:
      return 2;
  }
  return 0;
}

void draw_task(Task task, Generator& generator, Tokens tokens, Tokens targets) {
  const std::int64_t n = std::ssize(tokens);
  check_length(n);
  switch (task) {
    case Task::copy:
    case Task::reverse:
      return fill_copy(generator, task == Task::reverse, tokens, targets);
    case Task::induction:
      return fill_pairs(generator, generator.integer(0, 2), tokens, targets);
    case Task::passkey:
      std::fill(targets.begin(), targets.end(), no_target);
      targets[n - 1] = fill_passkey(generator, generator.integer(0, n - 2), tokens);
      return;
    case Task::modular_addition:
      std::fill(targets.begin(), targets.end(), no_target);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t part = i % 4;
        if (part < 2) tokens[i] = generator.integer(0, modulus);
        if (part == 2) {
          tokens[i] = modulus;
          targets[i] = (tokens[i - 2] + tokens[i - 1]) % modulus;
        }
        if (part == 3) tokens[i] = targets[i - 1];
      }
      return;
    case Task::parity:
      for (std::int64_t i = 0, ones = 0; i < n; ++i) {
        tokens[i] = generator.integer(0, 2);
        ones += tokens[i];
        targets[i] = ones % 2;
      }
      return;
  }
}

std::int64_t draw_recall(Task task, Generator& generator, std::int64_t distance, Tokens tokens) {
  const std::int64_t n = std::ssize(tokens);
  check_length(n);
  if (task != Task::induction && task != Task::passkey) {
    throw std::invalid_argument(fmt::format("[task] {} has no distance; use induction or passkey.", to_word(task)));
  }
  if (distance < 2 || distance > n - 2) {
    throw std::invalid_argument(fmt::format("[task] distance must be 2 .. {} but got {}.", n - 2, distance));
  }
  if (task == Task::passkey) return fill_passkey(generator, n - 2 - distance, tokens);
  // The value asked for stands behind its key, an odd number of tokens before the question.
  const std::int64_t key_at = n - 2 - distance - (distance % 2 == 0 ? 1 : 0);
  const std::int64_t place = key_at < 0 ? key_at + 2 : key_at;
  std::vector<std::int64_t> unused(tokens.size());
  fill_pairs(generator, (n - 1) % 2, tokens, unused);
  const std::int64_t key = tokens[place];
  // No other pair between may have the same key; it gets one that differs, and the value of that one's own.
  std::vector<std::int64_t> value_of(keys, -1);
  for (std::int64_t i = (n - 1) % 2; i + 1 < n; i += 2) value_of[tokens[i]] = tokens[i + 1];
  const std::int64_t other = (key + 1 + generator.integer(0, keys - 1)) % keys;
  if (value_of[other] < 0) value_of[other] = keys + generator.integer(0, values);
  for (std::int64_t i = (n - 1) % 2; i + 1 < n; i += 2) {
    if (i == place || tokens[i] != key) continue;
    tokens[i] = other;
    tokens[i + 1] = value_of[other];
  }
  tokens[n - 1] = key;
  return tokens[place + 1];
}

std::int64_t recall_answers(Task task) { return task == Task::passkey ? passkeys : values; }

}  // namespace poslab

#include "poslab/models/tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "poslab/models/transformer.h"

using namespace poslab;

namespace {

struct Text {
  std::vector<std::int64_t> tokens, targets;
};

Text drawn(Task task, std::int64_t n, std::int64_t seed) {
  Generator generator(seed);
  Text text{std::vector<std::int64_t>(static_cast<std::size_t>(n)),
            std::vector<std::int64_t>(static_cast<std::size_t>(n))};
  draw_task(task, generator, text.tokens, text.targets);
  for (std::int64_t token : text.tokens) CHECK((token >= 0 && token < task_vocab_size(task)));
  for (std::int64_t target : text.targets) CHECK((target >= no_target && target < task_vocab_size(task)));
  CHECK(std::count(text.targets.begin(), text.targets.end(), no_target) < n);
  return text;
}

}  // namespace

TEST_CASE("each task asks for what its description says") {
  for (std::size_t n : {8, 9, 33, 64}) {
    for (std::int64_t seed : {0, 1, 2}) {
      CAPTURE(n);
      const auto length = static_cast<std::int64_t>(n);
      const Text copy = drawn(Task::copy, length, seed), reverse = drawn(Task::reverse, length, seed);
      const std::size_t half = n / 2;
      for (std::size_t i = 0; half + i < n && i < half; ++i) {
        CHECK(copy.targets[half + i] == copy.tokens[i]);
        CHECK(reverse.targets[half + i] == reverse.tokens[half - 1 - i]);
        if (half + i + 1 < n) CHECK(copy.targets[half + i] == copy.tokens[half + i + 1]);
      }
      CHECK(copy.tokens[half] == 16);
      CHECK(copy.targets[half - 1] == no_target);

      const Text passkey = drawn(Task::passkey, length, seed);
      const auto mark = std::find(passkey.tokens.begin(), passkey.tokens.end(), passkey.tokens.back());
      CHECK(passkey.targets.back() == *(mark + 1));

      const Text sums = drawn(Task::modular_addition, length, seed);
      for (std::size_t i = 2; i < n; i += 4) CHECK(sums.targets[i] == (sums.tokens[i - 2] + sums.tokens[i - 1]) % 23);

      const Text parity = drawn(Task::parity, length, seed);
      std::int64_t ones = 0;
      for (std::size_t i = 0; i < n; ++i) CHECK(parity.targets[i] == (ones += parity.tokens[i]) % 2);
    }
  }
  const Text pairs = drawn(Task::induction, 200, 5);
  std::map<std::int64_t, std::int64_t> value_of;
  for (std::size_t i = 0; i + 1 < 200; ++i) {
    if (pairs.tokens[i] >= 16) continue;
    const auto known = value_of.find(pairs.tokens[i]);
    CHECK(pairs.targets[i] == (known == value_of.end() ? no_target : known->second));
    value_of[pairs.tokens[i]] = pairs.tokens[i + 1];
  }
  CHECK(value_of.size() == 16);
  Generator generator(1);
  std::vector<std::int64_t> few(7);
  CHECK_THROWS_AS(draw_task(Task::copy, generator, few, few), std::invalid_argument);
}

TEST_CASE("recall puts the answer at its distance, once") {
  for (Task task : {Task::induction, Task::passkey}) {
    for (std::int64_t n : {20, 21}) {
      for (std::int64_t distance = 2; distance <= n - 2; ++distance) {
        CAPTURE(to_word(task));
        CAPTURE(n);
        CAPTURE(distance);
        Generator generator(distance);
        std::vector<std::int64_t> tokens(static_cast<std::size_t>(n));
        const std::int64_t answer = draw_recall(task, generator, distance, tokens);
        std::vector<std::int64_t> places;
        for (std::int64_t i = 0; i + 1 < n; ++i) {
          if (tokens[static_cast<std::size_t>(i)] == tokens.back()) places.push_back(i);
        }
        REQUIRE(places.size() == 1);
        CHECK(tokens[static_cast<std::size_t>(places[0] + 1)] == answer);
        const std::int64_t actual = n - 1 - (places[0] + 1);
        CHECK(std::abs(actual - distance) <= (task == Task::passkey ? 0 : 1));
      }
    }
  }
  Generator generator(0);
  std::vector<std::int64_t> tokens(20);
  CHECK_THROWS_AS(draw_recall(Task::copy, generator, 4, tokens), std::invalid_argument);
  CHECK_THROWS_AS(draw_recall(Task::passkey, generator, 19, tokens), std::invalid_argument);
}

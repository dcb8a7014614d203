#include "poslab/models/tasks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "poslab/models/corpus.h"
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

TEST_CASE("over many seeds every place and answer occurs, and no distractor is the key") {
  std::map<std::int64_t, int> answers;
  for (std::int64_t seed = 0; seed < 2000; ++seed) {
    Generator generator(seed);
    std::vector<std::int64_t> tokens(40);
    const std::int64_t answer = draw_recall(Task::induction, generator, 20, tokens);
    ++answers[answer];
    CAPTURE(seed);
    CHECK(std::count(tokens.begin(), tokens.end() - 1, tokens.back()) == 1);
  }
  CHECK(answers.size() == 16);

  std::map<std::int64_t, int> places, keys;
  for (std::int64_t seed = 0; seed < 500; ++seed) {
    Generator generator(seed);
    std::vector<std::int64_t> tokens(16), targets(16);
    draw_task(Task::passkey, generator, tokens, targets);
    const auto mark = std::find(tokens.begin(), tokens.end(), tokens.back());
    ++places[mark - tokens.begin()];
    ++keys[targets.back()];
    CHECK(*(mark + 1) == targets.back());
  }
  CHECK(places.size() == 14);
  CHECK(places.begin()->first == 0);
  CHECK(places.rbegin()->first == 13);
  CHECK(keys.size() == 16);
}

TEST_CASE("stretches of a text start everywhere in it, the last start included") {
  std::vector<std::int64_t> text(20);
  std::iota(text.begin(), text.end(), 0);
  const auto source = text_source(text, 20, 16);
  std::map<std::int64_t, int> starts;
  Generator generator(1);
  std::vector<std::int64_t> tokens(16), targets(16);
  for (int i = 0; i < 400; ++i) {
    source->draw(generator, 1, 16, tokens, targets);
    ++starts[tokens[0]];
    CHECK(targets.back() == tokens[0] + 16);
  }
  CHECK(starts.size() == 4);
  CHECK(starts.rbegin()->first == 3);
  for (const auto& [start, times] : starts) CHECK(times > 60);
}

#include "poslab/methods/method.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "poslab/methods/list.h"

using namespace poslab;

TEST_CASE("every method of the list says what it is, and its parameters are its own") {
  std::set<std::string_view> words;
  std::set<std::string> parameters;
  for (const Method* method : all_methods()) {
    CAPTURE(method->word());
    CHECK(words.insert(method->word()).second);
    CHECK(PositionEncoding(method->word()).word() == method->word());
    CHECK(!method->sentence().empty());
    CHECK(!method->source().empty());
    CHECK(!method->used_by().empty());
    for (const FieldSpec& spec : method->parameters()) CHECK(parameters.insert(spec.name).second);
  }
  for (const FieldSpec& spec : field_specs<MethodParams>()) CHECK(parameters.erase(spec.name) == 1);
  CHECK(parameters.empty());
  CHECK_THROWS_WITH(PositionEncoding("nope"), "[method] there is no method 'nope'.");
}

TEST_CASE("a parameter of another method is refused with whose it is") {
  MethodParams params;
  CHECK_NOTHROW(require_own_parameters("here", none_method(), params));
  params.kerple_r1 = 1;
  CHECK_NOTHROW(require_own_parameters("here", kerple_method(), params));
  CHECK_THROWS_WITH(require_own_parameters("here", fire_method(), params),
                    "[here] kerple_r1 is a parameter of kerple; fire has not this one.");
  CHECK_THROWS_WITH(require_own_parameters("here", none_method(), params),
                    "[here] kerple_r1 is a parameter of kerple; none has none.");
}

TEST_CASE_TEMPLATE("the rows that a model adds are the formula's numbers", T, float, double) {
  MethodParams params;
  params.fire_length = 6;  // queries on both sides of it
  const MethodModel model{params, 8, 3, 8, 16, true};
  int biases = 0;
  for (const Method* method : all_methods()) {
    Generator generator(5);
    const auto bias = method->bias(model, initial_values(*method, model, generator));
    CHECK((bias != nullptr) == method->acts_on(Place::score_bias));
    if (!bias) continue;
    ++biases;
    CAPTURE(method->word());
    const auto rows = score_bias_rows<T>(bias, 16);
    for (std::int64_t head = 0; head < 3; ++head) {
      for (std::int64_t query = 0; query < 16; ++query) {
        std::vector<T> scores(16, T{2});
        const std::int64_t first = query / 3;
        rows->add(head, query, first, query - first + 1, scores.data());
        for (std::int64_t key = first; key <= query; ++key) {
          const double at = bias->at(head, static_cast<double>(query), static_cast<double>(key));
          CHECK(std::abs(static_cast<double>(scores[static_cast<std::size_t>(key - first)]) - 2 - at) <
                (sizeof(T) == 4 ? 2e-6 : 1e-14));
        }
      }
    }
  }
  CHECK(biases >= 4);
}

TEST_CASE("KERPLE's bias by hand") {
  MethodParams params;
  params.kerple_r1 = 1.5;
  params.kerple_r2 = 0.25;
  const MethodModel model{params, 8, 2, 4, 16, true};
  Generator generator(0);
  const auto bias = kerple_method().bias(model, initial_values(kerple_method(), model, generator));
  CHECK(bias->at(1, 12, 8) == doctest::Approx(-1.5 * std::log(2.0)).epsilon(1e-14));
  CHECK(bias->at(0, 3, 3) == 0);
}

#include "poslab/methods/method.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "poslab/methods/list.h"

namespace poslab {

bool Method::acts_on(Place place) const {
  const std::vector<Place> all = places();
  return std::find(all.begin(), all.end(), place) != all.end();
}

MethodTable Method::table(const TableRequest& request) const {
  Generator generator(request.seed);
  const std::vector<double> learned = initial_values(*this, request.model, generator);
  const std::shared_ptr<const PositionBias> of = bias(request.model, learned);
  if (!of) return {};
  DistanceTable table;
  table.formula = sentence();
  table.source = source();
  table.title = "bias by distance, the first heads";
  table.rows = of->n_heads();
  table.at = [of, last = request.rows - 1](std::int64_t head, std::int64_t distance) {
    return of->at(head, static_cast<double>(last), static_cast<double>(last - distance));
  };
  table.slope = [of](std::int64_t head) { return of->slope(head); };
  table.conclusion = fmt::format("{} {}.\n", word(), sentence());
  if (!learned.empty())
    table.conclusion += fmt::format("Values as before training, drawn from seed {}.\n", request.seed);
  MethodTable out;
  out.by_distance = std::move(table);
  return out;
}

std::string Method::shown_by() const { return fmt::format("poslab table --encoding {}", word()); }

std::int64_t learned_size(const Method& method, const MethodModel& model) {
  std::int64_t total = 0;
  for (const MethodTensor& tensor : method.tensors(model)) {
    std::int64_t size = 1;
    constexpr std::int64_t most = std::int64_t{1} << 28;
    for (std::int64_t length : tensor.shape) {
      if (length < 1) {
        throw std::invalid_argument(
            fmt::format("[method] {} needs sizes of at least 1 but got {}.", method.word(), length));
      }
      if (__builtin_mul_overflow(size, length, &size) || size > most) {
        throw std::invalid_argument(fmt::format("[method] {} would learn more than {} values.", method.word(), most));
      }
    }
    total += size;
  }
  return total;
}

std::vector<double> initial_values(const Method& method, const MethodModel& model, Generator& generator) {
  std::vector<double> values(static_cast<std::size_t>(learned_size(method, model)));
  if (!values.empty()) method.initialise(model, generator, values);
  return values;
}

const std::vector<const Method*>& all_methods() {
  static const std::vector<const Method*> methods = [] {
    std::vector<const Method*> all;
    for (const auto named : listed_methods()) all.push_back(&named());
    return all;
  }();
  return methods;
}

PositionEncoding::PositionEncoding(std::string_view word) : method_(nullptr) {
  for (const Method* method : all_methods()) {
    if (method->word() == word) method_ = method;
  }
  if (!method_) throw std::invalid_argument(fmt::format("[method] there is no method '{}'.", word));
}

std::vector<std::string_view> PositionEncoding::words() {
  std::vector<std::string_view> words;
  for (const Method* method : all_methods()) words.push_back(method->word());
  return words;
}

const Method* method_with_parameter(std::string_view name) {
  for (const Method* method : all_methods()) {
    for (const FieldSpec& spec : method->parameters()) {
      if (spec.name == name) return method;
    }
  }
  return nullptr;
}

void require_own_parameters(std::string_view where, const Method& method, const MethodParams& params) {
  const std::vector<FieldSpec> specs = field_specs<MethodParams>();
  const Record given = to_record(params);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (given[i] == specs[i].fallback) continue;
    const std::vector<FieldSpec> own = method.parameters();
    if (std::any_of(own.begin(), own.end(), [&](const FieldSpec& spec) { return spec.name == specs[i].name; }))
      continue;
    const Method* owner = method_with_parameter(specs[i].name);
    throw std::invalid_argument(fmt::format("[{}] {} is a parameter of {}; {} has {}.", where, specs[i].name,
                                            owner ? owner->word() : "no method", method.word(),
                                            own.empty() ? "none" : "not this one"));
  }
}

}  // namespace poslab

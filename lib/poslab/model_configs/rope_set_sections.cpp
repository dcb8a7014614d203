// What a RopeSetReader reads of positions on several axes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "poslab/model_configs/rope_set.h"

namespace poslab {

void RopeSetReader::read_sections(LayerPositions& layer, const RopeSet& set) {
  const Given* given = find(set, "mrope_section");
  if (!given || given->value.is_null()) return;
  if (!given->value.is_array() || given->value.empty()) {
    fail("{} must be a list of whole numbers but is {}", given->source, shown(given->value));
  }
  std::int64_t sum = 0;
  for (const json& v : given->value) {
    if (!v.is_number_integer() || v.get<std::int64_t>() < 0 || v.get<std::int64_t>() > most_size) {
      fail("{} must be a list of whole numbers but holds {}", given->source, shown(v));
    }
    layer.mrope_section.push_back(v.get<std::int64_t>());
    sum += layer.mrope_section.back();
  }
  add(layer, "mrope_section", shown(given->value), given->source);

  const Given* alternate = find(set, "mrope_interleaved");
  const bool of_class = is_own_key("mrope_interleaved");
  if (alternate ? truthy(alternate->value) : of_class) {
    layer.multi_axis = MultiAxis::from_word("mrope_alternate");
  } else if (is_own_key("mrope_section") || alternate) {
    layer.multi_axis = MultiAxis::from_word("mrope");
  }
  const std::int64_t n_pairs = layer.rope.rotary_dim / 2;
  if (layer.multi_axis) {
    add(layer, "multi_axis", std::string(layer.multi_axis->word()),
        alternate ? alternate->source : text_.class_default());
    if (const std::string problem = sections_problem(*layer.multi_axis, n_pairs, layer.mrope_section);
        !problem.empty()) {
      warn("{}: {}", given->source, problem);
    }
    return;
  }
  if (sum != n_pairs) {
    warn("{}: sections {} sum to {}, but rotary_dim / 2 is {}.", given->source, fmt::join(layer.mrope_section, " + "),
         sum, n_pairs);
  }
  warn("{} gives pairs to axes of positions, but nothing says which pairs: poslab does not know this class.",
       given->source);
}

}  // namespace poslab

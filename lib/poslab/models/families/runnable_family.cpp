#include "poslab/models/families/runnable_family.h"

namespace poslab {

FamilyModel read_family(const ConfigKeys& keys) {
  const std::string type = keys.text("model_type");
  const Family* family = find_family(type);
  if (family && family->run) return {family->run->read(keys), &family->run->names};
  std::string known;
  for (const Family* each : families()) {
    if (each->run) known += fmt::format("{}{}", known.empty() ? "" : ", ", each->word());
  }
  keys.fail(fmt::format("model_type '{}' is not known; poslab runs {}", type, known));
}

}  // namespace poslab

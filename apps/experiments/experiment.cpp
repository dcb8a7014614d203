#include "experiments/experiment.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace poslab {
namespace {

struct Entry {
  Registrar::Maker make;
  std::unique_ptr<Experiment> made;
};

std::map<std::string, Entry, std::less<>>& registry() {
  static std::map<std::string, Entry, std::less<>> entries;
  return entries;
}

}  // namespace

Registrar::Registrar(std::string_view name, Maker make) {
  if (!registry().emplace(name, Entry{make, nullptr}).second) {
    throw std::logic_error("[Registrar] two experiments are named " + std::string(name));
  }
}

std::vector<std::string> experiment_names() {
  std::vector<std::string> names;
  for (const auto& entry : registry()) names.push_back(entry.first);
  return names;
}

const Experiment* find_experiment(std::string_view name) {
  auto found = registry().find(name);
  if (found == registry().end()) return nullptr;
  Entry& entry = found->second;
  if (!entry.made) entry.made = std::make_unique<Experiment>(entry.make());
  return entry.made.get();
}

}  // namespace poslab

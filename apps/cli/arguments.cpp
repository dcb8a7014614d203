#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/params.h"
#include "cli/parse_value.h"

namespace poslab::cli {
namespace {

bool is_flag(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

const FieldSpec* find_field(std::span<const FieldSpec> fields, std::string_view name) {
  const auto is_it = [&](const FieldSpec& f) { return f.name == name || (!f.old_name.empty() && f.old_name == name); };
  const auto found = std::find_if(fields.begin(), fields.end(), is_it);
  return found == fields.end() ? nullptr : &*found;
}

std::string unknown_flag(std::span<const FieldSpec> fields, std::string_view flag) {
  std::vector<std::string> known{"--help"};
  for (const FieldSpec& field : fields) {
    known.push_back(flag_of(field.name));
    if (field.kind == FieldKind::boolean) known.push_back("--no-" + known.back().substr(2));
  }
  return fmt::format("unknown flag '{}'{}", flag, suggestion(flag, known));
}

// Refuses what CLI11 would misread: it eats the next word after `--x=`, takes a flag for a value, and gives `--` and
// `++` meanings of their own. Returns what to say of flags that were renamed.
std::vector<std::string> check_words(std::span<const FieldSpec> fields, std::span<const std::string> words) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--" || word == "++") throw UsageError(fmt::format("'{}' has no meaning here", word));
    if (!is_flag(word)) continue;
    const std::size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (flag == "--help") {
      if (equals != std::string::npos) throw UsageError("--help takes no value");
      continue;
    }
    std::string name = flag.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    const FieldSpec* field = find_field(fields, name);
    if (field && name.find('_') != std::string::npos && flag.find('_') != std::string::npos) field = nullptr;
    const bool negated = !field && name.starts_with("no_");
    if (negated) {
      field = find_field(fields, std::string_view(name).substr(3));
      if (field && field->kind != FieldKind::boolean) field = nullptr;
    }
    if (!field) throw UsageError(unknown_flag(fields, flag));
    if (const std::string now = flag_of(field->name); !negated && flag != now) {
      notes.push_back(rename_note(flag, now));
    }
    if (field->kind == FieldKind::boolean) {
      if (equals != std::string::npos) throw UsageError(fmt::format("{} takes no value", flag));
      continue;
    }
    if (equals != std::string::npos) {
      if (equals + 1 == word.size()) {
        throw UsageError(fmt::format("{} has an empty value; an empty list is written {} ''", word, flag));
      }
      continue;
    }
    if (i + 1 == words.size() || is_flag(words[i + 1])) throw UsageError(fmt::format("{} needs a value", flag));
    ++i;
  }
  return notes;
}

}  // namespace

Arguments parse_arguments(std::span<const FieldSpec> fields, std::string_view positional,
                          std::span<const std::string> words) {
  Arguments arguments;
  arguments.notes = check_words(fields, words);

  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  CLI::Option* help = app.add_flag("--help,-h");
  struct Bound {
    const FieldSpec* field;
    CLI::Option* option;
    CLI::Option* negation;
  };
  std::vector<Bound> bound;
  for (const FieldSpec& field : fields) {
    const std::string flag = flag_of(field.name);
    if (field.kind == FieldKind::boolean) {
      bound.push_back({&field, app.add_flag(flag), app.add_flag("--no-" + flag.substr(2))});
    } else {
      const std::string old = field.old_name.empty() ? "" : "," + flag_of(field.old_name);
      CLI::Option* option = app.add_option(flag + old);
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      bound.push_back({&field, option, nullptr});
    }
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }

  arguments.help = help->count() > 0;
  for (const Bound& b : bound) {
    const std::string flag = flag_of(b.field->name);
    if (b.negation) {
      const std::size_t on = b.option->count(), off = b.negation->count();
      if (on + off > 1)
        throw UsageError(fmt::format("{} and --no-{} may be given once, together", flag, flag.substr(2)));
      if (on + off == 1) arguments.values[b.field->name] = on ? "true" : "false";
    } else if (b.field->name == "sweep") {
      arguments.sweeps = b.option->results();
    } else if (b.option->count() > 1) {
      throw UsageError(fmt::format("{} is given {} times", flag, b.option->count()));
    } else if (b.option->count() == 1) {
      arguments.values[b.field->name] = b.option->results().front();
    }
  }
  for (const std::string& word : app.remaining(true)) {
    if (word.size() > 1 && word.front() == '-') throw UsageError(unknown_flag(fields, word));
    if (positional.empty()) throw UsageError(fmt::format("unexpected word '{}'", word));
    if (arguments.values.contains(positional)) {
      throw UsageError(fmt::format("unexpected word '{}': {} is already given", word, flag_of(positional)));
    }
    arguments.values[std::string(positional)] = word;
  }
  return arguments;
}

}  // namespace poslab::cli

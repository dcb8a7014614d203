#include "cli/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/bench.h"
#include "cli/arguments.h"
#include "cli/build_info.h"
#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/execute.h"
#include "cli/help.h"
#include "cli/invocation.h"
#include "cli/list.h"
#include "cli/man_page.h"
#include "cli/output.h"
#include "cli/parse_value.h"
#include "cli/tour.h"

namespace poslab::cli {
namespace {

int run_generate(std::span<const std::string> words, const Streams& streams) {
  const auto kinds = generated_kinds();
  if (words.size() == 1 && words[0] == "--help") {
    print(streams, fmt::format("usage: poslab generate {}\n", fmt::join(kinds, "|")));
    return 0;
  }
  if (words.size() != 1 || std::find(kinds.begin(), kinds.end(), words[0]) == kinds.end()) {
    const std::vector<std::string> known(kinds.begin(), kinds.end());
    throw UsageError(fmt::format("generate takes one of {}{}", fmt::join(kinds, ", "),
                                 words.empty() ? "" : suggestion(words[0], known)));
  }
  const std::string_view what = words[0];
  print(streams, what == "man"             ? man_page()
                 : what == "complete-bash" ? bash_completion()
                 : what == "complete-zsh"  ? zsh_completion()
                                           : fish_completion());
  return 0;
}

int run_experiment(const Experiment& experiment, std::span<const std::string> words, const Streams& streams) {
  const Arguments arguments = parse_arguments(all_flags(experiment), experiment.positional, words);
  if (!arguments.help) return execute(experiment, arguments, streams);
  print(streams, help_text(experiment));
  return 0;
}

int dispatch(std::span<const std::string> words, const Streams& streams) {
  if (words.empty()) throw UsageError("no subcommand; poslab --help lists them");
  const std::string& name = words.front();
  const auto rest = words.subspan(1);
  if (name == "--help" || name == "-h" || name == "help") {
    if (rest.empty()) {
      print(streams, overview());
      return 0;
    }
    const std::vector<std::string> of{rest.front(), "--help"};
    return dispatch(of, streams);
  }
  if (name == "--version") {
    if (!rest.empty()) throw UsageError(fmt::format("--version takes no word '{}'", rest.front()));
    print(streams, version_text());
    return 0;
  }
  if (name == "list") return run_list(rest, streams);
  if (name == "generate") return run_generate(rest, streams);
  if (name == "tour") return run_tour(rest, streams);
  if (name == "bench") return run_experiment(bench(), rest, streams);
  if (const Experiment* experiment = find_experiment(name)) return run_experiment(*experiment, rest, streams);
  throw UsageError(fmt::format("unknown {} '{}'{}", name.starts_with("-") ? "flag" : "subcommand", name,
                               suggestion(name, subcommand_names())));
}

void complain(const Streams& streams, std::string_view message) {
  std::string line(message);
  std::replace(line.begin(), line.end(), '\n', ' ');
  try {
    Writer err(streams.err, "standard error");
    err.write(fmt::format("poslab: {}\n", line));
    err.flush();
  } catch (const std::exception&) {
    // Nobody is left to tell.
  }
}

}  // namespace

int run(std::span<const std::string> words, const Streams& streams) {
  try {
    return dispatch(words, streams);
  } catch (const ClosedPipe&) {
    return closed_pipe;
  } catch (const std::bad_alloc&) {
    complain(streams, "out of memory: these sizes do not fit into this machine");
  } catch (const std::length_error&) {
    complain(streams, "out of memory: these sizes do not fit into any machine");
  } catch (const std::exception& error) {
    complain(streams, error.what());
  }
  return 2;
}

}  // namespace poslab::cli

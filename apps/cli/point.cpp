#include "cli/point.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "cli/build_info.h"
#include "poslab/formats/npy.h"
#include "poslab/kernels/blas.h"
#include "poslab/kernels/isa.h"

namespace poslab::cli {
namespace {

using Clock = std::chrono::steady_clock;

// More numbers than this do not belong into one JSON text: about a gigabyte, and every reader holds it whole.
constexpr std::int64_t max_json_numbers = std::int64_t{1} << 26;

std::vector<std::pair<std::string, Value>> context_of(int threads, std::chrono::system_clock::time_point started,
                                                      double elapsed) {
  return {{"version", std::string(version())},
          {"revision", std::string(revision())},
          {"compiler", std::string(compiler())},
          {"isa", std::string(to_word(active_isa()))},
          {"blas", blas_name()},
          {"threads", std::int64_t{threads}},
          {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(started)))},
          {"elapsed_s", elapsed}};
}

}  // namespace

Document run_point(const Experiment& experiment, Record record, const RunContext& context) {
  const auto started = std::chrono::system_clock::now();
  const auto clock = Clock::now();
  Document document{experiment.name, experiment.params, experiment.summary, experiment.row, std::move(record), {}, {}};
  document.report = experiment.run(document.params, context);
  document.context = context_of(context.threads, started, std::chrono::duration<double>(Clock::now() - clock).count());
  return document;
}

void limit_json(Document& document, bool has_npy, const Note& note) {
  const std::int64_t numbers = numbers_in_rows(document);
  if (numbers <= max_json_numbers) return;
  if (!has_npy) {
    throw std::invalid_argument(
        fmt::format("[{}] {} numbers are too many for a JSON document (at most {}): use --save-npy FILE.npy or "
                    "--format csv, which stream",
                    document.experiment, numbers, max_json_numbers));
  }
  note(fmt::format("the rows ({} numbers) stand in the .npy file only", numbers));
  document.report.rows = {};
}

void save_tensor(const Document& document, OutputFile& file, const std::function<void(double)>& progress) {
  const TensorSource& tensor = document.report.tensor;
  if (tensor.shape.empty()) {
    throw std::invalid_argument(
        fmt::format("[{}] these parameters give no tensor for --save-npy", document.experiment));
  }
  file.writer().write(npy_header(tensor.dtype, tensor.shape));
  std::size_t row_bytes = bytes_per_element(tensor.dtype);
  for (std::size_t d = 1; d < tensor.shape.size(); ++d) row_bytes *= static_cast<std::size_t>(tensor.shape[d]);
  const std::int64_t rows = tensor.shape.front();
  const auto block =
      static_cast<std::int64_t>(std::max<std::size_t>(1, (std::size_t{1} << 22) / std::max<std::size_t>(1, row_bytes)));
  std::vector<std::byte> bytes;
  for (std::int64_t first = 0; first < rows; first += block) {
    const std::int64_t count = std::min(block, rows - first);
    bytes.resize(static_cast<std::size_t>(count) * row_bytes);
    tensor.fill(first, count, bytes.data());
    file.writer().write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    progress(static_cast<double>(first + count) / static_cast<double>(rows));
  }
  file.commit();
}

bool as_expected(const RunOptions& options, const std::string& verdict) {
  return !options.expect || *options.expect == verdict;
}

std::string verdict_of(const Document& document) {
  for (std::size_t i = 0; i < document.summary_fields.size(); ++i) {
    if (document.summary_fields[i].name == "verdict") return std::get<std::string>(document.report.summary[i]);
  }
  return {};
}

std::vector<std::size_t> csv_params(const Experiment& experiment, const Invocation& call,
                                    std::vector<std::size_t> swept) {
  if (call.options.csv_params != CsvParams::all) return swept;
  for (std::size_t i = 0; i < experiment.params.size(); ++i) {
    if (std::find(swept.begin(), swept.end(), i) == swept.end()) swept.push_back(i);
  }
  return swept;
}

Target::Target(const Invocation& call, int standard_output) : stdout_(standard_output, "standard output") {
  if (!call.options.output) return;
  file_.emplace(*call.options.output, call.options.resume ? OutputFile::Start::keep : OutputFile::Start::fresh);
  if (call.options.resume && !file_->regular()) throw UsageError("--resume needs a regular file as --output");
}

void Target::commit() {
  if (file_) {
    file_->commit();
  } else {
    stdout_.flush();
  }
}

}  // namespace poslab::cli

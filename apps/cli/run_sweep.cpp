#include "cli/run_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "cli/ordered_points.h"
#include "cli/progress.h"
#include "cli/resume.h"
#include "cli/sweep.h"
#include "poslab/core/interrupt.h"

namespace poslab::cli {
namespace {

// One finished point: its line for ndjson, its document for the other formats.
struct Point {
  std::string line;
  std::optional<Document> document;
  std::string verdict;
  bool resumed = false;
};

class SweepRun {
 public:
  SweepRun(const Experiment& experiment, const Invocation& call, const Sweep& sweep, std::vector<std::int64_t> points,
           const Streams& streams, const TextStyle& style, const Note& note)
      : experiment_(experiment),
        call_(call),
        sweep_(sweep),
        points_(std::move(points)),
        note_(note),
        target_(call, streams.out),
        csv_(csv_params(experiment, call, sweep.swept_params()), target_.sink(), call.threads),
        summaries_(experiment, sweep.swept_params(), style),
        bar_(streams.err_is_terminal && !call.options.quiet, streams.err, experiment.name) {
    if (call.options.resume) resumed_.emplace(experiment, *target_.file(), note);
    if (target_.file()) target_.file()->keep_partial();
    if (experiment.stops_at_signal) interrupts_.emplace();
  }

  int run() {
    try {
      ordered_points<Point>(
          static_cast<std::int64_t>(points_.size()), call_.options.jobs, [this](std::int64_t i) { return compute(i); },
          [this](std::int64_t i, const Point& point) { emit(i, point); });
    } catch (const ClosedPipe&) {
      throw;
    } catch (...) {
      write_rest();
      throw;
    }
    write_rest();
    if (resumed_) resumed_->put_in_order(*target_.file());
    target_.commit();
    return all_expected_ ? 0 : 1;
  }

 private:
  Record params_of(std::int64_t i) const { return sweep_.point(call_.base, points_[static_cast<std::size_t>(i)]); }

  std::runtime_error failure_at(std::int64_t i, const std::exception& error) const {
    return std::runtime_error(fmt::format("at {}: {}", sweep_.describe(params_of(i)), error.what()));
  }

  // Where an experiment stops in good order at a signal, what it then returns is no point of a sweep, and no other
  // begins.
  void refuse_if_interrupted() {
    if (!interrupt_requested()) return;
    const bool kept = target_.file() && target_.file()->regular() && call_.format == Format::ndjson;
    throw std::runtime_error(kept ? fmt::format("interrupted; {} keeps the finished points, --resume goes on",
                                                target_.file()->partial_path())
                                  : "interrupted");
  }

  void advance(double by) {
    const std::lock_guard lock(advancing_);
    advanced_ += by;
    bar_.update(advanced_ / static_cast<double>(points_.size()));
  }

  Point compute(std::int64_t i) {
    Record record = params_of(i);
    if (const ResumedLines::Line* line = resumed_ ? resumed_->find(record) : nullptr) {
      advance(1);
      return {line->text, std::nullopt, line->verdict, true};
    }
    refuse_if_interrupted();
    double share = 0;
    RunContext context;
    context.threads = call_.threads;
    context.progress = [&](double now) { advance(now - std::exchange(share, now)); };
    context.status = [&](const std::string& words) { bar_.status(words); };
    context.prepared = prepared_;
    Point point;
    try {
      Document document = run_point(experiment_, std::move(record), context);
      refuse_if_interrupted();
      advance(1 - share);
      point.verdict = verdict_of(document);
      if (call_.format == Format::ndjson) {
        limit_json(document, false, note_);
        write_json(document, JsonStyle::one_line, [&](std::string_view text) { point.line += text; });
        document.report.rows = {};
      }
      point.document = std::move(document);
    } catch (const std::exception& error) {
      refuse_if_interrupted();
      throw failure_at(i, error);
    }
    return point;
  }

  void emit(std::int64_t i, const Point& point) {
    all_expected_ = all_expected_ && as_expected(call_.options, point.verdict);
    if (point.document) tell_notes(point.document->report.notes);
    if (call_.format == Format::ndjson) {
      if (resumed_) resumed_->emitted(point.line, point.resumed);
      if (point.resumed) return;
      target_.writer().write(point.line);
      target_.writer().flush();
    } else if (call_.format == Format::csv) {
      try {
        csv_.write(*point.document);
      } catch (const std::invalid_argument& error) {
        throw failure_at(i, error);
      }
      target_.writer().flush();
    } else {
      summaries_.add(*point.document);
    }
  }

  // Each line once.
  void tell_notes(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (std::find(notes_told_.begin(), notes_told_.end(), line) != notes_told_.end()) continue;
      notes_told_.push_back(line);
      note_(line);
    }
  }

  void write_rest() {
    if (call_.format == Format::text) target_.writer().write(summaries_.text());
    target_.writer().flush();
  }

  const Experiment& experiment_;
  const Invocation& call_;
  const Sweep& sweep_;
  const std::vector<std::int64_t> points_;
  const Note& note_;
  const std::shared_ptr<Prepared> prepared_ = std::make_shared<Prepared>();
  Target target_;
  std::optional<ResumedLines> resumed_;
  CsvWriter csv_;
  SummaryTable summaries_;
  Progress bar_;
  std::mutex advancing_;
  double advanced_ = 0;                       // points done, running ones by their share
  std::optional<InterruptScope> interrupts_;  // between two points too
  bool all_expected_ = true;
  std::vector<std::string> notes_told_;
};

}  // namespace

int run_sweep(const Experiment& experiment, const Invocation& call, const Streams& streams, const TextStyle& style,
              const Note& note) {
  const Sweep sweep(experiment, call.axes, call.base, note);
  std::vector<std::int64_t> points;
  for (std::int64_t p = 0; p < sweep.size(); ++p) {
    if (call.shard.owns(p)) points.push_back(p);
  }
  if (points.empty()) return 0;
  return SweepRun(experiment, call, sweep, std::move(points), streams, style, note).run();
}

}  // namespace poslab::cli

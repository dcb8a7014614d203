#include "poslab/probe/position_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "poslab/core/element_type.h"

namespace poslab {
namespace {

struct Row {
  std::int64_t batch, index, head;
  double given, used;
};

using Rule = std::function<double(const Row&)>;

class Patterns {
 public:
  explicit Patterns(const PositionGrid& grid) : grid_(grid) {
    std::size_t at = 0;
    for (std::int64_t b = 0; b < grid.batches; ++b) {
      for (std::int64_t t = 0; t < grid.length; ++t) {
        for (std::int64_t h = 0; h < grid.heads; ++h, ++at) {
          const double given = grid.given[static_cast<std::size_t>(b * grid.length + t)];
          rows_.push_back({b, t, h, given, grid.used[at]});
          if (!same(given, grid.used[at])) wrong_.push_back(rows_.back());
        }
      }
    }
  }

  std::vector<PositionPattern> find() {
    if (wrong_.empty()) return {};
    not_rotated();
    multiples();
    by_index();
    clamped();
    wrapped();
    restarted();
    shifted();
    rounded();
    return std::move(found_);
  }

 private:
  static bool same(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(a)) * 0.1 + 1e-9; }

  bool holds(const Rule& rule) const {
    return std::all_of(rows_.begin(), rows_.end(), [&](const Row& r) { return same(r.used, rule(r)); });
  }
  bool holds_where_wrong(const Rule& rule) const {
    return std::all_of(wrong_.begin(), wrong_.end(), [&](const Row& r) { return same(r.used, rule(r)); });
  }

  void add(std::string mistake, std::string detail = {}) {
    for (const PositionPattern& p : found_) {
      if (p.mistake == mistake) return;
    }
    found_.push_back({std::move(mistake), std::move(detail)});
  }
  void try_rule(std::string mistake, std::string detail, const Rule& rule) {
    if (holds(rule)) add(std::move(mistake), std::move(detail));
  }

  // Whether some batch row and head is right at first and wrong later.
  bool late() const {
    std::vector<char> right(static_cast<std::size_t>(grid_.batches * grid_.heads));
    for (const Row& r : rows_) {
      char& seen = right[static_cast<std::size_t>(r.batch * grid_.heads + r.head)];
      const bool agrees = same(r.given, r.used);
      if (!agrees && seen) return true;
      if (agrees && r.given != 0) seen = 1;
    }
    return false;
  }

  std::string where() const {
    const Row& first =
        *std::min_element(wrong_.begin(), wrong_.end(), [](const Row& a, const Row& b) { return a.given < b.given; });
    return late() ? fmt::format(" from position {} on", first.given) : "";
  }

  void not_rotated() {
    if (!holds_where_wrong([](const Row&) { return 0.0; })) return;
    if (late()) {
      add("positions restarted", fmt::format("all at 0{}", where()));
      add("not rotated", fmt::format("position 0 used{}", where()));
    } else {
      add("not rotated");
    }
  }

  void multiples() {
    const Row& last = *std::max_element(
        wrong_.begin(), wrong_.end(), [](const Row& a, const Row& b) { return std::abs(a.given) < std::abs(b.given); });
    if (last.given == 0 || last.used == 0) return;
    double k = last.used / last.given;
    if (std::abs(k - std::round(k * 1000) / 1000) < 1e-6 * k) k = std::round(k * 1000) / 1000;
    if (!holds_where_wrong([&](const Row& r) { return k * r.given; })) return;
    if (wrong_.size() == 1 && k != 2) return;
    if (k == -1) return add("negative angle");
    add(k == 2 ? "positions doubled" : "positions multiplied", fmt::format("by {:.7g}", k));
  }

  void by_index() {
    const auto heads = [](const Row& r) { return static_cast<double>(r.head); };
    if (grid_.heads > 1 && holds(heads)) {
      if (grid_.heads == grid_.length) add("axes swapped", "heads and positions");
      add("head used as position");
    }
    if (grid_.heads > 1) {
      if (grid_.heads == grid_.length && holds([&](const Row& r) { return given(r.batch, r.head); })) {
        add("axes swapped", "heads and positions");
      }
      try_rule("positions shifted by head", "each head's number added",
               [&](const Row& r) { return r.given + heads(r); });
    }
    if (grid_.batches > 1) {
      try_rule("batch row used as position", "", [](const Row& r) { return static_cast<double>(r.batch); });
    }
    if (holds([](const Row& r) { return static_cast<double>(r.index); })) {
      return add(padded() ? "left padding ignored" : "positions ignored", "0, 1, 2, ... used");
    }
    try_rule("positions reversed", "", [&](const Row& r) { return given(r.batch, grid_.length - 1 - r.index); });
    if (grid_.batches > 1) {
      try_rule("positions of the first batch row used", "", [&](const Row& r) { return given(0, r.index); });
    }
  }

  // Given positions that begin late in some batch row, as a mask of padding gives them.
  bool padded() const {
    for (std::int64_t b = 0; b < grid_.batches; ++b) {
      if (given(b, grid_.length - 1) < static_cast<double>(grid_.length - 1)) return true;
    }
    return false;
  }

  double given(std::int64_t batch, std::int64_t index) const {
    return grid_.given[static_cast<std::size_t>(batch * grid_.length + index)];
  }

  void clamped() {
    const double limit = wrong_.front().used;
    if (limit == 0) return;
    try_rule("positions clamped", fmt::format("at {}", limit), [&](const Row& r) { return std::min(r.given, limit); });
    if (limit > 0) {
      try_rule("positions clamped", fmt::format("at {} from below", limit),
               [&](const Row& r) { return std::max(r.given, limit); });
    }
  }

  void wrapped() {
    std::int64_t common = 0;
    double most_used = 0, least_given = wrong_.front().given;
    for (const Row& r : wrong_) {
      const double off = r.given - r.used;
      if (off != std::round(off) || std::abs(off) > 0x1p53) return;
      common = std::gcd(common, static_cast<std::int64_t>(off));
      least_given = std::min(least_given, r.given);
    }
    for (const Row& r : rows_) most_used = std::max(most_used, std::abs(r.used));
    for (double size : {0x1p16, 0x1p8}) {
      const auto wraps = [size](const Row& r) {
        const double p = std::fmod(std::fmod(r.given + size / 2, size) + size, size) - size / 2;
        return p;
      };
      if (std::any_of(wrong_.begin(), wrong_.end(), [](const Row& r) { return r.used < 0; })) {
        try_rule("positions wrapped", fmt::format("as int{}", std::log2(size)), wraps);
      }
    }
    if (common == 0) return;
    // The size divides every jump and lies between the largest position that stayed and the first that moved.
    std::vector<double> sizes;
    for (std::int64_t k = 1; k <= 4096 && k <= common; ++k) {
      if (common % k != 0) continue;
      const auto size = static_cast<double>(common / k);
      if (size > most_used && size <= least_given) sizes.push_back(size);
    }
    const auto is_power = [](double s) { return std::exp2(std::round(std::log2(s))) == s; };
    std::stable_partition(sizes.begin(), sizes.end(), is_power);
    for (double size : sizes) {
      const std::size_t before = found_.size();
      try_rule("positions wrapped", fmt::format("modulo {}{}", size, size == 65536 ? ", as uint16" : ""),
               [size](const Row& r) { return std::fmod(r.given, size); });
      if (found_.size() > before) return;
    }
  }

  // Runs that begin at 0 again and then follow the given positions.
  void restarted() {
    if (!late()) return;
    bool any = false;
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      const Row& r = rows_[at];
      if (same(r.given, r.used)) continue;
      if (r.used == 0) {
        any = true;
        continue;
      }
      if (r.index == 0) return;
      const Row& before = rows_[at - static_cast<std::size_t>(grid_.heads)];
      if (!same(r.used - before.used, r.given - before.given)) {
        // A run may begin at 0 between two of the positions in the data.
        if (!(r.used >= 0 && r.used < before.used)) return;
        any = true;
      }
    }
    if (!any) return;
    const Row* first = nullptr;
    for (const Row& r : wrong_) {
      if (!first || r.given < first->given) first = &r;
    }
    std::int64_t chunk = 0;
    for (const Row& r : rows_) {
      if (r.batch == first->batch && r.head == first->head && r.index > 0 && r.used == 0 && chunk == 0) chunk = r.index;
    }
    const bool regular = chunk > 0 && holds([&](const Row& r) { return static_cast<double>(r.index % chunk); });
    add("positions restarted", regular ? fmt::format("every {} tokens", chunk) : fmt::format("at {}", first->given));
  }

  void shifted() {
    if (!found_.empty()) return;
    const double offset = wrong_.front().used - wrong_.front().given;
    if (holds_where_wrong([&](const Row& r) { return r.given + offset; })) {
      add("positions shifted", fmt::format("by {:+}{}", offset, where()));
      return;
    }
    // One offset for each batch row or head.
    std::vector<double> by_row(static_cast<std::size_t>(grid_.batches)), by_head(static_cast<std::size_t>(grid_.heads));
    for (const Row& r : wrong_) {
      by_row[static_cast<std::size_t>(r.batch)] = r.used - r.given;
      by_head[static_cast<std::size_t>(r.head)] = r.used - r.given;
    }
    const auto row_rule = [&](const Row& r) { return r.given + by_row[static_cast<std::size_t>(r.batch)]; };
    const auto head_rule = [&](const Row& r) { return r.given + by_head[static_cast<std::size_t>(r.head)]; };
    if (holds_where_wrong(row_rule)) {
      add(padded() ? "left padding ignored" : "positions shifted", "by a number of its own in each batch row");
    }
    if (holds_where_wrong(head_rule)) add("positions shifted by head", "by a number of its own in each head");
  }

  void rounded() {
    if (!found_.empty()) return;
    for (DType type : {DType::bf16, DType::f16}) {
      try_rule(fmt::format("positions in {}", to_word(type)), "",
               [type](const Row& r) { return round_to(type, r.given); });
    }
  }

  const PositionGrid& grid_;
  std::vector<Row> rows_, wrong_;
  std::vector<PositionPattern> found_;
};

}  // namespace

std::vector<PositionPattern> position_patterns(const PositionGrid& grid) { return Patterns(grid).find(); }

}  // namespace poslab

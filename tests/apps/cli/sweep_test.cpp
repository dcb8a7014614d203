#include "cli/sweep.h"

#include <doctest/doctest.h>

#include <atomic>

#include "cli/ordered_points.h"
#include "cli/parse_value.h"
#include "cli/shard.h"

using namespace poslab;
using namespace poslab::cli;

namespace {

enum class Kind { a, b, c };
constexpr auto words(Kind) { return word_table<Kind>({{Kind::a, "a"}, {Kind::b, "b"}, {Kind::c, "c"}}); }

struct Params {
  std::int64_t n = 1;
  double x = 0.5;
  Kind kind = Kind::a;
  std::vector<std::int64_t> list;
  static void fields(auto& self, auto&& field) {
    field("n", self.n, "");
    field("x", self.x, "");
    field("kind", self.kind, "");
    field("list", self.list, "");
  }
};

TypedReport<NoFields, NoFields> nothing(const Params&, const RunContext&) { return {}; }

Experiment experiment() {
  Experiment e = describe<Params, NoFields, NoFields>("e", "q", "x", nothing);
  e.excluded = [](const Record& record) {
    return from_record<Params>(record).kind == Kind::b ? std::string("not today") : std::string();
  };
  return e;
}

std::vector<Params> points_of(const std::vector<std::string>& axes, std::vector<std::string>* notes = nullptr) {
  const Experiment e = experiment();
  const Record base = to_record(Params{});
  const Sweep sweep(e, axes, base, [&](const std::string& note) {
    if (notes) notes->push_back(note);
  });
  std::vector<Params> out;
  for (std::int64_t i = 0; i < sweep.size(); ++i) out.push_back(from_record<Params>(sweep.point(base, i)));
  return out;
}

}  // namespace

TEST_CASE("the first axis varies slowest, and parameters keep their type") {
  const auto points = points_of({"n=1:3:+1", "x=0.5:2:*2"});
  REQUIRE(points.size() == 9);
  CHECK(points[0].n == 1);
  CHECK(points[2].x == 2);
  CHECK(points[3].n == 2);
  CHECK(points[3].x == 0.5);
}

TEST_CASE("all means the words that the other parameters allow") {
  std::vector<std::string> notes;
  const auto points = points_of({"kind=all"}, &notes);
  REQUIRE(points.size() == 2);
  CHECK(points[1].kind == Kind::c);
  CHECK(notes == std::vector<std::string>{"--kind b is left out: not today"});
}

TEST_CASE("points of a list parameter are separated by semicolons") {
  const auto points = points_of({"list=1,2;3"});
  REQUIRE(points.size() == 2);
  CHECK(points[0].list == std::vector<std::int64_t>{1, 2});
  CHECK(points[1].list == std::vector<std::int64_t>{3});
}

TEST_CASE("axes that cannot be are refused") {
  for (const std::vector<std::string>& axes : std::vector<std::vector<std::string>>{{"n"},
                                                                                    {"n="},
                                                                                    {"=1"},
                                                                                    {"m=1"},
                                                                                    {"n=1,1"},
                                                                                    {"n=1", "n=2"},
                                                                                    {"n=1.5"},
                                                                                    {"kind=d"},
                                                                                    {"kind=a,a"},
                                                                                    {"n=1:1000:+1", "x=1:1001:+1"}}) {
    CAPTURE(axes.front());
    CHECK_THROWS(points_of(axes));
  }
}

TEST_CASE("shards part the points") {
  const Shard shard = Shard::parse("2/3");
  CHECK_FALSE(shard.owns(0));
  CHECK(shard.owns(1));
  CHECK(shard.owns(4));
  for (const char* wrong : {"0/3", "4/3", "1", "1/0", "a/b", "1/2/3"}) CHECK_THROWS(Shard::parse(wrong));
}

TEST_CASE("points computed side by side are emitted in order, those before a failure too") {
  std::vector<std::int64_t> seen;
  ordered_points<std::int64_t>(
      200, 4, [](std::int64_t i) { return i * i; },
      [&](std::int64_t i, const std::int64_t& square) {
        CHECK(square == i * i);
        seen.push_back(i);
      });
  REQUIRE(seen.size() == 200);
  CHECK(std::is_sorted(seen.begin(), seen.end()));

  seen.clear();
  CHECK_THROWS_WITH(ordered_points<std::int64_t>(
                        200, 4,
                        [](std::int64_t i) {
                          if (i >= 17) throw std::runtime_error(std::to_string(i));
                          return i;
                        },
                        [&](std::int64_t i, const std::int64_t&) { seen.push_back(i); }),
                    "17");
  CHECK(seen.size() == 17);
}

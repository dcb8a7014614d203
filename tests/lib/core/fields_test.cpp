#include "poslab/core/fields.h"

#include <doctest/doctest.h>

namespace poslab {
namespace {

enum class Mask { none, causal };
constexpr auto words(Mask) { return word_table<Mask>({{Mask::none, "none"}, {Mask::causal, "causal"}}); }

struct Shape {
  std::int64_t rows = 2;
  double scale = 0.5;
  static void fields(auto& self, auto&& field) {
    field("rows", self.rows, "how many rows", "tokens");
    field("scale", self.scale);
  }
};

struct Everything {
  Shape shape;
  bool flag = true;
  std::string text = "dog";
  Mask mask = Mask::causal;
  std::vector<std::int64_t> integers = {1, 2};
  std::vector<double> reals = {0.25};
  std::vector<std::string> texts;
  std::vector<Mask> masks = {Mask::none, Mask::causal};
  std::optional<bool> maybe_flag;
  std::optional<std::int64_t> maybe_integer;
  std::optional<Mask> maybe_mask = Mask::none;
  std::optional<std::vector<double>> maybe_reals;
  static void fields(auto& self, auto&& field) {
    field("flag", self.flag, "a flag");
    Shape::fields(self.shape, field);
    field("text", self.text);
    field("mask", self.mask, "who sees whom");
    field("integers", self.integers);
    field("reals", self.reals, "some reals", "radians");
    field("texts", self.texts);
    field("masks", self.masks);
    field("maybe_flag", self.maybe_flag);
    field("maybe_integer", self.maybe_integer);
    field("maybe_mask", self.maybe_mask);
    field("maybe_reals", self.maybe_reals);
  }
};

}  // namespace

TEST_CASE("a struct with groups, words, lists and optionals survives its record") {
  Everything out;
  out.shape = {7, -1.5};
  out.flag = false;
  out.text = "";
  out.mask = Mask::none;
  out.integers = {};
  out.reals = {1, -2};
  out.texts = {"a", "b"};
  out.masks = {Mask::causal};
  out.maybe_flag = false;
  out.maybe_integer = 0;
  out.maybe_mask = std::nullopt;
  out.maybe_reals = std::vector<double>{};

  const Record record = to_record(out);
  REQUIRE(record.size() == 13);
  CHECK(record[0] == Value{false});
  CHECK(record[1] == Value{std::int64_t{7}});
  CHECK(record[2] == Value{-1.5});
  CHECK(record[3] == Value{std::string()});
  CHECK(record[4] == Value{std::string("none")});
  CHECK(record[8] == Value{std::vector<std::string>{"causal"}});
  CHECK(record[9] == Value{false});
  CHECK(record[11] == Value{});
  CHECK(record[12] == Value{std::vector<double>{}});

  const auto back = from_record<Everything>(record);
  CHECK(to_record(back) == record);
  CHECK(back.shape.rows == 7);
  CHECK(back.mask == Mask::none);
  CHECK(back.masks == std::vector<Mask>{Mask::causal});
  CHECK(back.maybe_integer == std::int64_t{0});
  CHECK_FALSE(back.maybe_mask.has_value());
  CHECK(back.maybe_reals.has_value());
}

TEST_CASE("the specs show names, kinds, units, words and defaults in the order of the list") {
  const auto specs = field_specs<Everything>();
  REQUIRE(specs.size() == 13);
  CHECK(specs[0].name == "flag");
  CHECK(specs[0].kind == FieldKind::boolean);
  CHECK(specs[1].name == "rows");
  CHECK(specs[1].unit == "tokens");
  CHECK(specs[1].help == "how many rows");
  CHECK(specs[1].fallback == Value{std::int64_t{2}});
  CHECK(specs[4].kind == FieldKind::word);
  CHECK(specs[4].words == std::vector<std::string>{"none", "causal"});
  CHECK(specs[4].fallback == Value{std::string("causal")});
  CHECK(specs[6].kind == FieldKind::real);
  CHECK(specs[6].list);
  CHECK(specs[6].unit == "radians");
  CHECK(specs[8].kind == FieldKind::word);
  CHECK(specs[8].list);
  CHECK(specs[8].words.size() == 2);
  CHECK(specs[9].optional);
  CHECK(specs[9].fallback == Value{});
  CHECK(specs[11].optional);
  CHECK(specs[11].words.size() == 2);
  CHECK(specs[12].optional);
  CHECK(specs[12].list);
}

TEST_CASE("words translate both ways and strangers are refused") {
  CHECK(to_word(Mask::causal) == "causal");
  CHECK(from_word<Mask>("none") == Mask::none);
  CHECK_THROWS_WITH_AS(from_word<Mask>("sideways"), doctest::Contains("sideways"), std::invalid_argument);
}

// An open list: the words of its entries are known at run time alone.
class Fruit {
 public:
  static std::vector<std::string_view> words() { return {"apple", "pear"}; }
  static Fruit from_word(std::string_view word) {
    Fruit fruit;
    while (words()[fruit.index_] != word) {
      if (++fruit.index_ == words().size()) throw std::invalid_argument("no fruit: " + std::string(word));
    }
    return fruit;
  }
  std::string_view word() const { return words()[index_]; }

 private:
  std::size_t index_ = 0;
};

struct Listed {
  Fruit fruit = Fruit::from_word("pear");
  std::optional<Fruit> other;
  FilePath file = "a/b";
  std::int64_t plain = 0;

  static void fields(auto& self, auto&& field) {
    begin_group(field, "fruit");
    field("fruit", self.fruit);
    field("other", self.other);
    begin_group(field, "");
    field("file", self.file);
    renamed_from(field, "path");
    field("plain", self.plain);
  }
};

TEST_CASE("entries of open lists are words, files are paths, fields have groups and old names") {
  const auto specs = field_specs<Listed>();
  REQUIRE(specs.size() == 4);
  CHECK(specs[0].kind == FieldKind::word);
  CHECK(specs[0].words == std::vector<std::string>{"apple", "pear"});
  CHECK(specs[0].fallback == Value{std::string("pear")});
  CHECK(specs[0].group == "fruit");
  CHECK(specs[1].group == "fruit");
  CHECK(specs[1].optional);
  CHECK(specs[2].kind == FieldKind::path);
  CHECK(specs[2].group.empty());
  CHECK(specs[2].old_name == "path");
  CHECK(specs[3].old_name.empty());

  Listed changed;
  changed.other = Fruit::from_word("apple");
  changed.file = "c";
  const Listed back = from_record<Listed>(to_record(changed));
  CHECK(back.fruit.word() == "pear");
  REQUIRE(back.other);
  CHECK(back.other->word() == "apple");
  CHECK(back.file == "c");
  CHECK_THROWS_WITH_AS(from_word<Fruit>("stone"), doctest::Contains("stone"), std::invalid_argument);
}

TEST_CASE("a record of another shape is refused") {
  Record record = to_record(Shape{});
  record[0] = std::string("two");
  CHECK_THROWS_AS(from_record<Shape>(record), std::bad_variant_access);
  CHECK_THROWS_AS(from_record<Shape>(Record{}), std::out_of_range);
  CHECK(field_specs<NoFields>().empty());
}

}  // namespace poslab

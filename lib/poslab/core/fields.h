// One field list per struct: flags, configs, help, JSON and CSV are all read from it.
//
//   struct Params {
//     std::int64_t seq_len = 64;
//     static void fields(auto& self, auto&& field) {
//       field("seq_len", self.seq_len, "positions 0 .. seq_len - 1", "tokens");
//     }
//   };
//
// A field is a bool, std::int64_t, double, std::string, an enumeration with a word table or an entry of an open list,
// a std::vector of one of the last five, or a std::optional of any of these. Groups compose: Other::fields(self.other,
// field).
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace poslab {

// A field's value with its type erased; monostate is "absent". Enumerations are their words.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<std::string>>;

// The values of one struct, in the order of its field list.
using Record = std::vector<Value>;

enum class FieldKind { boolean, integer, real, text, path, word };

struct FieldSpec {
  std::string name;
  std::string help;
  std::string unit;
  FieldKind kind = FieldKind::text;
  bool list = false;
  bool optional = false;
  std::vector<std::string> words;  // of an enumeration, in declaration order
  Value fallback;                  // the default
  std::string group;               // the heading under which help shows it, or empty
  std::string old_name;            // what it was called a version ago; still accepted, with a warning
};

// A text that names a file or a folder: completions offer these.
struct FilePath : std::string {
  FilePath() = default;
  FilePath(std::string path) : std::string(std::move(path)) {}
  FilePath(const char* path) : std::string(path) {}
};

// Inside a field list: the fields that follow belong under this heading; an empty one ends it.
template <class Visitor>
void begin_group(Visitor& field, std::string_view title) {
  if constexpr (requires { field.begin_group(title); }) field.begin_group(title);
}

// Inside a field list, behind a field that had another name a version ago.
template <class Visitor>
void renamed_from(Visitor& field, std::string_view old_name) {
  if constexpr (requires { field.renamed_from(old_name); }) field.renamed_from(old_name);
}

// An enumeration names its words beside its declaration:
//   constexpr auto words(Mask) { return word_table<Mask>({{Mask::none, "none"}, {Mask::causal, "causal"}}); }
template <class E, std::size_t N>
constexpr std::array<std::pair<E, std::string_view>, N> word_table(const std::pair<E, std::string_view> (&pairs)[N]) {
  return std::to_array(pairs);
}

template <class E>
concept EnumeratedWord = std::is_enum_v<E> && requires(E e) {
  words(e);
};

// An entry of an open list, such as the positional methods: a small class that refers to one entry and has
//   static std::vector<std::string_view> words();   in the list's order
//   static T from_word(std::string_view word);      throws std::invalid_argument for a word that is not on the list
//   std::string_view word() const;
template <class T>
concept ListedWord = std::is_class_v<T> && requires(const T& t, std::string_view text) {
  { t.word() } -> std::convertible_to<std::string_view>;
  { T::from_word(text) } -> std::convertible_to<T>;
  T::words();
};

template <class E>
concept Word = EnumeratedWord<E> || ListedWord<E>;

template <Word E>
std::string_view to_word(const E& value) {
  if constexpr (ListedWord<E>) {
    return value.word();
  } else {
    for (const auto& [enumerator, word] : words(value)) {
      if (enumerator == value) return word;
    }
    throw std::logic_error("[to_word] an enumerator is missing from its word table");
  }
}

template <Word E>
E from_word(std::string_view text) {
  if constexpr (ListedWord<E>) {
    return E::from_word(text);
  } else {
    for (const auto& [enumerator, word] : words(E{})) {
      if (word == text) return enumerator;
    }
    throw std::invalid_argument("[from_word] unknown word '" + std::string(text) + "'");
  }
}

// In declaration order.
template <Word E>
std::vector<std::string> all_words() {
  std::vector<std::string> all;
  if constexpr (ListedWord<E>) {
    for (std::string_view word : E::words()) all.emplace_back(word);
  } else {
    for (const auto& entry : words(E{})) all.emplace_back(entry.second);
  }
  return all;
}

namespace detail {

template <class T>
struct FieldType;

template <>
struct FieldType<bool> {
  static constexpr FieldKind kind = FieldKind::boolean;
  static Value erase(bool v) { return v; }
  static bool restore(const Value& v) { return std::get<bool>(v); }
};
template <>
struct FieldType<std::int64_t> {
  static constexpr FieldKind kind = FieldKind::integer;
  static Value erase(std::int64_t v) { return v; }
  static std::int64_t restore(const Value& v) { return std::get<std::int64_t>(v); }
};
template <>
struct FieldType<double> {
  static constexpr FieldKind kind = FieldKind::real;
  static Value erase(double v) { return v; }
  static double restore(const Value& v) { return std::get<double>(v); }
};
template <>
struct FieldType<std::string> {
  static constexpr FieldKind kind = FieldKind::text;
  static Value erase(const std::string& v) { return v; }
  static std::string restore(const Value& v) { return std::get<std::string>(v); }
};
template <>
struct FieldType<FilePath> {
  static constexpr FieldKind kind = FieldKind::path;
  static Value erase(const FilePath& v) { return static_cast<const std::string&>(v); }
  static FilePath restore(const Value& v) { return std::get<std::string>(v); }
};
template <Word E>
struct FieldType<E> {
  static constexpr FieldKind kind = FieldKind::word;
  static Value erase(const E& v) { return std::string(to_word(v)); }
  static E restore(const Value& v) { return from_word<E>(std::get<std::string>(v)); }
};
template <class T>
struct FieldType<std::vector<T>> {
  static constexpr FieldKind kind = FieldType<T>::kind;
  using Stored = std::conditional_t<Word<T>, std::string, T>;
  static Value erase(const std::vector<T>& v) {
    if constexpr (Word<T>) {
      std::vector<std::string> out;
      for (const T& e : v) out.emplace_back(to_word(e));
      return out;
    } else {
      return v;
    }
  }
  static std::vector<T> restore(const Value& v) {
    const auto& stored = std::get<std::vector<Stored>>(v);
    if constexpr (Word<T>) {
      std::vector<T> out;
      for (const auto& word : stored) out.push_back(from_word<T>(word));
      return out;
    } else {
      return stored;
    }
  }
};
template <class T>
struct FieldType<std::optional<T>> {
  static constexpr FieldKind kind = FieldType<T>::kind;
  static Value erase(const std::optional<T>& v) { return v ? FieldType<T>::erase(*v) : Value{}; }
  static std::optional<T> restore(const Value& v) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    return FieldType<T>::restore(v);
  }
};

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T>
inline constexpr bool is_list<std::optional<std::vector<T>>> = true;

template <class T>
struct Element {
  using type = T;
};
template <class T>
struct Element<std::optional<T>> : Element<T> {};
template <class T>
struct Element<std::vector<T>> : Element<T> {};

// The visitor that turns a field list into specs.
class SpecCollector {
 public:
  template <class F>
  void operator()(std::string_view name, F& value, std::string_view help = {}, std::string_view unit = {}) {
    using Item = typename Element<F>::type;
    FieldSpec spec{std::string(name),
                   std::string(help),
                   std::string(unit),
                   FieldType<F>::kind,
                   is_list<F>,
                   is_optional<F>,
                   {},
                   FieldType<F>::erase(value),
                   group_,
                   {}};
    if constexpr (Word<Item>) spec.words = all_words<Item>();
    specs.push_back(std::move(spec));
  }
  void begin_group(std::string_view title) { group_ = title; }
  void renamed_from(std::string_view old_name) { specs.back().old_name = old_name; }

  std::vector<FieldSpec> specs;

 private:
  std::string group_;
};

}  // namespace detail

// The declared fields of T, with the values of a default-constructed T as fallbacks.
template <class T>
std::vector<FieldSpec> field_specs() {
  T defaults{};
  detail::SpecCollector collector;
  T::fields(defaults, collector);
  return std::move(collector.specs);
}

// Appends the values of `self`, in field order.
template <class T>
void append_record(const T& self, Record& out) {
  T::fields(self, [&]<class F>(std::string_view, const F& value, std::string_view = {}, std::string_view = {}) {
    out.push_back(detail::FieldType<F>::erase(value));
  });
}

template <class T>
Record to_record(const T& self) {
  Record out;
  append_record(self, out);
  return out;
}

// The struct that a record of its own shape describes; throws std::bad_variant_access on a foreign record.
template <class T>
T from_record(const Record& record) {
  T self{};
  std::size_t next = 0;
  T::fields(self, [&]<class F>(std::string_view, F& value, std::string_view = {}, std::string_view = {}) {
    value = detail::FieldType<F>::restore(record.at(next++));
  });
  return self;
}

// For structs without fields (an experiment without rows, say).
struct NoFields {
  static void fields(auto&, auto&&) {}
};

}  // namespace poslab

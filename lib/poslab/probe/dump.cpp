#include "poslab/probe/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "poslab/formats/array_file.h"

namespace poslab {
namespace {

using Shape = std::vector<std::int64_t>;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[probe] " + fmt::format(text, std::forward<Args>(args)...));
}

std::string index_text(std::size_t flat, const Shape& shape) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = static_cast<std::int64_t>(flat) % shape[axis];
    flat /= static_cast<std::size_t>(shape[axis]);
  }
  std::string text;
  for (std::int64_t i : index) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  return "[" + text + "]";
}

NpyArray<double> read_finite(const std::string& path) {
  NpyArray<double> array = read_array(path);
  if (array.values.empty()) refuse("{} holds no values ({}).", path, shape_text(array.shape));
  const auto bad = std::find_if(array.values.begin(), array.values.end(), [](double v) { return !std::isfinite(v); });
  if (bad != array.values.end()) {
    refuse("{} has {} at {}.", path, *bad,
           index_text(static_cast<std::size_t>(bad - array.values.begin()), array.shape));
  }
  return array;
}

std::int64_t product(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// How an array of another shape is read as one of the full shape: index / ratio * stride along each axis.
struct View {
  std::vector<std::int64_t> strides, ratios;
};

// As numpy broadcasts; heads may also repeat, each for as many neighbours (grouped keys). Absent where neither fits.
std::optional<View> view_as(const Shape& shape, const Shape& full) {
  if (shape.size() > full.size()) return std::nullopt;
  const auto own = strides_of(shape);
  View view{std::vector<std::int64_t>(full.size(), 0), std::vector<std::int64_t>(full.size(), 1)};
  const std::size_t shift = full.size() - shape.size();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::size_t to = axis + shift;
    if (shape[axis] == full[to]) {
      view.strides[to] = own[axis];
    } else if (shape[axis] > 1 && full[to] % shape[axis] == 0 && to + 1 < full.size() && full.size() >= 3) {
      view.strides[to] = own[axis];
      view.ratios[to] = full[to] / shape[axis];
    } else if (shape[axis] != 1) {
      return std::nullopt;
    }
  }
  return view;
}

struct Axes {
  std::size_t place;                 // counts positions
  std::optional<std::size_t> batch;  // counts rows of positions
};

// `last`: the last axis that may count places.
Axes find_axes(const Shape& shape, std::size_t last, const std::optional<NpyArray<double>>& positions,
               const std::string& path) {
  // [batch, heads, places, head_dim]
  const auto batch = [&](std::size_t place) {
    return shape.size() >= 4 && place > 0 ? std::optional<std::size_t>(0) : std::nullopt;
  };
  if (!positions) return {last, batch(last)};
  Shape wanted = positions->shape;
  if (wanted.size() == 2 && wanted[0] == 1) wanted.erase(wanted.begin());
  if (wanted.size() == 2) {
    for (std::size_t place = last; place > 0; --place) {
      if (shape[place] == wanted[1] && shape[0] == wanted[0]) return {place, 0};
    }
  } else {
    for (std::size_t place = last + 1; place-- > 0;) {
      if (shape[place] == wanted[0]) return {place, batch(place)};
    }
  }
  refuse("positions are {}, but no axis of {} ({}) counts them.", shape_text(positions->shape), path,
         shape_text(shape));
}

// Where the rows of every place begin: places by batch and position, then the vectors of all other axes.
void lay_out(LoadedVectors& loaded, Axes axes, const View& view, const std::optional<NpyArray<double>>& positions) {
  const Shape& shape = loaded.output.shape;
  const auto output_strides = strides_of(shape);
  const auto input_at = [&](std::size_t axis, std::int64_t index) {
    return index / view.ratios[axis] * view.strides[axis];
  };
  VectorDump& dump = loaded.dump;
  dump.head_dim = shape.back();
  std::vector<std::size_t> others;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    if (axis != axes.place && axis != axes.batch) others.push_back(axis);
  }
  dump.n_vectors = 1;
  for (std::size_t axis : others) dump.n_vectors *= shape[axis];
  const std::int64_t batches = axes.batch ? shape[*axes.batch] : 1;
  const std::int64_t places = shape[axes.place];
  dump.n_batches = batches;
  const bool shared = positions && static_cast<std::int64_t>(positions->values.size()) == places;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t s = 0; s < places; ++s) {
      dump.positions.push_back(positions ? positions->values[shared ? s : b * places + s] : static_cast<double>(s));
      for (std::int64_t v = 0; v < dump.n_vectors; ++v) {
        std::int64_t in = input_at(axes.place, s), out = s * output_strides[axes.place];
        if (axes.batch) {
          in += input_at(*axes.batch, b);
          out += b * output_strides[*axes.batch];
        }
        std::int64_t rest = v;
        for (std::size_t k = others.size(); k-- > 0;) {
          const std::int64_t index = rest % shape[others[k]];
          rest /= shape[others[k]];
          in += input_at(others[k], index);
          out += index * output_strides[others[k]];
        }
        dump.input_rows.push_back(in);
        dump.output_rows.push_back(out);
      }
    }
  }
  dump.input = loaded.input.values;
  dump.output = loaded.output.values;
  dump.stored_as = storage_type(dump.output);
}

void check_head_dim(std::int64_t head_dim, const std::string& path) {
  if (head_dim < 2 || head_dim % 2 != 0) {
    refuse("the last axis of {} has {} channels; pairs need an even number.", path, head_dim);
  }
}

void split_heads(Shape& shape, std::int64_t head_dim) {
  const std::int64_t heads = shape.back() / head_dim;
  shape.back() = heads;
  shape.push_back(head_dim);
}

// A single vector is one place.
void add_place_axis(Shape& shape, std::size_t before_last, const std::optional<NpyArray<double>>& positions,
                    const std::string& path) {
  if (shape.size() > before_last) return;
  if (!positions)
    refuse("{} ({}) has no axis of positions; say where it stands by positions.", path, shape_text(shape));
  shape.insert(shape.begin(), 1);
}

}  // namespace

NpyArray<double> read_positions(const std::string& path) {
  NpyArray<double> positions = read_finite(path);
  if (positions.shape.empty()) positions.shape = {1};
  while (positions.shape.size() > 2 && positions.shape.front() == 1) positions.shape.erase(positions.shape.begin());
  if (positions.shape.size() > 2) {
    refuse("{} must be [places] or [batch, places] but is {}.", path, shape_text(positions.shape));
  }
  constexpr double farthest = 0x1p53;
  for (double p : positions.values) {
    if (std::abs(p) > farthest) refuse("{} has position {}, beyond 2^53.", path, p);
  }
  return positions;
}

LoadedVectors load_vectors(const std::string& input_path, const std::string& output_path,
                           const std::optional<NpyArray<double>>& positions, std::optional<std::int64_t> head_dim) {
  LoadedVectors loaded{read_finite(input_path), read_finite(output_path), {}};
  Shape& shape = loaded.output.shape;
  if (shape.empty()) refuse("{} is a single value, not vectors.", output_path);
  // All heads of a token side by side: [..., places, heads * head_dim].
  const bool side_by_side = head_dim && shape.back() > *head_dim && shape.back() % *head_dim == 0;
  add_place_axis(shape, 1, positions, output_path);
  if (side_by_side) {
    split_heads(shape, *head_dim);
    if (!loaded.input.shape.empty() && loaded.input.shape.back() % *head_dim == 0) {
      split_heads(loaded.input.shape, *head_dim);
    }
  }
  check_head_dim(shape.back(), output_path);
  const auto view = view_as(loaded.input.shape, shape);
  if (!view || view->strides.back() == 0) {
    refuse("{} is {} and {} is {}; they must have the same shape, or the input one that is repeated over the output's.",
           input_path, shape_text(loaded.input.shape), output_path, shape_text(shape));
  }
  const std::size_t last = shape.size() - (side_by_side ? 3 : 2);
  const Axes axes = find_axes(shape, last, positions, output_path);
  if (view->ratios[axes.place] != 1) {
    refuse("{} is {} and {} is {}: they disagree on the number of places.", input_path, shape_text(loaded.input.shape),
           output_path, shape_text(shape));
  }
  lay_out(loaded, axes, *view, positions);
  return loaded;
}

LoadedVectors load_unit_vectors(const std::string& path, const std::optional<NpyArray<double>>& positions) {
  LoadedVectors loaded{{}, read_finite(path), {}};
  Shape& shape = loaded.output.shape;
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2]) {
    refuse("{} must end in two axes of head_dim, one unit vector in each row, but is {}.", path, shape_text(shape));
  }
  add_place_axis(shape, 2, positions, path);
  check_head_dim(shape.back(), path);
  const std::int64_t head_dim = shape.back();
  loaded.input.shape = {head_dim, head_dim};
  loaded.input.values.resize(static_cast<std::size_t>(head_dim * head_dim));
  for (std::int64_t i = 0; i < head_dim; ++i) loaded.input.values[i * (head_dim + 1)] = 1;
  lay_out(loaded, find_axes(shape, shape.size() - 3, positions, path), *view_as(loaded.input.shape, shape), positions);
  return loaded;
}

LoadedTable load_table(const std::string& cos_path, const std::string& sin_path,
                       const std::optional<NpyArray<double>>& positions) {
  const NpyArray<double> cosines = read_finite(cos_path), sines = read_finite(sin_path);
  if (cosines.shape != sines.shape) {
    refuse("{} is {} but {} is {}.", cos_path, shape_text(cosines.shape), sin_path, shape_text(sines.shape));
  }
  if (cosines.shape.empty()) refuse("{} is a single value, not a table.", cos_path);
  const std::int64_t columns = cosines.shape.back();
  const std::int64_t rows = product(std::span(cosines.shape).first(cosines.shape.size() - 1));
  LoadedTable table;
  VectorDump& dump = table.vectors.dump;
  if (!positions) {
    for (std::int64_t s = 0; s < rows; ++s) dump.positions.push_back(static_cast<double>(s));
  } else {
    dump.positions = positions->values;
  }
  if (static_cast<std::int64_t>(dump.positions.size()) != rows) {
    refuse("there are {} positions but {} rows in {} ({}).", dump.positions.size(), rows, cos_path,
           shape_text(cosines.shape));
  }
  const auto repeats = [&](auto twin) {
    for (std::int64_t s = 0; s < rows; ++s) {
      for (std::int64_t i = 0; i < columns / 2; ++i) {
        const auto [a, b] = twin(i);
        const std::int64_t row = s * columns;
        if (cosines.values[row + a] != cosines.values[row + b] || sines.values[row + a] != sines.values[row + b]) {
          return false;
        }
      }
    }
    return columns % 2 == 0;
  };
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    if (!table.layout && repeats([&](std::int64_t i) { return rope_pair_channels(layout, columns, i); })) {
      table.layout = layout;
    }
  }
  const std::int64_t n_pairs = table.layout ? columns / 2 : columns;
  std::vector<double>&before = table.vectors.input.values, &after = table.vectors.output.values;
  before.assign(static_cast<std::size_t>(rows * 2 * n_pairs), 0.0);
  after = before;
  for (std::int64_t s = 0; s < rows; ++s) {
    for (std::int64_t i = 0; i < n_pairs; ++i) {
      const std::int64_t column = table.layout ? rope_pair_channels(*table.layout, columns, i).first : i;
      const std::int64_t at = s * 2 * n_pairs + i;
      before[static_cast<std::size_t>(at)] = 1;
      after[static_cast<std::size_t>(at)] = cosines.values[s * columns + column];
      after[static_cast<std::size_t>(at + n_pairs)] = sines.values[s * columns + column];
    }
    dump.input_rows.push_back(s * 2 * n_pairs);
  }
  dump.output_rows = dump.input_rows;
  dump.head_dim = 2 * n_pairs;
  dump.has_pairing = false;
  dump.input = before;
  dump.output = after;
  dump.stored_as = storage_type(after);
  return table;
}

std::vector<double> load_inv_freq(const std::string& path) {
  NpyArray<double> array = read_finite(path);
  if (static_cast<std::int64_t>(array.values.size()) != (array.shape.empty() ? 1 : array.shape.back())) {
    refuse("{} must be a list of frequencies but is {}.", path, shape_text(array.shape));
  }
  for (double w : array.values) {
    if (w < 0) refuse("{} has the negative frequency {}.", path, w);
  }
  return std::move(array.values);
}

}  // namespace poslab

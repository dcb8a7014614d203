// What an experiment hands back, its types erased: the writers of report/ and cli read only this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/fields.h"

namespace poslab {

// Rows made on demand, in any order and by several threads at once, so that a long table never stands in memory as
// text.
struct RowSource {
  std::int64_t count = 0;
  std::function<void(std::int64_t index, Record& out)> fill;  // out is cleared and filled in field order
  std::vector<std::string> columns;                           // the row fields that are filled; empty = all
};

enum class PictureKind { lines, heatmap, bars };

struct Series {
  std::string name;
  std::vector<double> x;  // empty: 0, 1, 2, ...
  std::vector<double> y;
};

// A small picture; cli draws it with block characters, scripts/plot.py draws from the document's rows instead.
struct Picture {
  PictureKind kind = PictureKind::lines;
  std::string title;
  std::string x_label, y_label;        // with units in parentheses
  std::vector<Series> series;          // lines, bars
  std::int64_t height = 0, width = 0;  // heatmap: height x width values, row by row
  std::vector<double> values;
  bool log_y = false;
};

// A tensor streamed to .npy: fill writes rows [first, first + count) of the leading axis, little-endian, C order.
struct TensorSource {
  DType dtype = DType::f64;
  std::vector<std::int64_t> shape;
  std::function<void(std::int64_t first, std::int64_t count, std::byte* out)> fill;
};

struct Report {
  Record summary;
  RowSource rows;
  std::string conclusion;
  std::vector<Picture> pictures;
  TensorSource tensor;
  std::vector<std::string> notes;
};

}  // namespace poslab

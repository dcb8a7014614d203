#include "poslab/rope/rope_rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "poslab/core/threads.h"
#include "poslab/kernels/rotation.h"
#include "poslab/kernels/wave_table.h"
#include "poslab/rope/element_storage.h"

namespace poslab {
namespace {

// A tile's part of the table stays in the second-level cache while heads take their turns with it; enough heads share
// a tile to repay angles made on the fly.
constexpr std::int64_t tile_rows = 256, tile_heads = 32;

void check(const RopeTensor& shape, std::size_t x_bytes, std::size_t out_bytes, std::int64_t n_positions,
           std::int64_t n_pairs) {
  if (shape.n_heads < 0 || shape.seq_len < 0 || shape.head_dim < 2 * n_pairs) {
    throw std::invalid_argument(fmt::format("[rotate] {} pairs do not fit in n_heads {} x seq_len {} x head_dim {}.",
                                            n_pairs, shape.n_heads, shape.seq_len, shape.head_dim));
  }
  if (n_positions != shape.seq_len) {
    throw std::invalid_argument(
        fmt::format("[rotate] seq_len is {} but there are {} positions.", shape.seq_len, n_positions));
  }
  const std::size_t bytes =
      static_cast<std::size_t>(shape.n_heads * shape.seq_len * shape.head_dim) * bytes_per_element(shape.dtype);
  if (x_bytes != bytes || out_bytes != bytes) {
    throw std::invalid_argument(
        fmt::format("[rotate] n_heads {} x seq_len {} x head_dim {} of {} needs {} bytes but x has {} and out {}.",
                    shape.n_heads, shape.seq_len, shape.head_dim, to_word(shape.dtype), bytes, x_bytes, out_bytes));
  }
}

struct TablePart {
  const float* cosines;
  const float* sines;
};

// Calls table_part(first, count) once for each tile of positions (and 32 heads), from any thread.
void rotate_tiles(const RopeTensor& shape, std::span<const std::byte> x, std::span<std::byte> out, std::int64_t n_pairs,
                  int threads, const std::function<TablePart(std::int64_t first, std::int64_t count)>& table_part) {
  RotationRows all;
  all.type = storage_of(shape.dtype);
  all.half = shape.layout == RopeLayout::half;
  all.inverse = shape.inverse;
  all.x_stride = all.out_stride = all.width = static_cast<std::size_t>(shape.head_dim);
  all.n_pairs = all.table_stride = static_cast<std::size_t>(n_pairs);
  all.stream = beyond_cache(out.size());
  const Isa isa = active_isa();
  const std::size_t row_bytes = all.width * storage_bytes(all.type);
  const std::int64_t groups = (shape.n_heads + tile_heads - 1) / tile_heads;
  const std::int64_t tiles = (shape.seq_len + tile_rows - 1) / tile_rows;
  parallel_for(tiles * groups, threads, [&](std::int64_t task) {
    const std::int64_t first = task / groups * tile_rows, first_head = task % groups * tile_heads;
    RotationRows rows = all;
    rows.rows = static_cast<std::size_t>(std::min(tile_rows, shape.seq_len - first));
    const TablePart part = table_part(first, static_cast<std::int64_t>(rows.rows));
    rows.cosines = part.cosines;
    rows.sines = part.sines;
    for (std::int64_t head = first_head; head < std::min(first_head + tile_heads, shape.n_heads); ++head) {
      const std::size_t at = static_cast<std::size_t>(head * shape.seq_len + first) * row_bytes;
      rows.x = x.data() + at;
      rows.out = out.data() + at;
      rotate_rows(rows, isa);
    }
  });
}

void fill_rows(std::span<const double> positions, std::span<const double> inv_freq, double attention_factor,
               float* cosines, float* sines) {
  const Isa isa = active_isa();
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::size_t at = row * inv_freq.size();
    wave_row(positions[row], inv_freq, attention_factor, cosines + at, sines + at, isa);
  }
}

}  // namespace

RopeTable rope_table(std::span<const double> positions, std::span<const double> inv_freq, double attention_factor,
                     int threads) {
  RopeTable table;
  table.seq_len = static_cast<std::int64_t>(positions.size());
  table.n_pairs = static_cast<std::int64_t>(inv_freq.size());
  table.cosines = AlignedBuffer<float>(positions.size() * inv_freq.size());
  table.sines = AlignedBuffer<float>(positions.size() * inv_freq.size());
  parallel_for((table.seq_len + tile_rows - 1) / tile_rows, threads, [&](std::int64_t task) {
    const std::size_t first = static_cast<std::size_t>(task * tile_rows);
    const std::size_t count = std::min<std::size_t>(tile_rows, positions.size() - first);
    const std::size_t at = first * inv_freq.size();
    fill_rows(positions.subspan(first, count), inv_freq, attention_factor, table.cosines.data() + at,
              table.sines.data() + at);
  });
  return table;
}

void rotate(const RopeTensor& shape, std::span<const std::byte> x, std::span<std::byte> out, const RopeTable& table,
            int threads) {
  check(shape, x.size(), out.size(), table.seq_len, table.n_pairs);
  rotate_tiles(shape, x, out, table.n_pairs, threads, [&](std::int64_t first, std::int64_t) {
    return TablePart{table.cosines.data() + first * table.n_pairs, table.sines.data() + first * table.n_pairs};
  });
}

void rotate(const RopeTensor& shape, std::span<const std::byte> x, std::span<std::byte> out,
            std::span<const double> positions, std::span<const double> inv_freq, double attention_factor, int threads) {
  const auto n_pairs = static_cast<std::int64_t>(inv_freq.size());
  check(shape, x.size(), out.size(), static_cast<std::int64_t>(positions.size()), n_pairs);
  rotate_tiles(shape, x, out, n_pairs, threads, [&](std::int64_t first, std::int64_t count) {
    static thread_local std::vector<float> scratch;
    const std::size_t size = static_cast<std::size_t>(count * n_pairs);
    scratch.resize(2 * size);
    fill_rows(positions.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), inv_freq,
              attention_factor, scratch.data(), scratch.data() + size);
    return TablePart{scratch.data(), scratch.data() + size};
  });
}

}  // namespace poslab

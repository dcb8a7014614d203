#include "poslab/rope/distinct_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "poslab/core/threads.h"

namespace poslab {
namespace {

constexpr std::int64_t chunk_size = 1 << 15;
constexpr int bucket_bits = 10;

// Equal angles for this purpose: one NaN is as good as another.
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::uint64_t bits_of(double x) { return std::isnan(x) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(x); }

// Stafford's "Mix13" finalizer, as in SplitMix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Folds one pair's stored cos and sin into a hash.
std::uint64_t add_pair(std::uint64_t hash, const ProfiledRope& rope, std::int64_t position, std::int64_t pair) {
  const CosSin turned = rope.turn(rope.angle(static_cast<double>(position), pair));
  return mix(mix(hash + bits_of(turned.cos)) + bits_of(turned.sin));
}

std::uint64_t row_hash(const ProfiledRope& rope, std::int64_t position) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < rope.n_pairs(); ++i) hash = add_pair(hash, rope, position, i);
  return hash;
}

// A few pairs, from the fastest to the slowest, that together tell nearly all positions apart: where their hashes
// differ the rows do, and only where they agree must the whole rows be compared.
class Key {
 public:
  explicit Key(const ProfiledRope& rope) : rope_(rope) {
    const DType table = rope.profile().table;
    const std::int64_t wanted = table == DType::f64 ? 1 : table == DType::f32 ? 2 : 3;
    const std::int64_t n = std::min(rope.n_pairs(), wanted);
    for (std::int64_t j = 0; j < n; ++j) pairs_.push_back(n == 1 ? 0 : j * (rope.n_pairs() - 1) / (n - 1));
  }
  bool is_whole_row() const { return static_cast<std::int64_t>(pairs_.size()) == rope_.n_pairs(); }
  std::uint64_t operator()(std::int64_t position) const {
    std::uint64_t hash = 0;
    for (std::int64_t pair : pairs_) hash = add_pair(hash, rope_, position, pair);
    return std::max<std::uint64_t>(hash, 1);  // count_keys marks empty slots by 0
  }

 private:
  const ProfiledRope& rope_;
  std::vector<std::int64_t> pairs_;
};

// The first q in (position, last] at which some pair's angle differs from its angle at `position`, else last. Angles
// never shrink, so a pair that agrees at q agrees at every place between.
std::int64_t next_change(const ProfiledRope& rope, std::int64_t position, std::int64_t last) {
  for (std::int64_t i = 0; i < rope.n_pairs() && last > position + 1; ++i) {
    const double angle = rope.angle(static_cast<double>(position), i);
    const auto agrees = [&](std::int64_t q) { return same(rope.angle(static_cast<double>(q), i), angle); };
    if (!agrees(position + 1)) return position + 1;
    if (agrees(last - 1)) continue;
    std::int64_t low = position + 1;
    std::int64_t high = last - 1;
    for (std::int64_t step = 1; low + step < high; step *= 2) {
      if (!agrees(low + step)) {
        high = low + step;
        break;
      }
      low += step;
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (agrees(middle) ? low : high) = middle;
    }
    last = high;
  }
  return last;
}

// The runs of constant angles within chunk_size positions; only their first positions need cos and sin.
struct Chunk {
  std::vector<std::int64_t> starts;
  std::vector<std::uint64_t> keys;  // at each start
  std::optional<std::int64_t> first_collision;
};

Chunk scan_chunk(const ProfiledRope& rope, const Key& key_of, std::int64_t first, std::int64_t seq_len) {
  const std::int64_t last = std::min(first + chunk_size, seq_len);
  Chunk chunk;
  std::uint64_t key = key_of(first);
  for (std::int64_t p = first; p < last;) {
    chunk.starts.push_back(p);
    chunk.keys.push_back(key);
    const std::int64_t next = next_change(rope, p, last);
    const std::uint64_t next_key = next < seq_len ? key_of(next) : ~key;
    if (!chunk.first_collision && (next > p + 1 || (key == next_key && row_hash(rope, p) == row_hash(rope, next)))) {
      chunk.first_collision = p;
    }
    p = next;
    key = next_key;
  }
  return chunk;
}

struct Bucket {
  std::vector<std::uint64_t> keys;
  std::int64_t n_distinct = 0;
  std::vector<std::uint64_t> repeated;  // the keys that occur more than once, sorted
};

std::size_t bucket_of(std::uint64_t key) { return key >> (64 - bucket_bits); }

// Finds the repeated keys of one bucket by open addressing; the keys are already as good as random.
void count_keys(Bucket& bucket) {
  const std::size_t size = std::bit_ceil(2 * bucket.keys.size() + 1);
  std::vector<std::uint64_t> slots(size, 0);
  for (std::uint64_t key : bucket.keys) {
    std::size_t at = key & (size - 1);
    while (slots[at] != 0 && slots[at] != key) at = (at + 1) & (size - 1);
    if (slots[at] == key) {
      bucket.repeated.push_back(key);
    } else {
      slots[at] = key;
    }
  }
  bucket.n_distinct = static_cast<std::int64_t>(bucket.keys.size() - bucket.repeated.size());
  std::sort(bucket.repeated.begin(), bucket.repeated.end());
  bucket.repeated.erase(std::unique(bucket.repeated.begin(), bucket.repeated.end()), bucket.repeated.end());
}

std::vector<Bucket> count_all_keys(const std::vector<Chunk>& chunks, int threads) {
  std::vector<std::size_t> sizes(std::size_t{1} << bucket_bits);
  for (const Chunk& chunk : chunks) {
    for (std::uint64_t key : chunk.keys) ++sizes[bucket_of(key)];
  }
  std::vector<Bucket> buckets(sizes.size());
  for (std::size_t b = 0; b < sizes.size(); ++b) buckets[b].keys.reserve(sizes[b]);
  for (const Chunk& chunk : chunks) {
    for (std::uint64_t key : chunk.keys) buckets[bucket_of(key)].keys.push_back(key);
  }
  parallel_for(static_cast<std::int64_t>(buckets.size()), threads,
               [&](std::int64_t b) { count_keys(buckets[static_cast<std::size_t>(b)]); });
  return buckets;
}

std::int64_t count_rows(const ProfiledRope& rope, const Key& key_of, const std::vector<Chunk>& chunks, int threads) {
  const std::vector<Bucket> buckets = count_all_keys(chunks, threads);
  std::int64_t n_keys = 0;
  std::int64_t n_repeated = 0;
  for (const Bucket& bucket : buckets) {
    n_keys += bucket.n_distinct;
    n_repeated += static_cast<std::int64_t>(bucket.repeated.size());
  }
  if (n_repeated == 0 || key_of.is_whole_row()) return n_keys;

  std::vector<std::vector<std::uint64_t>> rows(chunks.size());
  parallel_for(static_cast<std::int64_t>(chunks.size()), threads, [&](std::int64_t c) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(c)];
    for (std::size_t i = 0; i < chunk.keys.size(); ++i) {
      const auto& repeated = buckets[bucket_of(chunk.keys[i])].repeated;
      if (repeated.empty() || !std::binary_search(repeated.begin(), repeated.end(), chunk.keys[i])) continue;
      rows[static_cast<std::size_t>(c)].push_back(row_hash(rope, chunk.starts[i]));
    }
  });
  std::vector<std::uint64_t> compared;
  for (const auto& part : rows) compared.insert(compared.end(), part.begin(), part.end());
  std::sort(compared.begin(), compared.end());
  return n_keys - n_repeated + (std::unique(compared.begin(), compared.end()) - compared.begin());
}

}  // namespace

DistinctPositions distinct_positions(const ProfiledRope& rope, std::int64_t seq_len, int threads,
                                     const std::function<void(double)>& progress) {
  if (seq_len < 1 || seq_len > max_distinct_positions) {
    throw std::invalid_argument(fmt::format("[distinct_positions] seq_len must be between 1 and {} but got {}.",
                                            max_distinct_positions, seq_len));
  }
  std::vector<Chunk> chunks(static_cast<std::size_t>((seq_len + chunk_size - 1) / chunk_size));
  const auto n_chunks = static_cast<std::int64_t>(chunks.size());
  const Key key_of(rope);
  std::mutex mutex;
  std::int64_t done = 0;
  parallel_for(n_chunks, threads, [&](std::int64_t c) {
    chunks[static_cast<std::size_t>(c)] = scan_chunk(rope, key_of, c * chunk_size, seq_len);
    const std::lock_guard lock(mutex);
    progress(static_cast<double>(++done) / static_cast<double>(n_chunks));
  });
  DistinctPositions result;
  for (const Chunk& chunk : chunks) {
    if (!result.first_collision) result.first_collision = chunk.first_collision;
  }
  result.count = count_rows(rope, key_of, chunks, threads);
  return result;
}

}  // namespace poslab

#include "bench/bench_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "poslab/attention/attention.h"
#include "poslab/core/aligned.h"
#include "poslab/core/random.h"
#include "poslab/core/threads.h"
#include "poslab/kernels/blas.h"
#include "poslab/kernels/convert.h"
#include "poslab/kernels/cosine_sum.h"
#include "poslab/kernels/sum.h"
#include "poslab/methods/list.h"
#include "poslab/models/adamw.h"
#include "poslab/models/transformer.h"
#include "poslab/rope/element_storage.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/rope_rotation.h"

namespace poslab {
namespace {

using Run = std::function<void()>;
using Bytes = AlignedBuffer<std::byte>;

constexpr std::int64_t chunk_bytes = 1 << 18;

template <class T>
std::shared_ptr<AlignedBuffer<T>> touched(std::size_t size, T value = T{}) {
  return std::make_shared<AlignedBuffer<T>>(size, value);
}

std::shared_ptr<AlignedBuffer<float>> normal_floats(std::size_t size) {
  auto buffer = touched<float>(size);
  Generator random(0);
  // A short run repeated: the values do not matter for speed.
  const std::size_t drawn = std::min<std::size_t>(size, 1 << 16);
  for (std::size_t i = 0; i < drawn; ++i) buffer->data()[i] = random.standard_normal_f32();
  for (std::size_t i = drawn; i < size; ++i) buffer->data()[i] = buffer->data()[i - drawn];
  return buffer;
}

// Calls piece(first, count) over `size` bytes in chunks.
void in_chunks(std::int64_t size, int threads, const std::function<void(std::int64_t, std::int64_t)>& piece) {
  parallel_for((size + chunk_bytes - 1) / chunk_bytes, threads, [&](std::int64_t chunk) {
    const std::int64_t first = chunk * chunk_bytes;
    piece(first, std::min(chunk_bytes, size - first));
  });
}

// Ordinary stores; std::fill of a float whose bytes differ does not become memset, which may stream.
void fill_constant(float* to, std::size_t n, float value) { std::fill_n(to, n, value); }

BenchCase constant_fill(std::int64_t rows, std::int64_t width) {
  const std::int64_t size = rows * width * 4;
  return {fmt::format("fill/f32/{}x{}", rows, width), "", static_cast<double>(size), 0, [size](int threads) -> Run {
            auto out = touched<float>(static_cast<std::size_t>(size / 4), 1);
            return [out, size, threads] {
              in_chunks(size, threads, [&](std::int64_t first, std::int64_t count) {
                fill_constant(out->data() + first / 4, static_cast<std::size_t>(count / 4), 2);
              });
            };
          }};
}

BenchCase copy(DType dtype, std::int64_t n_heads, std::int64_t seq_len, std::int64_t head_dim) {
  const std::int64_t size = n_heads * seq_len * head_dim * static_cast<std::int64_t>(bytes_per_element(dtype));
  return {fmt::format("memcpy/{}/{}x{}x{}", to_word(dtype), n_heads, seq_len, head_dim), "",
          2 * static_cast<double>(size), 0, [size](int threads) -> Run {
            auto from = touched<std::byte>(static_cast<std::size_t>(size), std::byte{1});
            auto to = touched<std::byte>(static_cast<std::size_t>(size));
            return [from, to, size, threads] {
              // One contiguous share per thread, as memcpy serves best.
              const std::int64_t share = (size + threads - 1) / threads;
              parallel_for(threads, threads, [&](std::int64_t t) {
                const std::int64_t first = std::min(t * share, size);
                std::memcpy(to->data() + first, from->data() + first,
                            static_cast<std::size_t>(std::min(share, size - first)));
              });
            };
          }};
}

BenchCase wave_table(DType dtype, std::int64_t rows, std::int64_t width) {
  const double size = static_cast<double>(rows * width) * static_cast<double>(bytes_per_element(dtype));
  return {fmt::format("table/{}/{}x{}", to_word(dtype), rows, width), fmt::format("fill/f32/{}x{}", rows, width), size,
          0, [dtype, rows, width](int threads) -> Run {
            auto table = std::make_shared<SinusoidalTable>(width);
            const std::size_t row_bytes = static_cast<std::size_t>(width) * bytes_per_element(dtype);
            auto out = touched<std::byte>(static_cast<std::size_t>(rows) * row_bytes, std::byte{1});
            return [=] {
              constexpr std::int64_t per_task = 256;
              parallel_for((rows + per_task - 1) / per_task, threads, [&](std::int64_t task) {
                const std::int64_t first = task * per_task;
                table->fill_narrowed(first, std::min(per_task, rows - first), dtype,
                                     out->data() + static_cast<std::size_t>(first) * row_bytes, true);
              });
            };
          }};
}

struct RotationCase {
  RopeTensor tensor;
  bool in_place = false, on_the_fly = false;
};

BenchCase rotation(RotationCase c) {
  const RopeTensor& t = c.tensor;
  const std::string size = fmt::format("{}x{}x{}", t.n_heads, t.seq_len, t.head_dim);
  const std::int64_t n = t.n_heads * t.seq_len * t.head_dim;
  return {fmt::format("rotate/{}/{}/{}{}/{}", to_word(t.dtype), to_word(t.layout),
                      c.in_place ? "in_place" : "out_of_place", c.on_the_fly ? "/angles_on_the_fly" : "", size),
          fmt::format("memcpy/{}/{}", to_word(t.dtype), size),
          2 * static_cast<double>(n) * static_cast<double>(bytes_per_element(t.dtype)), 0, [c, n](int threads) -> Run {
            auto values = normal_floats(static_cast<std::size_t>(n));
            auto x = touched<std::byte>(static_cast<std::size_t>(n) * bytes_per_element(c.tensor.dtype));
            narrow(values->span(), storage_of(c.tensor.dtype), x->data());
            auto out = c.in_place ? x : touched<std::byte>(x->size());
            std::vector<double> positions(static_cast<std::size_t>(c.tensor.seq_len));
            std::iota(positions.begin(), positions.end(), 0.0);
            const std::vector<double> inv_freq = rope_inv_freq(c.tensor.head_dim, 10000);
            auto table = std::make_shared<RopeTable>(rope_table(positions, inv_freq));
            return [=] {
              if (c.on_the_fly) {
                rotate(c.tensor, x->span(), out->span(), positions, inv_freq, 1, threads);
              } else {
                rotate(c.tensor, x->span(), out->span(), *table, threads);
              }
            };
          }};
}

BenchCase conversion(Storage type, const char* word, bool narrowing, std::int64_t n) {
  return {fmt::format("convert/{}/{}", narrowing ? fmt::format("f32_to_{}", word) : fmt::format("{}_to_f32", word), n),
          "", static_cast<double>(n) * 6, 0, [=](int threads) -> Run {
            auto wide = normal_floats(static_cast<std::size_t>(n));
            auto slim = touched<std::uint16_t>(static_cast<std::size_t>(n));
            return [=] {
              in_chunks(n, threads, [&](std::int64_t first, std::int64_t count) {
                const std::span<float> values =
                    wide->span().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
                if (narrowing) {
                  narrow(std::span<const float>(values), type, slim->data() + first);
                } else {
                  widen(slim->data() + first, type, values);
                }
              });
            };
          }};
}

BenchCase dot_product(std::int64_t n) {
  return {fmt::format("dot/f32/{}", n), "", static_cast<double>(n) * 8, 0, [n](int) -> Run {
            auto x = normal_floats(static_cast<std::size_t>(n));
            auto sink = std::make_shared<double>(0);
            return [=] { *sink = *sink + ordered_dot(std::span<const float>(x->span()), x->span()); };
          }};
}

BenchCase base_scan(std::int64_t end) {
  constexpr std::int64_t n_pairs = 64;
  return {fmt::format("cosine_sums/{}x{}", end, n_pairs), "", 0, 3 * static_cast<double>(end * n_pairs),
          [end](int threads) -> Run {
            auto sums = std::make_shared<CosineSums>(rope_inv_freq(2 * n_pairs, 5e6));
            return [=] {
              parallel_for(end / CosineSums::block, threads, [&](std::int64_t block) {
                double out[CosineSums::block];
                sums->fill_block(block, std::span<double, CosineSums::block>(out));
              });
            };
          }};
}

BenchCase matrix_product(std::int64_t n) {
  return {fmt::format("sgemm/{}x{}x{}", n, n, n), "", 0, 2 * std::pow(static_cast<double>(n), 3),
          [n](int threads) -> Run {
            auto a = normal_floats(static_cast<std::size_t>(n * n)), b = normal_floats(static_cast<std::size_t>(n * n));
            auto c = touched<float>(static_cast<std::size_t>(n * n));
            return [=] {
              parallel_gemm<float>(Transpose::no, Transpose::no, n, n, n, 1, a->data(), n, b->data(), n, 0, c->data(),
                                   n, threads);
            };
          }};
}

// Operations are those of the causal half, whether or not a bias lets some be skipped.
BenchCase causal_attention(const Method& method, std::int64_t seq_len, std::int64_t n_heads, std::int64_t head_dim) {
  const double pairs = static_cast<double>(seq_len) * static_cast<double>(seq_len + 1) / 2;
  return {fmt::format("attention/f32/causal{}/{}x{}x{}",
                      method.places().empty() ? "" : fmt::format("_{}", method.word()), seq_len, n_heads, head_dim),
          "sgemm/1024x1024x1024", 0, 4 * pairs * static_cast<double>(n_heads * head_dim),
          [=, &method](int threads) -> Run {
            const std::size_t size = static_cast<std::size_t>(seq_len * n_heads * head_dim);
            auto q = normal_floats(size), k = normal_floats(size), v = normal_floats(size);
            auto out = touched<float>(size);
            AttentionOptions options;
            const MethodParams params;
            options.bias = method.bias({params, n_heads * head_dim, n_heads, head_dim, seq_len, true}, {});
            options.visible = key_ranges(Mask::causal, seq_len, seq_len);
            const AttentionShape shape{n_heads, n_heads, seq_len, seq_len, head_dim};
            return [=] {
              attention<float>(shape, options, heads_first<const float>(q->data(), seq_len, head_dim),
                               heads_first<const float>(k->data(), seq_len, head_dim),
                               heads_first<const float>(v->data(), seq_len, head_dim),
                               heads_first(out->data(), seq_len, head_dim), threads);
            };
          }};
}

// A step of training: loss, gradient and AdamW.
BenchCase train_step(MlpKind mlp, std::int64_t seq_len, std::int64_t batch) {
  TransformerConfig c;  // 4 layers, d_model 128, 4 heads, 96 tokens, RoPE
  c.max_position_embeddings = seq_len;
  if (mlp == MlpKind::swiglu) {
    c.mlp = mlp;
    c.norm = NormKind::rms_norm;
    c.set_biases(false);
    c.d_ff = 352;
  }
  const std::int64_t tokens = batch * seq_len;
  const std::int64_t weights =
      c.n_layers * c.d_model * (c.qkv_width() + c.attention_width() + c.up_width() + c.d_ff) + c.vocab_size * c.d_model;
  const std::int64_t attention = c.n_layers * 2 * (seq_len + 1) / 2 * c.attention_width();
  // Multiply-adds; backward costs twice forward, what it computes again uncounted.
  const double operations = 3 * 2 * static_cast<double>(tokens * (weights + attention));
  return {
      fmt::format("train_step/f32/{}/{}x{}x{}/{}x{}", to_word(mlp), c.n_layers, c.d_model, c.n_heads, batch, seq_len),
      "sgemm/1024x1024x1024", 0, operations, [=](int threads) -> Run {
        struct Training {
          Transformer<float> model;
          AdamW<float> optimiser;
          std::vector<std::int64_t> ids, targets;
          std::vector<float> gradient;
        };
        Generator random(0);
        Transformer<float> model(c, random);
        AdamW<float> optimiser(model.layout(), {});
        std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens));
        for (std::int64_t& id : ids) id = random.integer(0, c.vocab_size);
        auto t = std::make_shared<Training>(Training{std::move(model), std::move(optimiser), ids, ids, {}});
        std::rotate(t->targets.begin(), t->targets.begin() + 1, t->targets.end());
        t->gradient.resize(t->model.values().size());
        return [t, batch, threads] {
          t->model.loss_and_gradient(t->ids, t->targets, batch, t->gradient, threads);
          t->optimiser.step(t->model.values(), t->gradient, gradient_norm<float>(t->gradient), 1e-3, threads);
        };
      }};
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  cases.push_back(constant_fill(131072, 1024));
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back(wave_table(dtype, 131072, 1024));
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    cases.push_back(copy(dtype, 32, 8192, 128));
    for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
      for (bool in_place : {false, true}) cases.push_back(rotation({{32, 8192, 128, dtype, layout}, in_place}));
    }
  }
  cases.push_back(rotation({{32, 8192, 128, DType::f32, RopeLayout::half}, false, true}));
  cases.push_back(copy(DType::f32, 32, 512, 128));
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    for (bool in_place : {false, true}) cases.push_back(rotation({{32, 512, 128, DType::f32, layout}, in_place}));
  }
  for (bool narrowing : {true, false}) {
    cases.push_back(conversion(Storage::bf16, "bf16", narrowing, 1 << 24));
    cases.push_back(conversion(Storage::f16, "f16", narrowing, 1 << 24));
  }
  cases.push_back(dot_product(1 << 24));
  cases.push_back(base_scan(1 << 20));
  cases.push_back(matrix_product(1024));
  for (const Method* method : {&none_method(), &alibi_method()}) {
    for (std::int64_t seq_len : {1024, 2048, 4096, 8192}) {
      cases.push_back(causal_attention(*method, seq_len, 8, 64));
    }
  }
  cases.push_back(causal_attention(alibi_method(), 32768, 8, 64));
  for (std::int64_t head_dim : {32, 128}) cases.push_back(causal_attention(none_method(), 4096, 8, head_dim));
  for (MlpKind mlp : {MlpKind::gelu, MlpKind::swiglu}) cases.push_back(train_step(mlp, 256, 16));
  return cases;
}

}  // namespace poslab

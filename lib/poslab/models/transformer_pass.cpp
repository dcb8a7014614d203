#include "poslab/models/transformer_pass.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "poslab/models/linear.h"

namespace poslab {

template <class T>
TransformerPass<T>::TransformerPass(const TransformerState<T>& state, std::int64_t batch_size, std::int64_t length,
                                    const ForwardOptions& options, bool keeping)
    : batch(batch_size),
      seq_len(length),
      rows(batch_size * length),
      layout(options.layout.value_or(state.c.layout)),
      threads(options.threads),
      progress(options.progress),
      s(state),
      c(state.c),
      kept(keeping),
      widest(std::max({c.up_width(), c.qkv_width(), c.vocab_size, c.d_model})),
      scratch_size(block_rows * (2 * c.d_model + c.d_ff + 2 * widest) + linear_scratch(widest_in())) {
  const std::int64_t layers = kept ? c.n_layers : 1;
  stream = buffer<T>(rows * c.d_model * (kept ? 2 * c.n_layers + 1 : 1));
  qkv = buffer<T>(layers * rows * c.qkv_width());
  attended = buffer<T>(layers * rows * c.attention_width());
  up = buffer<T>(kept ? layers * rows * c.up_width() : 0);
  lse = buffer<T>(layers * rows * c.n_heads);
  const MethodModel model = method_model(c);
  if (c.encoding->acts_on(Place::rotation)) {
    turns = make_turns<T>(c, options.rope ? *options.rope : rope_frequencies(c.rope, length), length);
  }
  if (c.encoding->acts_on(Place::input) && !c.encoding->learns_input()) {
    std::vector<double> rows_of_input(static_cast<std::size_t>(length * c.d_model));
    c.encoding->input(model, {})->fill(0, rows_of_input);
    fixed_input = buffer<T>(length * c.d_model);
    std::ranges::transform(rows_of_input, fixed_input.data(), [](double value) { return static_cast<T>(value); });
  }
  window = options.attention_window.value_or(c.attention_window);
  if (c.local_layers.empty()) return;
  local_window = window > 0 && c.local_window > 0 ? std::min(window, c.local_window) : std::max(window, c.local_window);
  if (c.encoding->acts_on(Place::rotation))
    local_turns = make_turns<T>(c, rope_frequencies(c.local_rope, length), length);
}

template <class T>
void TransformerPass<T>::embed(std::span<const std::int64_t> tokens) {
  const std::int64_t d = c.d_model;
  const T* table = s.values.data() + s.layout.embed;
  const T* added = input_rows();
  const T scale = static_cast<T>(c.encoding->token_scale(method_model(c)));
  T* to = stream_at(0);
  for (std::int64_t row = 0; row < rows; ++row, to += d) {
    const T* from = table + tokens[static_cast<std::size_t>(row)] * d;
    const std::int64_t position = row % seq_len;
    if (added) {
      for (std::int64_t i = 0; i < d; ++i) to[i] = from[i] * scale + added[position * d + i];
    } else {
      for (std::int64_t i = 0; i < d; ++i) to[i] = from[i] * scale;
    }
    if (c.embedding_scale != 1) {
      for (std::int64_t i = 0; i < d; ++i) to[i] *= static_cast<T>(c.embedding_scale);
    }
  }
  if (!c.embedding_norm) return;
  const NormParameters<T> normed = norm(s.layout.embed_norm_weight, s.layout.embed_norm_bias, s.values.data());
  norm_forward(normed, rows, d, stream_at(0), stream_at(0));
}

template <class T>
void TransformerPass<T>::turn_rows(std::int64_t layer, T* qkv_rows, std::int64_t first, std::int64_t n, bool inverse) {
  const Turns<T>& by = c.is_local(layer) ? local_turns : turns;
  if (by.n_pairs == 0) return;
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t position = (first + done) % seq_len;
    const std::int64_t count = std::min(n - done, seq_len - position);
    const std::int64_t table = position * by.n_pairs;
    for (std::int64_t head = 0; head < c.n_heads + c.n_kv_heads; ++head) {
      const bool own = head >= c.n_heads && by.key_cosines.size() > 0;
      turn(layout, inverse, qkv_rows + done * c.qkv_width() + head * c.head_dim, c.qkv_width(), count, by.n_pairs,
           (own ? by.key_cosines : by.cosines).data() + table, (own ? by.key_sines : by.sines).data() + table);
    }
    done += count;
  }
}

// What a layer does to queries, keys and values between their linear map and the turns.
template <class T>
void TransformerPass<T>::adjust_rows(std::int64_t layer, T* qkv_rows, std::int64_t n) {
  if (c.qkv_clip) {
    const T most = static_cast<T>(*c.qkv_clip);
    for (std::int64_t i = 0; i < n * c.qkv_width(); ++i) qkv_rows[i] = std::clamp(qkv_rows[i], -most, most);
  }
  const LayerOffsets& at_ = s.layout.in_layer();
  const T* p = s.values.data() + s.layout.layer_begin(layer);
  // Attention divides by sqrt(head_dim).
  const T scale = static_cast<T>(c.query_scale.value_or(1) * std::sqrt(static_cast<double>(c.head_dim)));
  for (std::int64_t r = 0; r < n; ++r, qkv_rows += c.qkv_width()) {
    if (c.qk_norm) {
      T* keys = qkv_rows + c.attention_width();
      const NormParameters<T> q{NormKind::rms_norm, c.norm_eps, p + at_.q_norm, nullptr};
      const NormParameters<T> k{NormKind::rms_norm, c.norm_eps, p + at_.k_norm, nullptr};
      norm_forward(q, c.n_heads, c.head_dim, qkv_rows, qkv_rows);
      norm_forward(k, c.n_kv_heads, c.head_dim, keys, keys);
    }
    if (!c.query_scale) continue;
    for (std::int64_t i = 0; i < c.attention_width(); ++i) qkv_rows[i] *= scale;
  }
}

template <class T>
void TransformerPass<T>::forward(std::span<const std::int64_t> tokens) {
  const auto& l = s.layout;
  if (c.encoding->acts_on(Place::score_bias)) {
    const T* learned = s.values.data() + std::max<std::int64_t>(l.method, 0);
    bias = score_bias_rows<T>(c.encoding->bias(method_model(c), std::vector<double>(learned, learned + l.method_size)),
                              seq_len);
  }
  embed(tokens);
  for (std::int64_t layer = 0; layer < c.n_layers; ++layer) {
    forward_layer(layer);
    if (progress) progress(static_cast<double>(layer + 1) / static_cast<double>(c.n_layers + 1));
  }
}

template <class T>
void TransformerPass<T>::forward_layer(std::int64_t layer) {
  const LayerOffsets& at_ = s.layout.in_layer();
  const T* p = s.values.data() + s.layout.layer_begin(layer);
  const std::int64_t d = c.d_model;
  const LinearMap<T> to_qkv(c.qkv_width(), d, p + at_.qkv_weight, tensor_at(p, at_.qkv_bias));
  for_each_block([&](std::int64_t first, std::int64_t n, T* normed) {
    norm_forward(norm(at_.norm1_weight, at_.norm1_bias, p), n, d, stream_at(2 * layer) + first * d, normed);
    T* to = slot(qkv, layer, c.qkv_width()) + first * c.qkv_width();
    to_qkv(n, normed, to);
    if (c.qk_norm || c.query_scale || c.qkv_clip) adjust_rows(layer, to, n);
    turn_rows(layer, to, first, n, false);
  });
  T* heads = slot(attended, layer, c.attention_width());
  attention_forward(attention(layer), heads, slot(lse, layer, c.n_heads), attention_pool, threads);
  const LinearMap<T> to_out(d, c.attention_width(), p + at_.o_weight, tensor_at(p, at_.o_bias));
  const LinearMap<T> to_up(c.up_width(), d, p + at_.up_weight, tensor_at(p, at_.up_bias));
  const LinearMap<T> to_down(d, c.d_ff, p + at_.down_weight, tensor_at(p, at_.down_bias));
  for_each_block([&](std::int64_t first, std::int64_t n, T* scratch) {
    T* normed = scratch;
    T* said = normed + block_rows * d;
    T* activated = said + block_rows * d;
    T* raised = kept ? slot(up, layer, c.up_width()) + first * c.up_width() : activated + block_rows * c.d_ff;
    const T* before = stream_at(2 * layer) + first * d;
    T* between = stream_at(2 * layer + 1) + first * d;
    T* after = stream_at(2 * layer + 2) + first * d;
    const NormParameters<T> norm2 = norm(at_.norm2_weight, at_.norm2_bias, p);
    // In place where nothing is kept: the MLP beside attention looks at its input first.
    if (c.parallel_residual) norm_forward(norm2, n, d, before, normed);
    if (kept) std::copy_n(before, n * d, between);
    const T* attended_rows = heads + first * c.attention_width();
    if (c.post_norms) {
      to_out(n, attended_rows, said);
      norm_forward(norm(at_.post1_weight, at_.post1_bias, p), n, d, said, said);
      add_bias(1, n * d, said, between);
    } else {
      to_out(n, attended_rows, between, true);
    }
    if (!c.parallel_residual) norm_forward(norm2, n, d, between, normed);
    to_up(n, normed, raised);
    activation_forward(c.mlp, n, c.d_ff, raised, activated);
    if (kept) std::copy_n(between, n * d, after);
    if (c.post_norms) {
      to_down(n, activated, said);
      norm_forward(norm(at_.post2_weight, at_.post2_bias, p), n, d, said, said);
      add_bias(1, n * d, said, after);
    } else {
      to_down(n, activated, after, true);
    }
  });
}

template <class T>
void TransformerPass<T>::last_norm(std::int64_t first, std::int64_t n, T* normed) {
  norm_forward(norm(s.layout.norm_weight, s.layout.norm_bias, s.values.data()), n, c.d_model,
               stream_at(2 * c.n_layers) + first * c.d_model, normed);
}

template <class T>
void TransformerPass<T>::pack_head() {
  to_logits.emplace(c.vocab_size, c.d_model, s.values.data() + s.layout.head);
}

template <class T>
void TransformerPass<T>::head(std::int64_t first, std::int64_t n, T* normed, T* logits) {
  last_norm(first, n, normed);
  (*to_logits)(n, normed, logits);
}

template class TransformerPass<float>;
template class TransformerPass<double>;

}  // namespace poslab

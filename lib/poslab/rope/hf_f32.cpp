#include "poslab/rope/hf_f32.h"

namespace poslab {

std::vector<float> rope_inv_freq_hf_f32(const RopeScaling& s, FollowedLength seq_len) {
  // Computed first, so that what is refused there is refused here.
  const std::vector<double> reference = rope_frequencies(s, seq_len).inv_freq;
  if (s.rope_type->hf_f32) return s.rope_type->hf_f32(s, seq_len);
  std::vector<float> out;
  for (double w : reference) out.push_back(static_cast<float>(w));
  return out;
}

}  // namespace poslab

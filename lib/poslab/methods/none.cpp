#include "poslab/methods/none.h"

#include "poslab/methods/method.h"

namespace poslab {
namespace {

class None final : public Method {
 public:
  std::string_view word() const override { return "none"; }
  std::string_view sentence() const override {
    return "adds nothing anywhere: only a causal mask tells one place from another";
  }
  std::string_view source() const override { return "Haviv et al. 2022, arXiv:2203.16634 (NoPE)"; }
  std::string_view used_by() const override { return "some layers of Llama 4, SmolLM3, Command R7B"; }
  std::vector<Place> places() const override { return {}; }
  // Hugging Face's word; a Llama model without the key has RoPE.
  std::string_view config_word() const override { return "nope"; }
  bool fits_llama_config(const MethodParams&) const override { return true; }
  std::string shown_by() const override { return "poslab shuffle-test --encoding none"; }
};

}  // namespace

const Method& none_method() {
  static const None method;
  return method;
}

}  // namespace poslab

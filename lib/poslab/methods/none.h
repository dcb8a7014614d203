// No positional method: a causal mask alone tells tokens apart (Haviv et al. 2022, arXiv:2203.16634).
#pragma once

namespace poslab {

class Method;
const Method& none_method();

}  // namespace poslab

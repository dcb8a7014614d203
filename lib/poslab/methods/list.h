// The one list of positional methods. A new method is a file pair, its include, its Params (where it has parameters)
// and its line below; see ARCHITECTURE.md, "Add a method".
#pragma once

#include <vector>

#include "poslab/methods/alibi.h"
#include "poslab/methods/fire.h"
#include "poslab/methods/kerple.h"
#include "poslab/methods/learned.h"
#include "poslab/methods/method.h"
#include "poslab/methods/none.h"
#include "poslab/methods/rope.h"
#include "poslab/methods/sandwich.h"
#include "poslab/methods/sinusoidal.h"
#include "poslab/methods/t5.h"
#include "poslab/methods/xpos.h"

namespace poslab {

template <class... Params>
struct JoinedParams : Params... {
  static void fields(auto& self, auto&& field) { (Params::fields(self, field), ...); }
};

struct MethodParams
    : JoinedParams<SinusoidalParams, AlibiParams, T5Params, KerpleParams, FireParams, XposParams, SandwichParams> {};

inline std::vector<const Method& (*)()> listed_methods() {
  return {none_method, learned_method, sinusoidal_method, rope_method, alibi_method,
          t5_method,   kerple_method,  fire_method,       xpos_method, sandwich_method};
}

}  // namespace poslab

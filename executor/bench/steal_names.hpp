// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include <bwos/options.hpp>

namespace bwos::bench {

inline constexpr steal_kind last_of(steal_kind) {
  return steal_kind::topology;
}
inline constexpr steal_choice last_of(steal_choice) {
  return steal_choice::probabilistic;
}
inline constexpr steal_amount last_of(steal_amount) {
  return steal_amount::block;
}

/// The way of stealing that has that name; throws std::runtime_error, which lists them.
template <class Kind>
Kind way_named(const std::string& name) {
  std::string all;
  for (int i = 0; i <= static_cast<int>(last_of(Kind{})); ++i) {
    const std::string each = name_of(static_cast<Kind>(i));
    if (name == each) return static_cast<Kind>(i);
    all += (i == 0 ? "" : ", ") + each;
  }
  throw std::runtime_error('"' + name + "\" must be one of " + all);
}

}  // namespace bwos::bench

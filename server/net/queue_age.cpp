// SPDX-License-Identifier: Apache-2.0
#include "net/queue_age.hpp"

#include <algorithm>

namespace bwos::server {

using namespace std::chrono_literals;

/// An age falls at the next measurement: the bound's quarter, but no more than a tenth of a second
/// for which requests would be turned away in vain.
std::chrono::milliseconds queue_age_bound::interval(std::chrono::microseconds bound) noexcept {
  if (bound == 0us) return 0ms;
  return std::clamp(std::chrono::floor<std::chrono::milliseconds>(bound / 4), 1ms, 100ms);
}

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "side.hpp"

namespace bwos::bench {

/// Short events beside long handlers on one pool. A flavour is what the handlers do, a case whence
/// the events come, and through which reactor.
std::vector<flavour> beside_flavours(unsigned workers);

}  // namespace bwos::bench

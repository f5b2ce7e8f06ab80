// SPDX-License-Identifier: Apache-2.0
// std::mutex under a name of ours: see atomic.hpp.
#pragma once

#include <mutex>

namespace bwos {

using mutex = std::mutex;

}  // namespace bwos

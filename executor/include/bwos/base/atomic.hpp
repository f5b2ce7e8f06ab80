// SPDX-License-Identifier: Apache-2.0
// std::atomic under a name of ours. The seeded schedule test (tests/simulation) has a
// header of this name in front of this one: there each access is a point at which another thread
// may go on.
#pragma once

#include <atomic>

namespace bwos {

template <class T>
using atomic = std::atomic<T>;

}  // namespace bwos

// SPDX-License-Identifier: Apache-2.0
// A child of fork() has one thread, whatever the parent had: a pool made before it has no workers
// there, and the locks of those may be held for ever. Pools tell that they are in one by a number.
#pragma once

namespace bwos {

/// How many forks lie behind this process. Plain: it changes only while a process has one thread.
/// Counted from the first pool on (pool/fork.hpp).
inline constinit unsigned fork_generation = 0;

}  // namespace bwos

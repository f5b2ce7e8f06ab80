// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace bwos {

/// Pins `thread` to the `index`-th CPU of the calling thread's affinity mask, modulo their number.
/// Throws std::system_error where the kernel refuses (a seccomp filter, a cpuset that shrank).
void pin_thread(pthread_t thread, unsigned index);

}  // namespace bwos

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace bwos {

/// Pins `thread` to the `index`-th CPU of the calling thread's affinity mask, modulo their number.
void pin_thread(pthread_t thread, unsigned index) noexcept;

}  // namespace bwos

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/statistics.hpp>
#include <cstdint>

#include "base/relaxed_value.hpp"

namespace bwos {

/// The counters of one worker: written by it alone.
struct worker_counters {
#define BWOS_FIELD(name, meaning) relaxed_value<std::uint64_t> name;
  BWOS_WORKER_COUNTERS(BWOS_FIELD)
#undef BWOS_FIELD

  [[nodiscard]] worker_statistics snapshot() const noexcept {
    worker_statistics result;
#define BWOS_FIELD(name, meaning) result.name = name.get();
    BWOS_WORKER_COUNTERS(BWOS_FIELD)
#undef BWOS_FIELD
    return result;
  }
};

}  // namespace bwos

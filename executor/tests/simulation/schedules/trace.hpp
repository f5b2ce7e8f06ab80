// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <source_location>
#include <string>
#include <vector>

#include "clock.hpp"

namespace bwos::simulation {

struct thread;

/// The last steps of a run.
class trace {
 public:
  struct entry {
    nanoseconds when;
    const thread* who;  // null: the kernel
    const char* what;
    std::source_location at;
    std::uint64_t value = 0;
    bool has_value = false;
  };

  /// 0: none is kept. For all machines that are made afterwards.
  static void keep(std::size_t steps) noexcept { kept_ = steps; }
  [[nodiscard]] bool wanted() const noexcept { return kept_ != 0; }
  void add(const entry& step);
  /// What the latest step has read or written.
  void note_value(std::uint64_t value) noexcept;
  void print(std::ostream& to) const;

 private:
  static inline std::size_t kept_ = 0;

  std::vector<entry> entries_;
  std::size_t next_ = 0;
};

/// "queue/fifo_block.hpp:120 steal": the file from executor/src on, the line, the bare name.
std::string place_of(const std::source_location& at);

}  // namespace bwos::simulation

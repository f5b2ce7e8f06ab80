// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace bwos::test {

/// Which of a system call's uses: those where `argument`, counted from 0, has of the bits in `mask`
/// exactly `value`. By default all.
struct call_uses {
  unsigned argument = 0;
  std::uint32_t mask = 0;
  std::uint32_t value = 0;
};

/// From now on the system call of this number fails with `error` in the calling thread and the ones
/// that it starts. Cannot be taken back: for a child process, or a thread that ends. False: the
/// kernel has no filters.
inline bool forbid_call(unsigned number, int error = EPERM, call_uses which = {}) {
  const auto argument = static_cast<std::uint32_t>(  // its lower half
      offsetof(seccomp_data, args) + which.argument * sizeof(std::uint64_t));
  std::array<sock_filter, 7> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, which.mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, which.value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace bwos::test

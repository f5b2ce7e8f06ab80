// SPDX-License-Identifier: Apache-2.0
#include <bwos/base/asymmetric_fence.hpp>

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace bwos {
namespace {

bool call(int command) noexcept {
  return ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

/// A child of fork() has an address space of its own, which is not registered.
bool enlist() noexcept {
  if (!call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) return false;
  return ::pthread_atfork(nullptr, nullptr, [] {
           if (!call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) std::abort();
         }) == 0;
}

}  // namespace

bool asymmetric_fence::available() noexcept {
  static const bool enlisted = enlist();
  return enlisted;
}

void asymmetric_fence::heavy() noexcept {
  // Enlisted, it fails only where the kernel has no memory for a set of processors.
  while (!call(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
    if (errno != ENOMEM) std::abort();  // without it an entry could be taken twice
  }
}

}  // namespace bwos

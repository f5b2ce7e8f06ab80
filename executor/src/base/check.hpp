// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

namespace bwos::detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void check_failed(const char* expression,
                                                                const char* file,
                                                                int line) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

[[noreturn, gnu::cold, gnu::noinline]] inline void misused(const char* how) noexcept {
  std::fprintf(stderr, "bwos: %s\n", how);
  std::abort();
}

/// For mistakes of the library's users that would end in a hang or worse: says in a sentence what
/// was done, and ends the process.
inline void refuse(bool mistake, const char* how) noexcept {
  if (mistake) [[unlikely]]
    misused(how);
}

}  // namespace bwos::detail

/// For our own bugs: tested in every build, prints where, and ends the process.
#define BWOS_CHECK(condition) \
  ((condition) ? void(0) : ::bwos::detail::check_failed(#condition, __FILE__, __LINE__))

/// The same where a release build cannot pay for it: tested in builds without NDEBUG only.
#ifdef NDEBUG
#define BWOS_CHECK_hot(condition) static_cast<void>(sizeof(condition))
#else
#define BWOS_CHECK_hot(condition) BWOS_CHECK(condition)
#endif

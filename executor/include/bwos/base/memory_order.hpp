// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

// Memory orders by their short names, and a way to weaken one access in a verification build.
//
// Every atomic access of the library stands below a comment of the form
//     // [area.name] order: reason. Partner: [area.other].
// which deploy/check_atomics.py demands. An access whose order is to be proved necessary names its
// tag in code as well:
//     position.store(next, order_of("queue.publish", release));
// Built with -DBWOS_WEAKEN=queue.publish, that one access becomes relaxed, and a test or a model
// checker has to object.

namespace bwos {

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

namespace detail {

#ifdef BWOS_WEAKEN
#define BWOS_STRING_OF(text) #text
#define BWOS_STRING(macro) BWOS_STRING_OF(macro)
inline constexpr const char* weakened_tag = BWOS_STRING(BWOS_WEAKEN);
#undef BWOS_STRING
#undef BWOS_STRING_OF
#else
inline constexpr const char* weakened_tag = "";
#endif

consteval bool same_text(const char* left, const char* right) {
  while (*left != '\0' && *left == *right) {
    ++left;
    ++right;
  }
  return *left == *right;
}

}  // namespace detail

/// The order of the access called `tag`: `normal`, or relaxed where the build weakens this tag.
consteval std::memory_order order_of(const char* tag, std::memory_order normal) {
  return detail::same_text(tag, detail::weakened_tag) ? std::memory_order_relaxed : normal;
}

}  // namespace bwos

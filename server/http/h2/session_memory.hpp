// SPDX-License-Identifier: Apache-2.0
// Memory of one session of nghttp2's, by its hooks. Small blocks are in the lists of the thread
// that runs the session. The large ones, which it makes once and keeps, lie in a region of pages of
// its own, so that a connection that is idle takes two of them:
//
//   page 0         the table of HPACK's entries for what is sent, which is filled from its end: few
//                  differ in ordinary answers, and their places are in page 1
//   page 1         that end, the session, the table for what is received, and the beginning of the
//                  buffer of 16 KiB for the frame that is written: as much as small frames use
//   pages 2 to 5   the rest of that buffer
//   page 6         the table of its streams, first used with the first; all zeroes without any, and
//                  replaced by a larger one elsewhere where there are more than 192
//
// From the C library's arena each would keep a part of its neighbours' pages, and what is freed
// between others that stay would remain resident. A region's pages go back to the system when its
// connection has ended.
#pragma once

#include <cstddef>

namespace bwos::server::h2 {

/// One thread at a time.
class session_memory {
 public:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t region_bytes = 7 * page;
  /// Of the table for what is sent, in page 1: eight entries. An answer of gRPC's needs two, and as
  /// many more as it has fields that differ.
  static constexpr std::size_t table_end = 64;
  /// Regions of connections that have ended, whose pages are kept for the next: connections that
  /// come and go do not go to the system each time. Guessed; they take 512 KiB, where no large
  /// frame was written.
  static constexpr std::size_t kept_max = 64;

  /// Where the system has no region for it, its blocks are the C library's.
  session_memory() noexcept;
  session_memory(const session_memory&) = delete;
  session_memory& operator=(const session_memory&) = delete;
  /// Of its large blocks none is used any more.
  ~session_memory();

  // As those of the C library.
  [[nodiscard]] void* allocate(std::size_t size) noexcept;
  [[nodiscard]] void* allocate_zeroed(std::size_t count, std::size_t each) noexcept;
  [[nodiscard]] void* reallocate(void* memory, std::size_t size) noexcept;
  void deallocate(void* memory) noexcept;

  /// Of an idle session: the page of the table of streams goes back to the system, where the table
  /// holds nothing but zeroes, which the system gives again, or is used no more. It takes
  /// microseconds, and the next use of the page about two more.
  void give_back() noexcept;

  /// Of the table of streams, where it has outgrown its page: it never shrinks.
  [[nodiscard]] std::size_t grown_bytes() const noexcept { return grown_bytes_; }

  /// Null: it has none.
  [[nodiscard]] const void* region() const noexcept { return region_; }

 private:
  [[nodiscard]] void* place(std::size_t size) noexcept;
  [[nodiscard]] bool has(const void* memory) const noexcept;

  std::byte* region_ = nullptr;
  bool is_fresh_ = false;      // the system has zeroed it
  bool has_table_ = false;     // that begins in page 0
  bool has_last_ = false;      // what page 6 is for
  bool is_last_free_ = false;  // the table there was outgrown
  std::size_t grown_bytes_ = 0;
  std::size_t next_ = 0;  // where the next of the others is placed; 0: the session
};

}  // namespace bwos::server::h2

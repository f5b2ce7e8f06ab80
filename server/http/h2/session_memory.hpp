// SPDX-License-Identifier: Apache-2.0
// Memory of one session of nghttp2's, by its hooks. Small blocks are in the lists of the thread
// that runs the session. The large ones, which it makes once and keeps, lie in a region of pages of
// its own, so that a connection that is idle takes few of them:
//
//   page 0                the session, and the beginning of the buffer of 16 KiB for the frame that
//                         is written, which is all that is ever used of it for small frames
//   pages 1 to 4          the rest of that buffer
//   pages 5 and 6         tables that are first used with the first stream
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
  /// Regions of connections that have ended, whose pages are kept for the next: connections that
  /// come and go do not go to the system each time. Guessed; they take 768 KiB at most, where no
  /// large frame was written.
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

  /// Null: it has none.
  [[nodiscard]] const void* region() const noexcept { return region_; }

 private:
  [[nodiscard]] void* place(std::size_t size) noexcept;
  [[nodiscard]] bool has(const void* memory) const noexcept;

  std::byte* region_ = nullptr;
  bool is_fresh_ = false;        // the system has zeroed it
  std::size_t front_ = 0;        // what is placed next at its beginning, and ...
  std::size_t back_ = 5 * page;  // ... at its end
};

}  // namespace bwos::server::h2

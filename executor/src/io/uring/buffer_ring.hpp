// SPDX-License-Identifier: Apache-2.0
// The buffers of one ring: the kernel fills them, a connection reads them wherever it runs, and
// they come back.
//
// ROLES. The owner: the ring's thread. Others: workers that have stolen a continuation.
//
// INVARIANTS
// B1  A buffer is in one place: the kernel's ring, one connection's list or hands, or the stack of
//     returned ones. Only its holder touches its chunk.
// B2  Others push to the stack one at a time, the owner takes it whole: no chunk is pushed while a
//     pop looks at it, so that its address cannot come back under a running CAS.
// Test: contract_reactor.hpp
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <bwos/base/atomic.hpp>

namespace bwos {

/// One element of what a connection has received: a filled buffer, or what came behind the last.
struct chunk {
  enum class kind : std::uint8_t {
    data,
    paused,  ///< The kernel has stopped receiving, and nothing was lost.
    end,     ///< The peer's end, or an error.
  };
  chunk* next = nullptr;
  std::uint32_t length = 0;
  std::uint16_t id = 0;
  kind what = kind::data;
  int error = 0;
};

class buffer_ring {
 public:
  static constexpr int group = 0;  // the ring's only one

  /// `count`: a power of two up to 32768. Throws std::system_error, std::bad_alloc.
  buffer_ring(unsigned count, std::size_t bytes_each);
  buffer_ring(const buffer_ring&) = delete;
  buffer_ring& operator=(const buffer_ring&) = delete;

  /// Once, before the ring is used. Throws std::system_error.
  void offer_to(io_uring& ring);

  // The owner.

  /// The kernel has filled buffer `id`.
  [[nodiscard]] chunk& filled(std::uint16_t id, std::uint32_t length) noexcept {
    chunks_[id].length = length;
    return chunks_[id];
  }
  /// For the kernel again, from the next publish() on.
  void add(chunk& empty) noexcept;
  /// Once a turn: also takes back what others have returned.
  void publish() noexcept;

  // Any thread.

  void give_back(chunk& empty) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes(const chunk& of) const noexcept {
    return {memory_.get() + of.id * bytes_each_, of.length};
  }

 private:
  struct unmap {
    std::size_t size;
    void operator()(io_uring_buf_ring* mapped) const noexcept;
  };
  static std::unique_ptr<io_uring_buf_ring, unmap> map(unsigned count);

  const std::size_t bytes_each_;
  const std::unique_ptr<std::byte[]> memory_;  // untouched pages cost nothing
  std::vector<chunk> chunks_;
  const std::unique_ptr<io_uring_buf_ring, unmap> shared_;  // with the kernel
  int added_ = 0;                                           // since the last publish()
  atomic<chunk*> returned_{nullptr};
};

}  // namespace bwos

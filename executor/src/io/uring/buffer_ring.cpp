// SPDX-License-Identifier: Apache-2.0
#include "io/uring/buffer_ring.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace bwos {

void buffer_ring::unmap::operator()(io_uring_buf_ring* mapped) const noexcept {
  ::munmap(mapped, size);
}

std::unique_ptr<io_uring_buf_ring, buffer_ring::unmap> buffer_ring::map(unsigned count) {
  const std::size_t size = count * sizeof(io_uring_buf);
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::system_category(), "mmap");
  return {static_cast<io_uring_buf_ring*>(mapped), unmap{size}};
}

buffer_ring::buffer_ring(unsigned count, std::size_t bytes_each)
    : bytes_each_(bytes_each),
      memory_(std::make_unique_for_overwrite<std::byte[]>(count * bytes_each)),
      chunks_(count),
      shared_(map(count)) {
  ::io_uring_buf_ring_init(shared_.get());
  for (unsigned id = 0; id < count; ++id) {
    chunks_[id].id = static_cast<std::uint16_t>(id);
    add(chunks_[id]);
  }
}

void buffer_ring::offer_to(io_uring& ring) {
  io_uring_buf_reg where{};
  where.ring_addr = reinterpret_cast<std::uintptr_t>(shared_.get());
  where.ring_entries = static_cast<unsigned>(chunks_.size());
  where.bgid = group;
  const int result = ::io_uring_register_buf_ring(&ring, &where, 0);
  if (result != 0) {
    throw std::system_error(-result, std::system_category(), "io_uring_register_buf_ring");
  }
  publish();
}

void buffer_ring::add(chunk& empty) noexcept {
  ::io_uring_buf_ring_add(shared_.get(), memory_.get() + empty.id * bytes_each_,
                          static_cast<unsigned>(bytes_each_), empty.id,
                          ::io_uring_buf_ring_mask(static_cast<unsigned>(chunks_.size())), added_);
  ++added_;
}

void buffer_ring::publish() noexcept {
  // [buffers.take.look] relaxed: only spares the exchange; what it misses is taken in the next
  // turn. Partner: none, the exchange decides.
  if (returned_.load(std::memory_order_relaxed) != nullptr) {
    // [buffers.take] acquire: the reader is done with each, and its link is seen. Partner:
    // [buffers.give_back].
    chunk* each = returned_.exchange(nullptr, std::memory_order_acquire);
    while (each != nullptr) {
      chunk* const next = each->next;
      add(*each);
      each = next;
    }
  }
  if (added_ == 0) return;
  ::io_uring_buf_ring_advance(shared_.get(), added_);
  added_ = 0;
}

void buffer_ring::give_back(chunk& empty) noexcept {
  // [buffers.give_back.look] relaxed: the CAS decides. Partner: [buffers.give_back].
  chunk* top = returned_.load(std::memory_order_relaxed);
  do {
    empty.next = top;
    // [buffers.give_back] release: what was read from it was read before the kernel writes it anew.
    // Partner: [buffers.take].
  } while (!returned_.compare_exchange_weak(top, &empty, std::memory_order_release,
                                            std::memory_order_relaxed));
}

}  // namespace bwos

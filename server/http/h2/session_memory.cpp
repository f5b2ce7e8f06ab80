// SPDX-License-Identifier: Apache-2.0
#include "http/h2/session_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/thread_memory.hpp"

namespace bwos::server::h2 {
namespace {

/// The table of streams is larger than this, and no larger than a page; those of HPACK are smaller.
constexpr std::size_t table_bytes_max = 2 * 1024;

/// All regions of the process that nobody has. Locked where a connection begins or ends.
class region_store {
 public:
  struct taken {
    std::byte* region = nullptr;
    bool is_fresh = false;
  };

  taken take() noexcept {
    const std::lock_guard lock(mutex_);
    if (!used_.empty()) return {take_last(used_), false};
    if (fresh_.empty() && !map_more()) return {};
    return {take_last(fresh_), true};
  }

  void give_back(std::byte* region) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (used_.size() < session_memory::kept_max) return used_.push_back(region);
    }
    const bool is_fresh = ::madvise(region, session_memory::region_bytes, MADV_DONTNEED) == 0;
    const std::lock_guard lock(mutex_);
    (is_fresh ? fresh_ : used_).push_back(region);
  }

 private:
  /// So many at once. They stay: what they take without pages is a place in the address space.
  static constexpr std::size_t regions = 64;

  static std::byte* take_last(std::vector<std::byte*>& from) noexcept {
    std::byte* const last = from.back();
    from.pop_back();
    return last;
  }

  bool map_more() noexcept {
    if (!thread_memory::is_on || ::sysconf(_SC_PAGESIZE) != session_memory::page) return false;
    try {  // either may come to hold them all
      used_.reserve(count_ + regions);
      fresh_.reserve(count_ + regions);
    } catch (const std::bad_alloc&) {
      return false;
    }
    constexpr std::size_t bytes = regions * session_memory::region_bytes;
    void* const mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return false;
    ::madvise(mapped, bytes, MADV_NOHUGEPAGE);  // a huge page would be resident as a whole
    for (std::size_t i = regions; i > 0; --i) {
      fresh_.push_back(static_cast<std::byte*>(mapped) + (i - 1) * session_memory::region_bytes);
    }
    count_ += regions;
    return true;
  }

  std::mutex mutex_;
  std::vector<std::byte*> used_;   // their pages hold what they held
  std::vector<std::byte*> fresh_;  // they have none
  std::size_t count_ = 0;
};

region_store& store() {
  static region_store all;
  return all;
}

}  // namespace

session_memory::session_memory() noexcept {
  const region_store::taken mine = store().take();
  region_ = mine.region;
  is_fresh_ = mine.is_fresh;
}

session_memory::~session_memory() {
  if (region_ != nullptr) store().give_back(region_);
}

bool session_memory::has(const void* memory) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const auto begin = reinterpret_cast<std::uintptr_t>(region_);
  return region_ != nullptr && at - begin < region_bytes;
}

/// Null: it goes elsewhere. What lies there once is not used again when it is freed, as nghttp2
/// replaces such a block by a larger one, if at all.
void* session_memory::place(std::size_t size) noexcept {
  if (size <= thread_memory::block_bytes_max || size > region_bytes || region_ == nullptr) {
    return nullptr;
  }
  constexpr std::size_t first = page + table_end;
  constexpr std::size_t last = region_bytes - page;
  constexpr std::size_t alignment = alignof(std::max_align_t);
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (next_ == 0) {
    next_ = first;
  } else if (size <= table_bytes_max && !has_table_) {
    has_table_ = true;
    return region_ + first - rounded;
  } else if (size > table_bytes_max && size <= page && !has_last_) {
    has_last_ = true;
    return region_ + last;
  }
  if (rounded > last - next_) return nullptr;
  return region_ + std::exchange(next_, next_ + rounded);
}

void* session_memory::allocate(std::size_t size) noexcept {
  void* const placed = place(size);
  return placed != nullptr ? placed : thread_memory::allocate(size);
}

void* session_memory::allocate_zeroed(std::size_t count, std::size_t each) noexcept {
  if (each != 0 && count > std::numeric_limits<std::size_t>::max() / each) return nullptr;
  const std::size_t size = count * each;
  if (size > page) grown_bytes_ = std::max(grown_bytes_, size);
  if (void* const placed = place(size)) {
    return is_fresh_ ? placed : std::memset(placed, 0, size);
  }
  if (size > thread_memory::block_bytes_max) return std::calloc(count, each);
  void* const made = thread_memory::allocate(size);
  return made != nullptr ? std::memset(made, 0, size) : nullptr;
}

void* session_memory::reallocate(void* memory, std::size_t size) noexcept {
  if (memory == nullptr) return allocate(size);
  if (!has(memory)) return std::realloc(memory, size);
  void* const made = thread_memory::allocate(size);
  if (made == nullptr) return nullptr;
  const auto* const from = static_cast<const std::byte*>(memory);
  const auto left = static_cast<std::size_t>(region_ + region_bytes - from);
  return std::memcpy(made, from, std::min(size, left));  // its own size is not known
}

void session_memory::deallocate(void* memory) noexcept {
  if (has_last_ && memory == region_ + (region_bytes - page)) {
    is_last_free_ = true;  // a larger table has replaced it
  } else if (!has(memory)) {
    thread_memory::deallocate(memory);
  }
}

void session_memory::give_back() noexcept {
  if (!has_last_) return;
  std::byte* const last = region_ + region_bytes - page;
  const bool is_zeroed = is_last_free_ || std::all_of(last, last + page, [](std::byte each) {
                           return each == std::byte{0};
                         });
  if (is_zeroed) ::madvise(last, page, MADV_DONTNEED);
}

}  // namespace bwos::server::h2

// SPDX-License-Identifier: Apache-2.0
#include "net/memory_budget.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace bwos::server {
namespace {

/// Whoever waits for it goes on, and closing it sends a reset: nothing lingers in the kernel.
void reset(int descriptor) noexcept {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::shutdown(descriptor, SHUT_RDWR);
}

}  // namespace

memory_budget::memory_budget(std::size_t bytes_max) noexcept
    : bytes_max_(bytes_max), tight_(bytes_max / 4 * 3) {}

memory_budget::~memory_budget() = default;

/// The calling thread's; null: there is no memory for one. A thread's first counts unsummed_max
/// (M1), whatever the limit.
memory_budget::slot* memory_budget::here() noexcept {
  try {
    return &slots_.here([this] {
      auto made = std::make_unique<slot>();
      // [memory.first] relaxed: one number, whose order of changes decides. Partner: [memory.sum].
      sum_.fetch_add(static_cast<std::int64_t>(unsummed_max), std::memory_order_relaxed);
      return made;
    });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool memory_budget::add(slot* mine, std::int64_t bytes, bool is_bounded) noexcept {
  constexpr auto most = static_cast<std::int64_t>(unsummed_max);
  const std::int64_t unsummed = mine == nullptr ? bytes : mine->unsummed + bytes;
  if (mine != nullptr && unsummed < most && unsummed > -most) {
    if (is_bounded && sum() > bytes_max_) {  // M2
      make_room();
      return false;
    }
    mine->unsummed = unsummed;
    return true;
  }
  // [memory.add] relaxed: the order of changes of this one number decides; what the bytes are used
  // for is published by others. Partner: [memory.sum], and itself.
  const std::int64_t now = sum_.fetch_add(unsummed, std::memory_order_relaxed) + unsummed;
  if (is_bounded && now > static_cast<std::int64_t>(bytes_max_)) {
    // [memory.undo] relaxed: one number, whose order of changes decides. Partner: [memory.sum].
    sum_.fetch_sub(unsummed, std::memory_order_relaxed);
    make_room();
    return false;
  }
  if (mine != nullptr) mine->unsummed = 0;
  if (bytes > 0 && now > 0 && is_tight(static_cast<std::size_t>(now))) make_room();
  return true;
}

void memory_budget::count(slot* mine, memory what, std::int64_t bytes) noexcept {
  const auto kind = static_cast<std::size_t>(what);
  if (mine == nullptr) {
    // [memory.others] relaxed: a number to show; nothing is read on its strength. Partner:
    // [memory.show].
    others_.bytes[kind].fetch_add(bytes, std::memory_order_relaxed);
    return;
  }
  std::atomic<std::int64_t>& counter = mine->bytes[kind];
  // [memory.count] relaxed: only this thread writes it, so that a load and a store lose nothing, at
  // the price of plain ones. Partner: [memory.counted].
  const std::int64_t before = counter.load(std::memory_order_relaxed);
  // [memory.counted] relaxed: only this thread writes it; nothing is read on its strength. Partner:
  // [memory.show].
  counter.store(before + bytes, std::memory_order_relaxed);
}

bool memory_budget::take(memory what, std::size_t bytes) noexcept {
  slot* const mine = here();
  if (bytes > bytes_max_ || !add(mine, static_cast<std::int64_t>(bytes), true)) {
    // [memory.refused] relaxed: a number to show. Partner: [memory.show].
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  count(mine, what, static_cast<std::int64_t>(bytes));
  return true;
}

void memory_budget::take_anyway(memory what, std::size_t bytes) noexcept {
  slot* const mine = here();
  static_cast<void>(add(mine, static_cast<std::int64_t>(bytes), false));
  count(mine, what, static_cast<std::int64_t>(bytes));
}

void memory_budget::give_back(memory what, std::size_t bytes) noexcept {
  slot* const mine = here();
  static_cast<void>(add(mine, -static_cast<std::int64_t>(bytes), false));
  count(mine, what, -static_cast<std::int64_t>(bytes));
}

void memory_budget::keep_buffer(thread_buffer which, std::size_t bytes) noexcept {
  slot* const mine = here();
  if (mine == nullptr) return;
  std::size_t& before = mine->buffers[static_cast<std::size_t>(which)];
  if (before == bytes) return;
  give_back(memory::buffers, std::exchange(before, bytes));
  take_anyway(memory::buffers, bytes);
}

void memory_budget::put_spare(byte_buffer used) noexcept {
  const std::size_t capacity = used.capacity();
  const std::size_t room = is_tight() ? 0 : spare_bytes_max;
  const std::lock_guard lock(spare_lock_);
  const std::size_t before = spare_.bytes();
  while (!spare_.empty() && !spare_.has_room(capacity, room)) {
    static_cast<void>(spare_.take_oldest());
  }
  if (spare_.has_room(capacity, room)) spare_.put(std::move(used));
  const std::size_t now = spare_.bytes();
  if (now > before) {
    take_anyway(memory::buffers, now - before);
  } else {
    give_back(memory::buffers, before - now);
  }
}

byte_buffer memory_budget::take_spare(std::size_t capacity) noexcept {
  byte_buffer taken;
  {
    const std::lock_guard lock(spare_lock_);
    taken = spare_.take(capacity);
  }
  if (taken.capacity() > 0) give_back(memory::buffers, taken.capacity());
  return taken;
}

memory_budget::totals memory_budget::total() const noexcept {
  // Numbers of about the same moment.
  const auto read = [](const auto& counter) noexcept {
    // [memory.show] relaxed: a number to show; nothing is read on its strength. Partners:
    // [memory.counted], [memory.others], [memory.refused], [memory.resets].
    return counter.load(std::memory_order_relaxed);
  };
  totals all{.bytes_max = bytes_max_, .refused = read(refused_), .resets = read(resets_)};
  const auto add = [&](const slot& each) noexcept {
    for (std::size_t i = 0; i < all.bytes.size(); ++i) all.bytes[i] += read(each.bytes[i]);
  };
  add(others_);
  slots_.for_each(add);
  return all;
}

/// If it is time again: connections are reset until no more than three quarters are taken.
void memory_budget::make_room() noexcept {
  const std::size_t taken = sum();
  if (!is_tight(taken)) return;
  const clock::rep now = clock::now().time_since_epoch().count();
  constexpr clock::rep interval = std::chrono::nanoseconds(room_interval).count();
  // [memory.room.look] relaxed: the CAS decides. Partner: [memory.room].
  clock::rep at = room_at_.load(std::memory_order_relaxed);
  if (now < at) return;
  // [memory.room] relaxed: whoever exchanges it makes room, and shares nothing else with others.
  // Partner: [memory.room.look].
  if (!room_at_.compare_exchange_strong(at, now + interval, std::memory_order_relaxed)) return;
  try {
    make_room(taken - tight_);
  } catch (const std::bad_alloc&) {  // for the scan: the next one may have more
  }
}

/// Resets the connections that are charged most, the largest first, until `bytes` are on their way
/// back: of those that are charged no less than the median, so that half of the peers are never
/// reset for what others do. In two passes, as connections end meanwhile.
void memory_budget::make_room(std::size_t bytes) {
  std::vector<std::size_t> sizes;
  for (shard& each : shards_) {
    const std::lock_guard lock(each.mutex);
    for (const memory_account* one = each.first; one != nullptr; one = one->older_) {
      if (one->is_reset_) {  // its memory is on its way back
        bytes -= std::min(bytes, one->bytes());
      } else if (one->descriptor_ >= 0) {
        sizes.push_back(one->bytes());
      }
    }
  }
  if (sizes.empty() || bytes == 0) return;
  std::ranges::sort(sizes, std::greater<>());
  const std::size_t median = sizes[sizes.size() / 2];
  std::size_t least = 0;  // of those that are reset
  std::size_t found = 0;
  for (const std::size_t each : sizes) {
    if (each < median || found >= bytes) break;
    found += each;
    least = each;
  }
  std::size_t freed = 0;
  std::uint64_t ended = 0;
  for (shard& each : shards_) {
    const std::lock_guard lock(each.mutex);
    for (memory_account* one = each.first; one != nullptr && freed < bytes; one = one->older_) {
      if (one->is_reset_ || one->descriptor_ < 0 || one->bytes() < least) continue;
      reset(one->descriptor_);
      one->is_reset_ = true;
      freed += one->bytes();
      ++ended;
    }
  }
  // [memory.resets] relaxed: a number to show. Partner: [memory.show].
  resets_.fetch_add(ended, std::memory_order_relaxed);
}

memory_account::memory_account(memory_budget& of, int descriptor, std::size_t idle_bytes) noexcept
    : budget_(of), descriptor_(descriptor) {
  set_anyway(memory::connections, idle_bytes + memory_budget::granule);
  memory_budget::shard& mine = budget_.shard_of(descriptor_);
  const std::lock_guard lock(mine.mutex);
  older_ = mine.first;
  if (older_ != nullptr) older_->newer_ = this;
  mine.first = this;
}

memory_account::~memory_account() {
  {
    memory_budget::shard& mine = budget_.shard_of(descriptor_);
    const std::lock_guard lock(mine.mutex);
    if (older_ != nullptr) older_->newer_ = newer_;
    (newer_ != nullptr ? newer_->older_ : mine.first) = older_;
  }
  std::size_t left = bytes();
  for (std::size_t i = 0; i < granules_.size(); ++i) {
    left -= granules_[i] * memory_budget::granule;
    set_anyway(static_cast<memory>(i), 0);
  }
  if (left > 0) give_back_messages(left);
}

bool memory_account::set(memory what, std::uint32_t& before, std::uint32_t now,
                         bool is_bounded) noexcept {
  if (now < before) {
    const std::size_t less = std::size_t{before - now} * memory_budget::granule;
    budget_.give_back(what, less);
    add(-static_cast<std::int64_t>(less));
  } else {
    const std::size_t more = std::size_t{now - before} * memory_budget::granule;
    if (!is_bounded) {
      budget_.take_anyway(what, more);
    } else if (!budget_.take(what, more)) {
      return false;
    }
    add(static_cast<std::int64_t>(more));
  }
  before = now;
  return true;
}

void memory_account::add(std::int64_t bytes) noexcept {
  // [account.add] relaxed: a number that is compared; nothing is read on its strength. Partner:
  // [account.bytes].
  bytes_.fetch_add(static_cast<std::size_t>(bytes), std::memory_order_relaxed);
}

bool memory_account::take_messages(std::size_t bytes) noexcept {
  if (!budget_.take(memory::messages, bytes)) return false;
  add(static_cast<std::int64_t>(bytes));
  return true;
}

void memory_account::give_back_messages(std::size_t bytes) noexcept {
  budget_.give_back(memory::messages, bytes);
  add(-static_cast<std::int64_t>(bytes));
}

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
// The memory that all peers together can make a server keep (--memory-max): bodies that are not
// whole, messages, header lists, answers that are not sent, and the connections themselves.
//
// Each connection has an account, which is charged in granules, so that an ordinary request, which
// keeps nothing, or little, charges nothing. A charge goes to a counter of the calling thread; that
// counter is added to the sum of all once it has changed by unsummed_max. So what happens often has
// no read-modify-write on memory that threads share.
//
// INVARIANTS
// M1  sum_ is at least what has been taken and not given back: each thread's counter is added at
//     unsummed_max at the latest, and sum_ has had as much for each thread from its first charge.
// M2  take() succeeds only where sum_ is at bytes_max_ or below, and leaves it there, so that what
//     is taken never exceeds it. Only take_anyway() may: it is for memory that is there already,
//     and bounded elsewhere. It adds to sum_ what its thread has taken before, too: so take() looks
//     at sum_ also where it leaves it alone.
// M3  A socket is reset only while its account is registered, under the lock of its shard; an
//     account ends before its socket is closed. So no descriptor is reset that was used again.
// Test: memory_budget_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

#include "base/thread_slots.hpp"
#include "net/buffer_list.hpp"
#include "net/byte_buffer.hpp"

namespace bwos::server {

/// What memory is kept for. `connections`: what each costs while it is idle. `bodies`: of requests,
/// and messages, that are not whole or have not been read. `messages`: as large as they are
/// expanded. `output`: what the peer has not taken. `buffers`: kept by threads for what comes next.
enum class memory : std::uint8_t { connections, headers, bodies, messages, output, buffers };
inline constexpr std::array<const char*, 6> memory_names{"connections", "headers", "bodies",
                                                         "messages",    "output",  "buffers"};

/// What a thread keeps for what comes next, each charged by itself as memory::buffers.
enum class thread_buffer : std::uint8_t { http1_output, http2_output, bodies, objects };
inline constexpr std::size_t thread_buffers = 4;

class memory_account;

/// All members: any thread. Outlives the accounts, and the threads that charge.
class memory_budget {
 public:
  using clock = std::chrono::steady_clock;

  /// An account is charged when it has changed by so much.
  static constexpr std::size_t granule = 4 * 1024;
  /// The counter of a thread is added to the sum of all when it has changed by so much. A guess:
  /// a read-modify-write for so many bytes costs nothing beside copying them, and as much for each
  /// thread is little beside the limit.
  static constexpr std::size_t unsummed_max = 128 * 1024;
  /// How often connections are reset to make room, at most.
  static constexpr std::chrono::milliseconds room_interval{100};
  static constexpr std::size_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;
  /// Larger bodies are refused while memory is tight.
  static constexpr std::size_t body_bytes_tight = 64 * 1024;

  explicit memory_budget(std::size_t bytes_max = unlimited) noexcept;
  memory_budget(const memory_budget&) = delete;
  memory_budget& operator=(const memory_budget&) = delete;
  ~memory_budget();

  /// False: it would be more than there is, and nothing was taken.
  [[nodiscard]] bool take(memory what, std::size_t bytes) noexcept;
  /// For what is there already.
  void take_anyway(memory what, std::size_t bytes) noexcept;
  void give_back(memory what, std::size_t bytes) noexcept;

  /// What the calling thread keeps of that kind has so much memory now.
  void keep_buffer(thread_buffer which, std::size_t bytes) noexcept;

  /// A buffer for another thread, which is charged as `buffers` meanwhile. While memory is tight
  /// all such are freed.
  void put_spare(byte_buffer used) noexcept;
  /// One of them, which is charged no more; without capacity: there is none of that.
  [[nodiscard]] byte_buffer take_spare(std::size_t capacity) noexcept;
  /// As much as the buffers in use may become fewer by (a guess: 31 of 256 KiB).
  static constexpr std::size_t spare_bytes_max = 8 * 1024 * 1024;

  /// More than three quarters are taken.
  [[nodiscard]] bool is_tight() const noexcept { return is_tight(sum()); }
  /// Whether a request may bring a body of so many bytes now.
  [[nodiscard]] bool admits_body(std::size_t bytes) const noexcept {
    return bytes <= body_bytes_tight || !is_tight();
  }

  struct totals {
    std::size_t bytes_max = 0;
    std::array<std::int64_t, memory_names.size()> bytes{};
    std::uint64_t refused = 0;  ///< Charges.
    std::uint64_t resets = 0;   ///< Connections, to make room.
  };
  /// Of one moment, or nearly.
  [[nodiscard]] totals total() const noexcept;

 private:
  friend class memory_account;

  /// The counters of one thread, apart from those of others by two cache lines. Written by that
  /// thread; those of `others_` by any.
  struct alignas(128) slot {
    std::int64_t unsummed = 0;
    std::array<std::size_t, thread_buffers> buffers{};
    std::array<std::atomic<std::int64_t>, memory_names.size()> bytes{};
  };
  /// Accounts, by descriptor. Locked where a connection begins or ends, and to make room.
  struct alignas(64) shard {
    std::mutex mutex;
    memory_account* first = nullptr;
  };

  [[nodiscard, gnu::noinline]] slot* here() noexcept;
  [[nodiscard]] bool add(slot* mine, std::int64_t bytes, bool is_bounded) noexcept;
  void count(slot* mine, memory what, std::int64_t bytes) noexcept;
  [[nodiscard]] std::size_t sum() const noexcept {
    // [memory.sum] relaxed: a number that is compared with a limit; nothing is read on its
    // strength. Partner: [memory.add].
    const std::int64_t now = sum_.load(std::memory_order_relaxed);
    return now > 0 ? static_cast<std::size_t>(now) : 0;
  }
  [[nodiscard]] bool is_tight(std::size_t bytes) const noexcept { return bytes > tight_; }
  void make_room() noexcept;
  void make_room(std::size_t bytes);
  [[nodiscard]] shard& shard_of(int descriptor) noexcept {
    return shards_[static_cast<std::size_t>(descriptor) % shards_.size()];
  }

  const std::size_t bytes_max_;
  const std::size_t tight_;
  alignas(128) std::atomic<std::int64_t> sum_{0};
  alignas(128) std::atomic<clock::rep> room_at_{0};  // not before then
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> resets_{0};
  slot others_;  // of threads without memory for one of their own
  thread_slots<slot> slots_;
  std::array<shard, 16> shards_;
  std::mutex spare_lock_;
  buffer_list spare_;  // under it
};

/// What one connection keeps. It is registered with its budget as long as it lives, so that its
/// socket can be reset where others need its memory. Belongs to the connection's runner, but for
/// the members of `messages`: any thread.
class memory_account {
 public:
  /// `idle_bytes`: what the connection costs by itself, which is charged anyway. `descriptor` stays
  /// open as long as the account lives; below 0: nobody resets it.
  memory_account(memory_budget& of, int descriptor, std::size_t idle_bytes) noexcept;
  ~memory_account();
  memory_account(const memory_account&) = delete;
  memory_account& operator=(const memory_account&) = delete;

  /// It keeps so much, more or less than before. False: that is more than there is, and what it
  /// keeps counts as before.
  [[nodiscard]] bool set(memory what, std::size_t bytes) noexcept {
    const std::uint32_t now = granules(bytes);
    std::uint32_t& before = granules_[static_cast<std::size_t>(what)];
    return now == before || set(what, before, now, true);
  }
  /// For what is there already.
  void set_anyway(memory what, std::size_t bytes) noexcept {
    const std::uint32_t now = granules(bytes);
    std::uint32_t& before = granules_[static_cast<std::size_t>(what)];
    if (now != before) static_cast<void>(set(what, before, now, false));
  }

  [[nodiscard]] bool take_messages(std::size_t bytes) noexcept;
  void give_back_messages(std::size_t bytes) noexcept;

  [[nodiscard]] memory_budget& budget() const noexcept { return budget_; }
  /// All that it is charged.
  [[nodiscard]] std::size_t bytes() const noexcept {
    // [account.bytes] relaxed: a number to compare; nothing is read on its strength. Partner:
    // [account.add].
    return bytes_.load(std::memory_order_relaxed);
  }

 private:
  friend class memory_budget;

  /// Rounded down: what is less than one is in idle_bytes.
  [[nodiscard]] static std::uint32_t granules(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>(bytes / memory_budget::granule);
  }
  [[nodiscard]] bool set(memory what, std::uint32_t& before, std::uint32_t now,
                         bool is_bounded) noexcept;
  void add(std::int64_t bytes) noexcept;

  memory_budget& budget_;
  memory_account* newer_ = nullptr;  // in its shard
  memory_account* older_ = nullptr;
  std::atomic<std::size_t> bytes_{0};
  std::array<std::uint32_t, memory_names.size()> granules_{};
  const int descriptor_;
  bool is_reset_ = false;  // under its shard's lock
};

}  // namespace bwos::server

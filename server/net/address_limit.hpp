// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace bwos::server {

/// How many connections each peer's address has, and that none has more than so many. An address is
/// one of IPv4, also where IPv6 carries it (::ffff:192.0.2.1), or a /64 of IPv6, which is what one
/// customer has; all link-local ones are one. Asked when a connection begins and when it has ended,
/// and by nothing between. Outlives the places that it has given. Any thread.
class address_limit {
 public:
  /// What a connection holds of its address's share until it ends; or nothing.
  class place {
   public:
    place() noexcept = default;
    place(place&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), address_(other.address_) {}
    place& operator=(place&& other) noexcept {
      if (this != &other) {
        leave();
        of_ = std::exchange(other.of_, nullptr);
        address_ = other.address_;
      }
      return *this;
    }
    ~place() { leave(); }

   private:
    friend class address_limit;
    place(address_limit& of, std::uint64_t address) noexcept : of_(&of), address_(address) {}
    void leave() noexcept {
      if (of_ != nullptr) std::exchange(of_, nullptr)->leave(address_);
    }

    address_limit* of_ = nullptr;
    std::uint64_t address_ = 0;
  };

  /// `most`: 1 or more. Throws std::exception where there are no random numbers.
  explicit address_limit(std::size_t most);
  address_limit(const address_limit&) = delete;
  address_limit& operator=(const address_limit&) = delete;

  /// Whether one more may begin; its place is then in `to`, whose former one is given back first.
  /// False also without memory. A peer of no IP address is let in without a place.
  [[nodiscard]] bool admit(const sockaddr_storage& peer, place& to) noexcept;
  /// The same of a connected socket; one whose peer has gone already is let in.
  [[nodiscard]] bool admit(int connected, place& to) noexcept;

  /// Ever.
  [[nodiscard]] std::uint64_t refused() const noexcept {
    // [address.refused.read] relaxed: a number to show. Partner: none (statistics).
    return refused_.load(std::memory_order_relaxed);
  }

 private:
  /// Peers choose their addresses within what is theirs: where the hash is not known, they cannot
  /// choose those that fall together.
  struct keyed_hash {
    std::uint64_t key;
    std::size_t operator()(std::uint64_t address) const noexcept;
  };
  struct alignas(64) shard {
    std::mutex lock;
    std::unordered_map<std::uint64_t, std::size_t, keyed_hash> connections{0, keyed_hash{0}};
  };

  [[nodiscard]] shard& shard_of(std::uint64_t address) noexcept;
  [[nodiscard]] bool enter(std::uint64_t address) noexcept;
  void leave(std::uint64_t address) noexcept;

  const std::size_t most_;
  const keyed_hash hash_;
  std::array<shard, 16> shards_;  // a guess: more than threads that end connections at once
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace bwos::server

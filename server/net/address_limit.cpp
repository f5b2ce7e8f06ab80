// SPDX-License-Identifier: Apache-2.0
#include "net/address_limit.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <new>
#include <optional>
#include <random>

namespace bwos::server {
namespace {

/// Above all of IPv4 in the numbers: ffff::/16 is for groups, so that no peer's /64 is there.
constexpr std::uint64_t of_ipv4 = std::uint64_t{0xffff} << 48;

std::uint64_t number_of(const in_addr& address) noexcept {
  return of_ipv4 | ntohl(address.s_addr);
}

std::optional<std::uint64_t> number_of(const sockaddr_storage& peer) noexcept {
  if (peer.ss_family == AF_INET) {
    return number_of(reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.ss_family != AF_INET6) return std::nullopt;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr carried{};
    std::memcpy(&carried, &address.s6_addr[12], sizeof carried);
    return number_of(carried);
  }
  std::uint64_t network = 0;
  for (std::size_t i = 0; i < 8; ++i) network = network << 8 | address.s6_addr[i];
  return network;
}

std::uint64_t random_key() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

}  // namespace

/// The finalizer of splitmix64 over address and key.
std::size_t address_limit::keyed_hash::operator()(std::uint64_t address) const noexcept {
  std::uint64_t mixed = address ^ key;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = ((mixed ^ mixed >> 27) + key) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

address_limit::address_limit(std::size_t most) : most_(most), hash_{.key = random_key()} {
  for (shard& each : shards_) each.connections = decltype(each.connections)(0, hash_);
}

address_limit::shard& address_limit::shard_of(std::uint64_t address) noexcept {
  return shards_[(hash_(address) >> 32) % shards_.size()];  // its maps go by the lower bits
}

bool address_limit::enter(std::uint64_t address) noexcept {
  shard& in = shard_of(address);
  const std::lock_guard guard(in.lock);
  try {
    std::size_t& count = in.connections[address];  // a new one is let in, so that none stays at 0
    if (count >= most_) return false;
    ++count;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void address_limit::leave(std::uint64_t address) noexcept {
  shard& in = shard_of(address);
  const std::lock_guard guard(in.lock);
  const auto found = in.connections.find(address);
  if (--found->second == 0) in.connections.erase(found);
}

bool address_limit::admit(const sockaddr_storage& peer, place& to) noexcept {
  to = {};
  const std::optional<std::uint64_t> address = number_of(peer);
  if (!address) return true;
  if (enter(*address)) {
    to = place(*this, *address);
    return true;
  }
  // [address.refused] relaxed: publishes nothing but itself. Partner: none (statistics).
  refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool address_limit::admit(int connected, place& to) noexcept {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(connected, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    peer.ss_family = AF_UNSPEC;
  }
  return admit(peer, to);
}

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#include "io/stream/address.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bwos/stream.hpp>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace bwos {
namespace {

using address_list = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

bool is_port(const std::string& text) {
  if (text.empty() || text.size() > 5) return false;
  if (text.find_first_not_of("0123456789") != std::string::npos) return false;
  return std::stoi(text) <= 65535;
}

address_list resolve(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || !is_port(port) || (!bracketed && host.find(':') != std::string::npos)) {
    throw std::invalid_argument(
        "'" + address + "' is no address: expected HOST:PORT or [IPV6]:PORT, port 0 to 65535");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    throw std::invalid_argument("'" + address + "' is no address: " + ::gai_strerror(error));
  }
  return {found, &::freeaddrinfo};
}

}  // namespace

int bind_and_listen(const std::string& address, int backlog) {
  const address_list where = resolve(address);
  const int fd = ::socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      ::bind(fd, where->ai_addr, where->ai_addrlen) == 0 && ::listen(fd, backlog) == 0) {
    return fd;
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  throw std::system_error(error, std::system_category(), address);
}

void set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::system_category(), "an inherited socket");
  }
}

std::string local_address(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const generic = reinterpret_cast<sockaddr*>(&bound);
  if (::getsockname(fd, generic, &size) != 0 ||
      ::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string name = host.data();
  return (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port.data();
}

void ignore_new_connections(int listening_socket) noexcept {
  // Each packet from its TCP header on: those with SYN are dropped, whose senders try again.
  constexpr std::uint32_t flags_offset = 13;
  constexpr std::uint32_t syn = 2;
  std::array<sock_filter, 4> program{{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, flags_offset),
                                      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, syn, 0, 1),
                                      BPF_STMT(BPF_RET | BPF_K, 0),
                                      BPF_STMT(BPF_RET | BPF_K, 0xffffffff)}};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  ::setsockopt(listening_socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

}  // namespace bwos

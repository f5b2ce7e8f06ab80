// SPDX-License-Identifier: Apache-2.0
#include "baselines/grpc_cpp/address.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace bwos::server {
namespace {

using address_list = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

class socket_fd {
 public:
  explicit socket_fd(const addrinfo& info) noexcept
      : fd_(::socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol)) {}
  ~socket_fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  socket_fd(const socket_fd&) = delete;
  socket_fd& operator=(const socket_fd&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void bad_address(std::string_view text) {
  throw std::invalid_argument(
      "'" + std::string(text) +
      "' is not HOST:PORT, such as 127.0.0.1:50051 or [::]:0 (port 0 to 65535)");
}

address_list resolve(const host_port& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    throw std::invalid_argument("'" + address.text() +
                                "' does not resolve: " + ::gai_strerror(error));
  }
  return {found, &freeaddrinfo};
}

/// 0 or the errno of the step that failed.
int try_listen(const addrinfo& info) noexcept {
  const socket_fd listener(info);
  if (listener.get() < 0) return errno;
  const int on = 1;
  // As gRPC does it: connections of an earlier run in TIME_WAIT are no obstacle, a listening socket
  // is.
  (void)::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener.get(), info.ai_addr, info.ai_addrlen) != 0) return errno;
  if (::listen(listener.get(), 1) != 0) return errno;
  return 0;
}

}  // namespace

std::string host_port::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

host_port parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) bad_address(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    bad_address(text);
  }
  host_port parsed{std::string(host), 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    bad_address(text);
  }
  return parsed;
}

void probe_listen(const host_port& address) {
  const address_list found = resolve(address);
  int error = 0;
  for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    error = try_listen(*info);
    if (error == EADDRINUSE)
      break;  // Decisive, though gRPC would be content with another address of the name.
    if (error == 0) return;
  }
  if (error == EAFNOSUPPORT && address.host == "::")
    return;  // No IPv6 here: gRPC falls back to 0.0.0.0.
  throw std::system_error(error, std::generic_category(), "cannot listen on " + address.text());
}

}  // namespace bwos::server

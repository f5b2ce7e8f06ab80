// SPDX-License-Identifier: Apache-2.0
#include "baselines/grpc_cpp/goaway.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#ifdef BWOS_GRPC_GOAWAYS
namespace grpc_core {
// Not in gRPC's public headers; CMakeLists.txt has the versions whose library was looked at.
class Server {
 public:
  void SendGoaways();
};
}  // namespace grpc_core
#endif

namespace bwos::server {
namespace {

bool listens(int fd) noexcept {
  int is_listening = 0;
  socklen_t size = sizeof is_listening;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 &&
         is_listening != 0;
}

std::optional<sockaddr_storage> address_of(int fd) noexcept {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) return std::nullopt;
  return local;
}

/// Whether a connection's own address is what a listener at `listener` accepts.
bool is_at(const sockaddr_storage& local, const sockaddr_storage& listener) noexcept {
  if (local.ss_family != listener.ss_family) return false;
  if (local.ss_family == AF_INET) {
    const auto& one = reinterpret_cast<const sockaddr_in&>(local);
    const auto& other = reinterpret_cast<const sockaddr_in&>(listener);
    const in_addr_t wanted = other.sin_addr.s_addr;
    return one.sin_port == other.sin_port &&
           (wanted == INADDR_ANY || wanted == one.sin_addr.s_addr);
  }
  if (local.ss_family != AF_INET6) return false;
  const auto& one = reinterpret_cast<const sockaddr_in6&>(local);
  const auto& other = reinterpret_cast<const sockaddr_in6&>(listener);
  return one.sin6_port == other.sin6_port && (IN6_IS_ADDR_UNSPECIFIED(&other.sin6_addr) ||
                                              IN6_ARE_ADDR_EQUAL(&one.sin6_addr, &other.sin6_addr));
}

bool is_connection_at(int fd, std::span<const sockaddr_storage> addresses) noexcept {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) return false;
  const auto local = address_of(fd);
  return local && !listens(fd) && std::ranges::any_of(addresses, [&](const sockaddr_storage& each) {
           return is_at(*local, each);
         });
}

/// This side has closed it, and the peer has acknowledged that, hence all before it.
bool has_delivered_all(int connection) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state == TCP_FIN_WAIT2 || info.tcpi_state == TCP_TIME_WAIT ||
         info.tcpi_state == TCP_CLOSE;
}

/// Open descriptors of this process; none without /proc.
std::vector<int> descriptors() {
  std::vector<int> found;
  std::error_code unreadable;
  std::filesystem::directory_iterator entry("/proc/self/fd", unreadable);
  for (; !unreadable && entry != end(entry); entry.increment(unreadable)) {
    const std::string name = entry->path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    found.push_back(fd);
  }
  return found;
}

}  // namespace

#ifdef BWOS_GRPC_GOAWAYS

bool goaways_can_be_sent() noexcept {
  return true;
}

void send_goaways(grpc::Server& server) noexcept {
  // gRPC's inner functions need an execution context, which its public ones make: here the one that
  // frees a byte buffer, whose only slice then sends the GOAWAYs instead of freeing memory.
  grpc_server* const core = server.c_server();
  const auto send = [](void* of) { static_cast<grpc_core::Server*>(of)->SendGoaways(); };
  grpc_slice sends = grpc_slice_new_with_user_data(core, 0, send, core);
  grpc_byte_buffer* const buffer = grpc_raw_byte_buffer_create(&sends, 1);
  grpc_slice_unref(sends);
  grpc_byte_buffer_destroy(buffer);
}

#else

bool goaways_can_be_sent() noexcept {
  return false;
}

void send_goaways(grpc::Server& /*server*/) noexcept {}

#endif

std::vector<int> listening_sockets() {
  std::vector<int> found = descriptors();
  std::erase_if(found, [](int fd) { return !listens(fd); });
  return found;
}

void stop_listening(std::span<const int> sockets) noexcept {
  // What gRPC holds instead, until it closes it: a socket that nobody knows of.
  const int nowhere = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (nowhere < 0) return;  // no descriptor is left: peers may come back, and lose a call
  const sockaddr_un any_name{.sun_family = AF_UNIX, .sun_path = {}};
  (void)::bind(nowhere, reinterpret_cast<const sockaddr*>(&any_name), sizeof any_name.sun_family);
  ::listen(nowhere, 0);
  for (const int fd : sockets) ::dup3(nowhere, fd, O_CLOEXEC);
  ::close(nowhere);
}

std::vector<sockaddr_storage> addresses_of(std::span<const int> listeners) {
  std::vector<sockaddr_storage> found;
  for (const int fd : listeners) {
    if (const auto address = address_of(fd)) found.push_back(*address);
  }
  return found;
}

std::vector<int> hold_connections(std::span<const sockaddr_storage> addresses) {
  std::vector<int> found = descriptors();
  std::erase_if(found, [&](int fd) { return !is_connection_at(fd, addresses); });
  std::vector<int> held;
  for (const int fd : found) {
    const int second = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (second < 0) continue;
    if (is_connection_at(second, addresses)) {
      held.push_back(second);
    } else {
      ::close(second);  // the number was somebody else's by then
    }
  }
  return held;
}

void let_go(std::span<const int> connections, std::chrono::steady_clock::time_point deadline) {
  for (const int fd : connections) {
    bool delivered = has_delivered_all(fd);
    while (!delivered && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      delivered = has_delivered_all(fd);
    }
    // What it has not read would have close() reset it even now. No more of it comes: it is shut.
    std::array<std::byte, 4096> unread;
    while (delivered && ::recv(fd, unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
    ::close(fd);
  }
}

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#include "grpc/goaway.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

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

bool listens_on(int fd, std::uint16_t port) noexcept {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    return false;
  sockaddr_storage bound{};
  size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return false;
  switch (bound.ss_family) {
    case AF_INET:
      return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port) == port;
    case AF_INET6:
      return ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port) == port;
    default:
      return false;
  }
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

void stop_listening_on(std::uint16_t port) noexcept {
  // What gRPC holds instead: a socket of no address, to which nobody connects, until it closes it.
  const int nowhere = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_un unnamed{.sun_family = AF_UNIX, .sun_path = {}};
  if (nowhere < 0) return;  // no descriptor, no /proc: peers may come back, and lose a call
  ::bind(nowhere, reinterpret_cast<const sockaddr*>(&unnamed), sizeof unnamed.sun_family);
  ::listen(nowhere, 0);
  std::error_code unreadable;
  std::filesystem::directory_iterator entry("/proc/self/fd", unreadable);
  for (; !unreadable && entry != end(entry); entry.increment(unreadable)) {
    const std::string name = entry->path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (listens_on(fd, port)) ::dup3(nowhere, fd, O_CLOEXEC);
  }
  ::close(nowhere);
}

}  // namespace bwos::server

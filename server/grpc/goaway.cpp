// SPDX-License-Identifier: Apache-2.0
#include "grpc/goaway.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
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
  std::vector<int> found;
  std::error_code unreadable;
  std::filesystem::directory_iterator entry("/proc/self/fd", unreadable);
  for (; !unreadable && entry != end(entry); entry.increment(unreadable)) {
    const std::string name = entry->path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (listens(fd)) found.push_back(fd);
  }
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

}  // namespace bwos::server

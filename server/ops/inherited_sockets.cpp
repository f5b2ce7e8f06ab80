// SPDX-License-Identifier: Apache-2.0
#include "ops/inherited_sockets.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/start_error.hpp"
#include "base/units.hpp"
#include "ops/service_manager.hpp"

namespace bwos::server {
namespace {

constexpr int first_descriptor = 3;                 // SD_LISTEN_FDS_START
constexpr std::uint64_t descriptors_max = 1 << 10;  // a guess; we know two names

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {  // ends: at the last colon
    const std::size_t colon = text.find(':');
    parts.emplace_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

int option_of(int fd, int name) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

bool is_listening_tcp(int fd) noexcept {
  const int domain = option_of(fd, SO_DOMAIN);
  return (domain == AF_INET || domain == AF_INET6) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
         option_of(fd, SO_ACCEPTCONN) == 1;
}

[[noreturn]] void refuse(int fd, const std::string& name, const char* must_be) {
  throw start_error("LISTEN_FDNAMES '" + name + "', descriptor " + std::to_string(fd) +
                    ": must be " + must_be);
}

}  // namespace

inherited_sockets inherited_sockets::from_environment() {
  const auto whose = take_variable("LISTEN_PID");
  const auto text = take_variable("LISTEN_FDS");
  const auto named = take_variable("LISTEN_FDNAMES");
  inherited_sockets found;
  if (!whose || !text || *whose != std::to_string(::getpid())) return found;

  const auto count = parse_number(*text);
  if (!count || *count > descriptors_max) {
    throw start_error("LISTEN_FDS '" + *text + "': must be a number from 0 to " +
                      std::to_string(descriptors_max));
  }
  if (*count == 0) return found;
  std::vector<std::string> names(*count, "unknown");  // as sd_listen_fds_with_names(3) has it
  if (named) names = split(*named);
  if (names.size() != *count) {
    throw start_error("LISTEN_FDNAMES '" + *named + "': must have as many names as LISTEN_FDS, " +
                      *text);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int fd = first_descriptor + static_cast<int>(i);
    const std::string& name = names[i];
    if (name != "http" && name != "grpc") refuse(fd, name, "http or grpc");
    if (!is_listening_tcp(fd)) refuse(fd, name, "a listening TCP socket");
    auto& place = name == "http" ? found.http : found.grpc;
    if (place) refuse(fd, name, "named once");
    if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0)
      ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    place = inherited_socket{fd};
  }
  return found;
}

}  // namespace bwos::server

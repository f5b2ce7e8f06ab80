// SPDX-License-Identifier: Apache-2.0
#include "ops/service_manager.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/units.hpp"

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

/// A manager whose socket is full is waited for so long: it must not miss READY=1, and a drain must
/// not wait for ever.
constexpr timeval patience{.tv_sec = 1, .tv_usec = 0};

/// sd_watchdog_enabled(3): microseconds; of this process only, where WATCHDOG_PID says whose.
std::chrono::microseconds watchdog_time() {
  const auto whose = take_variable("WATCHDOG_PID");
  const auto text = take_variable("WATCHDOG_USEC");
  if (!text || (whose && *whose != std::to_string(::getpid()))) return 0us;
  constexpr std::uint64_t most = std::chrono::microseconds(24h).count();
  const auto value = parse_number(*text);
  if (!value || *value == 0) {
    spdlog::warn("WATCHDOG_USEC {}: must be a number from 1; there is no watchdog", *text);
    return 0us;
  }
  return std::chrono::microseconds(std::min(*value, most));
}

}  // namespace

std::optional<std::string> take_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  std::string value(text);
  ::unsetenv(name);
  return value;
}

service_manager service_manager::from_environment() {
  service_manager made;
  made.address_ = take_variable("NOTIFY_SOCKET").value_or("");
  made.half_ = watchdog_time() / 2;
  if (made.address_.empty()) return made;
  made.socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (made.socket_ < 0) {
    made.log_error(errno);
  } else {
    ::setsockopt(made.socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  return made;
}

service_manager::service_manager(service_manager&& other) noexcept
    : address_(std::move(other.address_)),
      socket_(std::exchange(other.socket_, -1)),
      half_(other.half_),
      due_(other.due_),
      has_failed_(other.has_failed_) {}

service_manager::~service_manager() {
  if (socket_ >= 0) ::close(socket_);
}

void service_manager::ready(std::string_view status) {
  send(std::string("READY=1\nSTATUS=").append(status));
  if (socket_ >= 0 && half_ > 0us) due_ = clock::now() + half_;
}

void service_manager::stopping(std::string_view status) {
  send(std::string("STOPPING=1\nSTATUS=").append(status));
}

void service_manager::feed_watchdog(clock::time_point now) {
  if (now < due_) return;
  due_ = now + half_;
  send("WATCHDOG=1");
}

std::chrono::milliseconds service_manager::until_watchdog(clock::time_point now) const noexcept {
  if (due_ == clock::time_point::max()) return 24h;
  const clock::duration wait = now < due_ ? due_ - now : clock::duration(half_);
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(wait), 1ms);
}

void service_manager::send(const std::string& lines) {
  if (socket_ < 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const bool has_place =
      address_.size() > 1 && (address_.front() == '/' || address_.front() == '@');
  if (!has_place) return log_error(EAFNOSUPPORT);
  if (address_.size() >= sizeof to.sun_path) return log_error(ENAMETOOLONG);
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (address_.front() == '@') to.sun_path[0] = '\0';  // abstract: ends without a zero
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const ssize_t sent = ::sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&to), size);
  if (sent < 0) log_error(errno);
}

void service_manager::log_error(int number) {
  if (std::exchange(has_failed_, true)) return;
  spdlog::warn("NOTIFY_SOCKET {}: {}; whoever started the server may not know how it is", address_,
               std::generic_category().message(number));
}

}  // namespace bwos::server

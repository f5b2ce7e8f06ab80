// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace bwos::server {

/// A variable of the environment, which is unset with that: it was meant for this process, not for
/// its children. Before the first thread.
std::optional<std::string> take_variable(const char* name);

/// Whoever started this process and wants to hear how it is: systemd's protocol of sd_notify(3) and
/// sd_watchdog_enabled(3), datagrams of lines to the socket of NOTIFY_SOCKET. Without that variable
/// nothing is sent. A datagram that cannot be sent is lost; the first such error is logged.
/// One thread at a time.
class service_manager {
 public:
  using clock = std::chrono::steady_clock;

  /// Nobody wants to hear anything.
  service_manager() = default;
  /// Of NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are unset. Before the first thread. A
  /// bad WATCHDOG_USEC is logged, and no watchdog.
  static service_manager from_environment();
  service_manager(service_manager&& other) noexcept;
  service_manager& operator=(service_manager&&) = delete;
  ~service_manager();

  /// The process serves (READY=1), and is fed to the watchdog from now on. `status`: a line for
  /// humans.
  void ready(std::string_view status);
  /// It ends (STOPPING=1).
  void stopping(std::string_view status);
  /// WATCHDOG=1, if half of its time has passed since the last one. To be called whenever
  /// until_watchdog() has passed and all is well; whoever leaves that out is restarted.
  void feed_watchdog(clock::time_point now);
  /// A day where there is no watchdog. One that is due and was not fed is looked at again after
  /// half of its time.
  [[nodiscard]] std::chrono::milliseconds until_watchdog(clock::time_point now) const noexcept;

 private:
  void send(const std::string& lines);
  void log_error(int number);

  std::string address_;  // of NOTIFY_SOCKET: a path, or a name behind '@'
  int socket_ = -1;
  std::chrono::microseconds half_{0};  // of WATCHDOG_USEC; 0: no watchdog
  clock::time_point due_ = clock::time_point::max();
  bool has_failed_ = false;
};

}  // namespace bwos::server

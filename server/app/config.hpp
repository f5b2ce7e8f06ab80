// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include <bwos/options.hpp>

#include "base/logging.hpp"
#include "baselines/grpc_cpp/options.hpp"
#include "ops/settings.hpp"

namespace CLI {
class App;
}

namespace bwos::server {

/// Who runs handlers: our pool, asio::thread_pool behind dedicated reactor threads, or
/// asio::io_context with Asio's own sockets.
enum class executor_kind : std::uint8_t { bwos, asio_pool, asio_io_context };

/// "bwos", as the flag has it.
[[nodiscard]] std::string_view name_of(executor_kind kind) noexcept;

/// Who serves gRPC: we, on the executor's own sockets, or gRPC C++.
enum class grpc_kind : std::uint8_t { native, cpp };

/// Everything that the command line can say. --help has the meaning and range of each.
struct config : server_settings {
  executor_kind executor = executor_kind::bwos;
  int reactor_threads = -1;    ///< Below 0: not given; see pool_options().
  unsigned reactor_group = 0;  ///< 0: not given; see pool_options().
  reactor_kind reactor = reactor_kind::automatic;
  steal_kind steal = steal_kind::random;
  bool pin = false;
  bool asio_lane = false;

  int lane_threshold_us = -1;  ///< Below 0: not given; see lane_threshold().
  std::chrono::microseconds lane_age = options{}.lane_age;

  std::uint64_t work_us_max = 10'000;
  bool grpc_test_service = false;
  grpc_kind grpc_by = grpc_kind::native;  ///< With asio_io_context only gRPC C++.
  grpc_options grpc;                      ///< gRPC C++'s; its address is grpc_listen.

  std::string log_level = "info";
  server::log_format log_format = server::log_format::text;

  [[nodiscard]] options pool_options() const;
  /// Zero: nothing goes through the lane. That is the default where workers have reactors of their
  /// own: one inside long work leaves its connections unattended, whoever's that work is. Always,
  /// where the executor has no lane.
  [[nodiscard]] std::chrono::microseconds lane_threshold() const;
};

struct command_line {
  config settings;
  std::optional<int> exit_code;  ///< Set: say no more and leave with it.
};

/// Reads command lines, each from the defaults: for whoever has many. Flags go over environment
/// variables, those over the file of --config. What was asked for (as by --help) goes to `out`; a
/// mistake to `err`, one line with the flag, its value and what is valid, and exit code 2.
class command_line_parser {
 public:
  command_line_parser();
  ~command_line_parser();
  command_line parse(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

 private:
  const config defaults_;  // counted once: the number of CPUs lies in files
  config settings_;        // where the flags write to
  std::unique_ptr<CLI::App> app_;
};

/// One command line.
command_line parse_command_line(int argc, const char* const* argv, std::ostream& out,
                                std::ostream& err);

/// Of the tree that was built, as deploy/version.sh has it.
[[nodiscard]] const char* version() noexcept;
/// "Release, GNU 12.2.0": build type and compiler.
[[nodiscard]] const char* build() noexcept;

}  // namespace bwos::server

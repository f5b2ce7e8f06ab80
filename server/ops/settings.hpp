// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/options.hpp>
#include <chrono>
#include <cstddef>
#include <string>

#include "base/access_log.hpp"
#include "grpc/limits.hpp"
#include "http/h2/limits.hpp"
#include "http/limits.hpp"

namespace bwos::server {

/// What a server goes by, whatever it serves. The flags of the same names set these; --help has the
/// meaning and range of each.
struct server_settings {
  std::string http_listen = "127.0.0.1:8080";   ///< Empty: no HTTP.
  std::string grpc_listen = "127.0.0.1:50051";  ///< Empty: no gRPC.
  int backlog = 4096;
  std::size_t connections_max = 0;              ///< 0: what RLIMIT_NOFILE allows.
  std::size_t connections_per_address_max = 0;  ///< 0: as many as there may be.
  std::size_t memory_max = 0;                   ///< 0: 60 % of find_memory_limit().
  /// A guess: twice what one system call of ours usually sends (64 KiB), so that the kernel has
  /// something to send while a worker comes to write more, and a thirtieth of what it would buffer
  /// by default. 0: as the kernel has it.
  std::size_t socket_unsent_bytes_max = 128 * 1024;
  /// 0: as the kernel has it, whose buffers grow with what a peer sends; a fixed one costs up
  /// to 1.3 times the CPU for bodies of a mebibyte.
  std::size_t socket_unread_bytes_max = 0;
  unsigned workers = default_workers();

  http_limits http;
  h2::limits http2;
  rpc::call_limits calls;

  std::chrono::microseconds queue_age_max{0};  ///< 0: requests may wait as long as they must.
  std::chrono::microseconds stall_timeout = std::chrono::seconds(10);  ///< 0: not watched for.
  std::chrono::microseconds drain_delay{0};
  std::chrono::microseconds drain_timeout = std::chrono::seconds(30);
  access_log_options access_log;  ///< Its file empty: none.
};

}  // namespace bwos::server

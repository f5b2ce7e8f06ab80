// SPDX-License-Identifier: Apache-2.0
#include "baselines/grpc_cpp/options.hpp"

#include <algorithm>
#include <bwos/options.hpp>
#include <stdexcept>
#include <string>

#include "baselines/grpc_cpp/address.hpp"

namespace bwos::server {
namespace {

void in_range(const char* name, std::size_t value, std::size_t low, std::size_t high) {
  if (value >= low && value <= high) return;
  throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                              " is out of range: " + std::to_string(low) + " to " +
                              std::to_string(high));
}

}  // namespace

unsigned grpc_options::default_queue_threads() noexcept {
  return std::clamp(default_workers() / 2, 1U, 4U);
}

void grpc_options::validate() const {
  (void)parse_host_port(address);
  in_range("message_bytes_max", message_bytes_max, 1, std::size_t{1} << 30);
  in_range("streams_max", streams_max, 1, 65535);
  in_range("queue_threads", queue_threads, 1, 64);
  in_range("calls_armed", calls_armed, 1, 65536);
}

}  // namespace bwos::server

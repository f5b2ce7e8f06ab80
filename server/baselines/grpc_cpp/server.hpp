// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "baselines/grpc_cpp/options.hpp"
#include "grpc/transport.hpp"

namespace bwos::server {

class cpp_methods;

/// Methods on gRPC C++, with gRPC's own health service.
/// Completion queues are polled by threads of their own; each call is a coroutine, which they hand
/// to the executor whenever a step of it is complete.
class grpc_server final : public grpc_transport {
 public:
  /// Listens and serves. Throws std::invalid_argument for a bad option, std::system_error where the
  /// address cannot be listened on (std::errc::address_in_use and others). The executor of
  /// `methods` must run until shutdown() has returned.
  grpc_server(const grpc_options& settings, std::unique_ptr<cpp_methods> methods);
  /// shutdown() at once, if it has not been called.
  ~grpc_server() override;

  [[nodiscard]] std::string address() const override;
  void begin_drain() noexcept override;
  /// At the deadline the calls are cancelled; returns when every call's coroutine has ended and the
  /// queues are empty.
  void shutdown(std::chrono::steady_clock::time_point deadline) override;
  [[nodiscard]] grpc_statistics statistics() const noexcept override;

 private:
  struct core;
  std::unique_ptr<core> core_;
};

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
// A server on each transport, for suites that decide what both do.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "app/baselines.hpp"
#include "grpc/native_server.hpp"
#include "running_server.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::test {

enum class transport : std::uint8_t { native, native_asio_pool, cpp };

class each_transport : public testing::TestWithParam<transport> {
 protected:
  each_transport() {
    settings_.executor =
        GetParam() == transport::native_asio_pool ? executor_kind::asio_pool : executor_kind::bwos;
    settings_.workers = 2;
    services_.has_test_service = true;
    threads_ = make_runtime(settings_);
    if (GetParam() == transport::cpp) {
      server_ = make_grpc_cpp_server(threads_->workers(), any_port(), services_);
    } else {
      server_ = std::make_unique<rpc::native_server>(
          *threads_, "127.0.0.1:0", 1024, 1000, methods_of(services_), drain_, registry_,
          settings_.http2, settings_.calls, test::unlimited_memory());
    }
    channel_ = connect();
  }
  ~each_transport() override {
    channel_.reset();  // its connection closes: nobody is waited for
    stop();
    threads_->stop();
  }
  [[nodiscard]] std::shared_ptr<grpc::Channel> connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  /// As lifecycle.cpp has it.
  void drain() {
    drain_.begin();
    server_->begin_drain();
  }
  void stop(std::chrono::seconds patience = 20s) {
    server_->shutdown(std::chrono::steady_clock::now() + patience);
  }
  [[nodiscard]] bool is_native() const noexcept { return GetParam() != transport::cpp; }
  /// Every call that was started has ended, as the server counts them.
  void expect_all_ended() const {
    EXPECT_TRUE(eventually([&] {
      const grpc_statistics calls = server_->statistics();
      return calls.started == calls.ok + calls.failed + calls.cancelled;
    }));
  }

  config settings_;
  demo_services services_;
  drain_state drain_;
  metrics::registry registry_{{.routes = 1, .statuses = status_count}};
  std::unique_ptr<runtime> threads_;
  std::unique_ptr<grpc_transport> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

inline std::string name_of_transport(const testing::TestParamInfo<transport>& info) {
  switch (info.param) {
    case transport::native:
      return "native";
    case transport::native_asio_pool:
      return "native_asio_pool";
    case transport::cpp:
      return "cpp";
  }
  return "";
}

inline const auto all_transports =
    testing::Values(transport::native, transport::native_asio_pool, transport::cpp);

}  // namespace bwos::server::test

// SPDX-License-Identifier: Apache-2.0
#include "net/unsent_bytes.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "app/baselines.hpp"
#include "net/runtime.hpp"

namespace bwos::server {
namespace {

int unsent_bytes_max(int socket) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &size), 0);
  return value;
}

class ends_at_once final : public connection {
 public:
  explicit ends_at_once(socket& on) : connection(on) {}
  [[nodiscard]] next begin() override { return next::close; }
  [[nodiscard]] next take(const received& /*got*/) override { return next::close; }
  [[nodiscard]] next go_on() override { return next::close; }
  void set_write_deadline() noexcept override {}
  [[nodiscard]] next take_sent(const sent& /*what*/, next then) override { return then; }
};

/// Connections that tell what their socket has, and end.
class looking_factory final : public connection_factory {
 public:
  using connection_factory::connection_factory;
  [[nodiscard]] std::unique_ptr<connection> connect(socket& accepted) const override {
    seen.store(unsent_bytes_max(accepted.native_handle()));
    return std::make_unique<ends_at_once>(accepted);
  }
  mutable std::atomic<int> seen{-1};
};

class unsent_bytes : public testing::TestWithParam<executor_kind> {
 protected:
  unsent_bytes() : threads_(make()), factory_(threads_->workers(), counters_) {}
  ~unsent_bytes() override { threads_->stop(); }

  static std::unique_ptr<runtime> make() {
    config settings;
    settings.executor = GetParam();
    settings.workers = 2;
    return make_runtime(settings);
  }
  [[nodiscard]] std::unique_ptr<port> listen(const char* address) const {
    return threads_->listen(address, 16);
  }
  [[nodiscard]] std::unique_ptr<port> inherit(int fd) const {
    return threads_->listen(inherited_socket{fd});
  }
  /// Of a connection that it accepts.
  int seen_by(port& listening) {
    factory_.seen.store(-1);
    sockaddr_storage where{};
    socklen_t size = sizeof where;
    auto* const generic = reinterpret_cast<sockaddr*>(&where);
    EXPECT_EQ(::getsockname(listening.native_handle(), generic, &size), 0);
    listening.start(factory_, 10);
    const int client = ::socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(client, generic, size), 0);
    while (factory_.seen.load() < 0) std::this_thread::yield();
    ::close(client);
    return factory_.seen.load();
  }

 private:
  metrics::registry counters_{{.routes = 1, .statuses = 1}};
  const std::unique_ptr<runtime> threads_;
  looking_factory factory_;
};

std::string name_of_case(const testing::TestParamInfo<executor_kind>& info) {
  return info.param == executor_kind::bwos        ? "bwos"
         : info.param == executor_kind::asio_pool ? "asio_pool"
                                                  : "asio_io_context";
}
INSTANTIATE_TEST_SUITE_P(on, unsent_bytes,
                         testing::Values(executor_kind::bwos, executor_kind::asio_pool,
                                         executor_kind::asio_io_context),
                         &name_of_case);

TEST_P(unsent_bytes, accepted_sockets_have_the_listeners_limit) {
  const auto listening = listen("127.0.0.1:0");
  limit_unsent_bytes(*listening, 32 * 1024);
  EXPECT_EQ(seen_by(*listening), 32 * 1024);
}

TEST_P(unsent_bytes, accepted_sockets_of_ipv6_have_it_too) {
  std::unique_ptr<port> listening;
  try {
    listening = listen("[::1]:0");
  } catch (const std::exception&) {
    GTEST_SKIP() << "no IPv6 here";
  }
  limit_unsent_bytes(*listening, 64 * 1024);
  EXPECT_EQ(seen_by(*listening), 64 * 1024);
}

TEST_P(unsent_bytes, none_is_the_kernels_own_also_where_an_inherited_socket_had_one) {
  const auto first = listen("127.0.0.1:0");
  limit_unsent_bytes(*first, 16 * 1024);
  const auto second = inherit(::dup(first->native_handle()));
  EXPECT_EQ(unsent_bytes_max(second->native_handle()), 16 * 1024);
  limit_unsent_bytes(*second, 0);
  EXPECT_EQ(seen_by(*second), 0);
}

TEST_P(unsent_bytes, an_inherited_socket_gets_it) {
  const auto first = listen("127.0.0.1:0");
  const auto second = inherit(::dup(first->native_handle()));
  limit_unsent_bytes(*second, 16 * 1024);
  EXPECT_EQ(seen_by(*second), 16 * 1024);
}

}  // namespace
}  // namespace bwos::server

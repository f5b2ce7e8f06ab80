// SPDX-License-Identifier: Apache-2.0
#include "net/socket_bytes.hpp"

#include <gtest/gtest.h>
#include <linux/socket.h>
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

int option_of(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket, level, name, &value, &size), 0);
  return value;
}

int unsent_bytes_max(int socket) {
  return option_of(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
}

/// Linux doubles what it is given (socket(7)).
int unread_bytes_max(int socket) {
  return option_of(socket, SOL_SOCKET, SO_RCVBUF) / 2;
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
    unread.store(unread_bytes_max(accepted.native_handle()));
    seen.store(unsent_bytes_max(accepted.native_handle()));
    return std::make_unique<ends_at_once>(accepted);
  }
  mutable std::atomic<int> seen{-1};  // behind the other
  mutable std::atomic<int> unread{-1};
};

class socket_bytes_test : public testing::TestWithParam<executor_kind> {
 protected:
  socket_bytes_test() : threads_(make()), factory_(threads_->workers(), counters_) {}
  ~socket_bytes_test() override { threads_->stop(); }

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
  [[nodiscard]] int unread_seen() const { return factory_.unread.load(); }

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
INSTANTIATE_TEST_SUITE_P(on, socket_bytes_test,
                         testing::Values(executor_kind::bwos, executor_kind::asio_pool,
                                         executor_kind::asio_io_context),
                         &name_of_case);

TEST_P(socket_bytes_test, accepted_sockets_have_the_listeners_limit) {
  const auto listening = listen("127.0.0.1:0");
  limit(*listening, {.unsent_max = 32 * 1024, .unread_max = 0});
  EXPECT_EQ(seen_by(*listening), 32 * 1024);
}

TEST_P(socket_bytes_test, accepted_sockets_of_ipv6_have_it_too) {
  std::unique_ptr<port> listening;
  try {
    listening = listen("[::1]:0");
  } catch (const std::exception&) {
    GTEST_SKIP() << "no IPv6 here";
  }
  limit(*listening, {.unsent_max = 64 * 1024, .unread_max = 0});
  EXPECT_EQ(seen_by(*listening), 64 * 1024);
}

TEST_P(socket_bytes_test, none_is_the_kernels_own_also_where_an_inherited_socket_had_one) {
  const auto first = listen("127.0.0.1:0");
  limit(*first, {.unsent_max = 16 * 1024, .unread_max = 0});
  const auto second = inherit(::dup(first->native_handle()));
  EXPECT_EQ(unsent_bytes_max(second->native_handle()), 16 * 1024);
  limit(*second, {.unsent_max = 0, .unread_max = 0});
  EXPECT_EQ(seen_by(*second), 0);
}

TEST_P(socket_bytes_test, an_inherited_sockets_send_buffer_stays) {
  const auto first = listen("127.0.0.1:0");
  const int size = 64 * 1024;
  ASSERT_EQ(::setsockopt(first->native_handle(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
  ASSERT_EQ(::setsockopt(first->native_handle(), SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
  limit(*first, {.unsent_max = 0, .unread_max = 0});
  EXPECT_EQ(option_of(first->native_handle(), SOL_SOCKET, SO_BUF_LOCK), SOCK_SNDBUF_LOCK);
}

TEST_P(socket_bytes_test, accepted_sockets_keep_no_more_unread) {
  const auto listening = listen("127.0.0.1:0");
  limit(*listening, {.unsent_max = 0, .unread_max = 64 * 1024});
  seen_by(*listening);
  EXPECT_EQ(unread_seen(), 64 * 1024);
}

/// Those grow by what a peer sends, which ones that were set do not.
TEST_P(socket_bytes_test, unread_ones_are_the_kernels_own_where_nothing_is_said) {
  const auto first = listen("127.0.0.1:0");
  limit(*first, {.unsent_max = 0, .unread_max = 64 * 1024});
  const auto second = inherit(::dup(first->native_handle()));
  EXPECT_NE(option_of(second->native_handle(), SOL_SOCKET, SO_BUF_LOCK), 0);
  limit(*second, {.unsent_max = 0, .unread_max = 0});
  EXPECT_EQ(option_of(second->native_handle(), SOL_SOCKET, SO_BUF_LOCK), 0);
}

TEST_P(socket_bytes_test, an_inherited_socket_gets_it) {
  const auto first = listen("127.0.0.1:0");
  const auto second = inherit(::dup(first->native_handle()));
  limit(*second, {.unsent_max = 16 * 1024, .unread_max = 0});
  EXPECT_EQ(seen_by(*second), 16 * 1024);
}

}  // namespace
}  // namespace bwos::server

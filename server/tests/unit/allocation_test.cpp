// SPDX-License-Identifier: Apache-2.0
// Keep-alive requests allocate nothing once everything is warm: neither the parser nor the output,
// the coroutines, the deadlines or the counters.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bwos/pool.hpp>
#include <bwos/stream.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "counting_new.hpp"
#include "http1/connection.hpp"

namespace bwos::server {
namespace {

constexpr std::string_view get_request = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view post_request =
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: text/html\r\nContent-Length: 128\r\n\r\n"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr int connections = 32;
constexpr int requests = 100'000;

int connect_to(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

/// One request on each connection, then all answers.
void round(const std::array<int, connections>& clients, std::string_view request) {
  for (const int fd : clients)
    ASSERT_EQ(::send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::array<char, 1024> answer;
  for (const int fd : clients) {
    const ssize_t size = ::recv(fd, answer.data(), answer.size(), 0);
    ASSERT_GT(size, 100);
    ASSERT_TRUE(std::string_view(answer.data(), static_cast<std::size_t>(size))
                    .starts_with("HTTP/1.1 200 OK\r\n"));
  }
}

struct setting {
  reactor_kind reactor;
  unsigned group;
};

class allocation : public testing::TestWithParam<setting> {};

TEST_P(allocation, keep_alive_requests_allocate_nothing) {
  options chosen;
  chosen.workers = 2;
  chosen.reactor = GetParam().reactor;
  chosen.reactor_group = GetParam().group;
  chosen.queue_age_interval = queue_age_bound::interval(std::chrono::minutes(1));
  const service handlers;
  const http_limits limits;
  metrics::registry counters;
  route_times times(0);
  pool workers(chosen);
  if (workers.statistics().reactor != chosen.reactor)
    GTEST_SKIP() << workers.statistics().reactor_note;
  const queue_age_bound queue_age(workers, std::chrono::minutes(1));
  const http1::context shared{.workers = workers,
                              .handlers = handlers,
                              .metrics = counters,
                              .limits = limits,
                              .times = times,
                              .queue_age = queue_age};
  listener http(workers, "127.0.0.1:0", 128);
  http.start([&shared](stream peer) { return http1::serve(std::move(peer), shared); }, 1000);

  std::array<int, connections> clients{};
  for (int& fd : clients) fd = connect_to(http.address());
  for (int i = 0; i < 100; ++i) {
    round(clients, get_request);
    round(clients, post_request);
  }
  const std::uint64_t before = counting_new::allocations();
  for (int i = 0; i < requests / connections; ++i)
    round(clients, i % 2 == 0 ? get_request : post_request);
  EXPECT_EQ(counting_new::allocations() - before, 0U);

  for (const int fd : clients) ::close(fd);
  http.close();
  while (!http.closed() || http.connections() > 0) std::this_thread::yield();
  workers.join();
  const auto answered = counters.total().requests;
  EXPECT_EQ(answered[static_cast<std::size_t>(route::plaintext)][0] +
                answered[static_cast<std::size_t>(route::echo)][0],
            (static_cast<std::uint64_t>(requests / connections) + 200) * connections);
}

INSTANTIATE_TEST_SUITE_P(reactors, allocation,
                         testing::Values(setting{reactor_kind::epoll, 2},
                                         setting{reactor_kind::epoll, 1},
                                         setting{reactor_kind::io_uring, 1}),
                         [](const auto& instance) {
                           if (instance.param.reactor == reactor_kind::io_uring) return "io_uring";
                           return instance.param.group == 1 ? "epoll_private" : "epoll_shared";
                         });

}  // namespace
}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
// A server that goes without a drain, as where an exception takes it, under its connections.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "app/baselines.hpp"
#include "app/demo.hpp"
#include "tcp_client.hpp"

namespace bwos::server {
namespace {

class end_of_a_server : public testing::TestWithParam<executor_kind> {};

TEST_P(end_of_a_server, stops_the_workers_before_what_their_connections_refer_to) {
  config settings;
  settings.http_listen = "127.0.0.1:0";
  settings.grpc_listen = "";
  settings.workers = 2;
  settings.executor = GetParam();
  std::vector<std::thread> clients;
  std::atomic<int> answers{0};
  {
    const auto running = make_demo(settings);
    const std::string line = running->addresses();
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&answers, address = line.substr(line.find('=') + 1)] {
        test::tcp_client asks(address);
        // Ends with the server. These look at all that it counts, and have no body to be read.
        while (asks.send("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n")) {
          std::string head;
          while (!head.ends_with("\r\n\r\n")) {
            const std::string byte = asks.receive(1);
            if (byte.empty()) return;
            head += byte;
          }
          ++answers;
        }
      });
    }
    while (answers < 100) std::this_thread::yield();
  }
  for (std::thread& each : clients) each.join();
}

INSTANTIATE_TEST_SUITE_P(executors, end_of_a_server,
                         testing::Values(executor_kind::bwos, executor_kind::asio_pool,
                                         executor_kind::asio_io_context),
                         [](const auto& instance) {
                           std::string name(name_of(instance.param));
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#include "ops/exposition.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/counters.hpp"
#include "tests/ops/metrics_lines.hpp"

namespace bwos::server::metrics {
namespace {

const router& some_routes() {
  static const router routes(
      {{.path = "/plaintext", .answer = {}}, {.path = "/echo", .answer = {}}});
  return routes;
}

constexpr request_kinds few{.routes = 3, .statuses = status_count};

snapshot filled() {
  snapshot what;
  what.routes = &some_routes();
  what.http.requests.assign(3, std::vector<std::uint64_t>(status_count));
  what.http.requests[1][number_of(status::ok)] = 3;
  what.http.requests[2][number_of(status::not_found)] = 2;
  what.http.durations[0] = 1;
  what.http.durations[3] = 3;
  what.http.durations.back() = 1;
  what.http.duration_us_sum = 123456.5;
  what.http.received_bytes = 12345678901234567;
  what.http.timeouts[static_cast<std::size_t>(timeout::body)] = 4;
  what.http.shed = 8;
  what.queue_age = std::chrono::milliseconds(25);
  what.http_listens = true;
  what.connections = 6;
  what.made_room = 17;
  what.address_refused = 19;
  what.grpc = grpc_statistics{.started = 9, .ok = 7, .failed = 1, .cancelled = 1, .unserved = 0};
  what.http.grpc[static_cast<std::size_t>(grpc::sends)] = 11;
  what.http.grpc[static_cast<std::size_t>(grpc::read_batches)] = 12;
  what.grpc_connections = 13;
  what.grpc_refused = 14;
  what.grpc_made_room = 18;
  what.pool.emplace().workers.resize(3);
  what.pool->workers[2].steal_hit = 5;
  what.access_log = access_log_counts{.written = 15, .dropped = 16};
  what.executor = "bwos";
  what.reactor = reactor_kind::epoll;
  what.version = "1.2.3";
  return what;
}

TEST(text, is_what_prometheus_reads) {
  std::string text;
  write_text(text, filled());
  exposition read;
  EXPECT_EQ(read.read(text), std::nullopt) << text;
  EXPECT_EQ(read.value("bwos_http_requests_total{route=\"/echo\",status=\"200\"}"), 3);
  EXPECT_EQ(read.value("bwos_http_requests_total{route=\"other\",status=\"404\"}"), 2);
  EXPECT_EQ(read.value("bwos_http_requests_total{route=\"/plaintext\",status=\"200\"}"), 0);
  EXPECT_EQ(read.value("bwos_http_request_duration_seconds_bucket{le=\"1e-06\"}"), 1);
  EXPECT_EQ(read.value("bwos_http_request_duration_seconds_bucket{le=\"1e-05\"}"), 4);
  EXPECT_EQ(read.value("bwos_http_request_duration_seconds_count"), 5);
  EXPECT_DOUBLE_EQ(read.value("bwos_http_request_duration_seconds_sum"), 0.1234565);
  EXPECT_NE(text.find("bwos_http_received_bytes_total 12345678901234567\n"), std::string::npos);
  EXPECT_EQ(read.value("bwos_http_timeouts_total{kind=\"body\"}"), 4);
  EXPECT_EQ(read.value("bwos_http_shed_total"), 8);
  EXPECT_EQ(read.value("bwos_access_log_lines_total{result=\"written\"}"), 15);
  EXPECT_EQ(read.value("bwos_access_log_lines_total{result=\"dropped\"}"), 16);
  EXPECT_DOUBLE_EQ(read.value("bwos_queue_age_seconds"), 0.025);
  EXPECT_EQ(read.value("bwos_http_connections"), 6);
  EXPECT_EQ(read.value("bwos_grpc_ended_total{result=\"ok\"}"), 7);
  EXPECT_EQ(read.value("bwos_grpc_sends_total"), 11);
  EXPECT_EQ(read.value("bwos_grpc_read_batches_total"), 12);
  EXPECT_EQ(read.value("bwos_grpc_connections"), 13);
  EXPECT_EQ(read.value("bwos_grpc_refused_total"), 14);
  EXPECT_EQ(read.value("bwos_http_made_room_total"), 17);
  EXPECT_EQ(read.value("bwos_grpc_made_room_total"), 18);
  EXPECT_EQ(read.value("bwos_connections_per_address_refused_total"), 19);
  EXPECT_EQ(read.value("bwos_pool_steal_hit_total{worker=\"2\"}"), 5);
  EXPECT_EQ(read.value("bwos_build_info{version=\"1.2.3\",executor=\"bwos\",reactor=\"epoll\"}"),
            1);
}

TEST(text, has_every_counter_of_the_pool_for_every_worker) {
  std::string text;
  write_text(text, filled());
  exposition read;
  ASSERT_EQ(read.read(text), std::nullopt);
#define BWOS_EXPECT(name, meaning)                                                                 \
  EXPECT_EQ(read.types().at("bwos_pool_" #name "_total"), "counter");                              \
  for (const char* worker : {"0", "1", "2"}) {                                                     \
    EXPECT_GE(read.value(std::string("bwos_pool_" #name "_total{worker=\"") + worker + "\"}"), 0); \
  }
  BWOS_WORKER_COUNTERS(BWOS_EXPECT)
#undef BWOS_EXPECT
}

TEST(text, reader_of_this_test_refuses_what_is_wrong) {
  const std::vector<std::string> wrong{
      "",
      "# HELP a_total b\n# TYPE a_total counter\na_total 1",
      "# HELP a_total b\n# TYPE a_total counter\n",
      "# TYPE a_total counter\na_total 1\n",
      "# HELP a b\n# TYPE a counter\na 1\n",
      "# HELP a_total b\n# TYPE a_total counter\na_total 1\na_total 2\n",
      "# HELP a_total b\n# TYPE a_total counter\nb_total 1\n",
      "# HELP a b\n# TYPE a gauge\na{x=1} 1\n",
      "# HELP a b\n# TYPE a gauge\na 1 \n",
      "# HELP a b\n# TYPE a gauge\na nan\n",
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_count 1\n",
      "# HELP a b\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 1\n",
  };
  for (const std::string& text : wrong) EXPECT_NE(exposition().read(text), std::nullopt) << text;
}

TEST(registry, sums_over_threads_and_keeps_those_that_ended) {
  registry all(few);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&all] {
      for (int j = 0; j < 1000; ++j) {
        all.here().request(0, number_of(status::ok));
        all.here().answered(1, 1);
        all.here().received(10);
        all.here().sent(20);
        all.here().timed_out(timeout::idle);
      }
    });
  }
  for (int i = 0; i < 100; ++i) (void)all.total();  // a reader beside the writers
  for (auto& one : threads) one.join();
  const totals sum = all.total();
  EXPECT_EQ(sum.requests[0][number_of(status::ok)], 4000U);
  EXPECT_EQ(sum.durations[0], 4000U);
  EXPECT_EQ(sum.received_bytes, 40'000U);
  EXPECT_EQ(sum.sent_bytes, 80'000U);
  EXPECT_EQ(sum.timeouts[static_cast<std::size_t>(timeout::idle)], 4000U);
}

TEST(registry, tells_two_registries_apart_on_one_thread) {
  registry first(few);
  registry second(few);
  for (int i = 0; i < 3; ++i) {
    first.here().received(1);
    second.here().received(100);
  }
  EXPECT_EQ(first.total().received_bytes, 3U);
  EXPECT_EQ(second.total().received_bytes, 300U);
}

TEST(registry, puts_durations_into_the_buckets_of_their_microseconds) {
  registry all(few);
  const ticks per_ms = all.ticks_per_ms();
  all.here().request(1, number_of(status::ok));
  all.here().answered(1, per_ms * 3 / 2000);  // 1.5 us
  all.here().request(1, number_of(status::ok));
  all.here().answered(1, per_ms * 150 / 1000);
  all.here().request(1, number_of(status::ok));
  all.here().answered(1, per_ms * 1000);
  const totals sum = all.total();
  EXPECT_EQ(sum.durations[1], 1U);      // up to 2
  EXPECT_EQ(sum.durations[7], 1U);      // up to 200
  EXPECT_EQ(sum.durations.back(), 1U);  // above 100,000
  EXPECT_NEAR(sum.duration_us_sum, 1'000'151.5, 100);
}

}  // namespace
}  // namespace bwos::server::metrics

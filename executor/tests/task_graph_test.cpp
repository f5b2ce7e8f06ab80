// SPDX-License-Identifier: Apache-2.0
#include <bwos/task_graph.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <bwos/parallel.hpp>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/random.hpp"
#include "pool_fixture.hpp"

namespace bwos::testing {
namespace {

class task_graph_on : public ::testing::TestWithParam<unsigned> {
 protected:
  pool pool_{options_of(on_futexes, GetParam())};
};
INSTANTIATE_TEST_SUITE_P(workers, task_graph_on, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(task_graph_on, each_begins_when_its_last_predecessor_has_ended) {
  random_source random(7);
  for (int round = 0; round < 20; ++round) {
    const unsigned count = 1 + random.below(300);
    task_graph graph;
    std::vector<std::atomic<bool>> ended(count);
    std::vector<std::vector<unsigned>> before(count);
    std::atomic<unsigned> runs{0};
    for (unsigned i = 0; i < count; ++i) {
      graph.add([&, i] {
        for (const unsigned earlier : before[i]) EXPECT_TRUE(ended[earlier].load());
        runs.fetch_add(1);
        ended[i] = true;
      });
      for (unsigned j = 0; i != 0 && j < random.below(5); ++j) {
        before[i].push_back(random.below(i));
        graph.precede(task_graph::node{before[i].back()}, task_graph::node{i});
      }
    }
    for (int again = 0; again < 3; ++again) {
      for (auto& each : ended) each = false;
      runs = 0;
      graph.run(pool_);
      ASSERT_EQ(runs.load(), count);
    }
  }
}

TEST_P(task_graph_on, an_empty_one_ends_at_once) {
  task_graph().run(pool_);
}

TEST_P(task_graph_on, a_cycle_is_refused_and_nothing_runs) {
  int runs = 0;
  task_graph graph;
  const auto first = graph.add([&] { ++runs; });
  const auto second = graph.add([&] { ++runs; });
  const auto third = graph.add([&] { ++runs; });
  graph.precede(first, second);
  graph.precede(second, third);
  graph.precede(third, second);
  ASSERT_THROW(graph.run(pool_), std::invalid_argument);
  ASSERT_EQ(runs, 0);
  ASSERT_THROW(graph.precede(first, task_graph::node{3}), std::out_of_range);
}

TEST_P(task_graph_on, what_follows_a_failure_does_not_begin) {
  int after = 0;
  std::atomic<int> beside{0};
  task_graph graph;
  const auto fails = graph.add([] { throw std::logic_error("thrown"); });
  const auto never = graph.add([&] { ++after; });
  const auto nor = graph.add([&] { ++after; });
  graph.precede(fails, never);
  graph.precede(never, nor);
  for (int i = 0; i < 50; ++i) {
    const auto one = graph.add([&] { beside.fetch_add(1); });
    graph.precede(one, graph.add([&] { beside.fetch_add(1); }));
  }
  ASSERT_THROW(graph.run(pool_), std::logic_error);
  ASSERT_EQ(after, 0);
  ASSERT_EQ(beside.load(), 100);
}

TEST_P(task_graph_on, a_failure_of_any_task_is_thrown_and_stops_only_what_follows) {
  constexpr int count = 10;
  int failing = 0;
  std::atomic<int> in_chain{0};
  std::atomic<int> beside{0};
  task_graph graph;
  task_graph::node before{};
  for (int i = 0; i < count; ++i) {
    const auto link = graph.add([&, i] {
      if (i == failing) throw std::logic_error("thrown");
      in_chain.fetch_add(1);
    });
    graph.add([&] { beside.fetch_add(1); });
    if (i != 0) graph.precede(before, link);
    before = link;
  }
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    failing = round % count;
    in_chain = beside = 0;
    ASSERT_THROW(graph.run(pool_), std::logic_error);
    ASSERT_EQ(in_chain.load(), failing);
    ASSERT_EQ(beside.load(), count);
  }
}

TEST_P(task_graph_on, a_long_chain_needs_no_stack) {
  options how = options_of(on_futexes, GetParam());
  how.wait_depth = 1;  // so that what it forks it calls
  pool shallow(how);
  constexpr int count = 200'000 / sanitizer_divisor;
  int ran = 0;
  task_graph graph;
  task_graph::node before = graph.add([&] { ++ran; });
  for (int i = 1; i < count; ++i) {
    const auto link = graph.add([&] { ++ran; });
    graph.precede(before, link);
    before = link;
  }
  parallel_for(shallow, 0, 1, [&](int) { graph.run(shallow); });
  ASSERT_EQ(ran, count);
}

}  // namespace
}  // namespace bwos::testing

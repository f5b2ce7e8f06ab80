// SPDX-License-Identifier: Apache-2.0
// Every member and Asio feature that bwos::thread_pool promises, run on asio::thread_pool and on
// ours: what passes on the first is what Asio means.
#include <gtest/gtest.h>

#include <array>
#include <asio/experimental/awaitable_operators.hpp>
#include <barrier>
#include <bwos/asio.hpp>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "asio_support.hpp"

namespace {

using namespace asio_support;
namespace execution = asio::execution;
using asio::ip::tcp;

template <class Pool>
class asio_pool : public testing::Test {};
template <class Pool>
class asio_pool_death : public testing::Test {};

struct pool_names {
  template <class Pool>
  static std::string GetName(int) {
    return std::is_same_v<Pool, bwos::thread_pool> ? "bwos" : "asio";
  }
};
using pools = testing::Types<asio::thread_pool, bwos::thread_pool>;
TYPED_TEST_SUITE(asio_pool, pools, pool_names);
TYPED_TEST_SUITE(asio_pool_death, pools, pool_names);

// Construction, threads, end. ------------------------------------------------------------------

TYPED_TEST(asio_pool, default_constructor_makes_threads_that_run_handlers) {
  TypeParam pool;
  EXPECT_GE(asio::query(pool.executor(), execution::occupancy), 1U);
  EXPECT_NE(on(pool, [] { return std::this_thread::get_id(); }), std::this_thread::get_id());
  pool.join();
}

TYPED_TEST(asio_pool, as_many_handlers_run_at_once_as_threads_were_asked_for) {
  for (const std::size_t threads : {1U, 2U, 8U}) {
    TypeParam pool(threads);
    EXPECT_EQ(asio::query(pool.executor(), execution::occupancy), threads);
    std::barrier all_here(static_cast<std::ptrdiff_t>(threads));
    std::atomic<std::size_t> met = 0;
    for (std::size_t i = 0; i < threads; ++i) {
      asio::post(pool, [&] {
        all_here.arrive_and_wait();  // returns only once all of them run
        ++met;
      });
    }
    pool.join();
    EXPECT_EQ(met, threads);
  }
}

TYPED_TEST(asio_pool, too_many_threads_are_out_of_range) {
  EXPECT_THROW(TypeParam(~std::size_t{0}), std::out_of_range);
}

TYPED_TEST(asio_pool, a_pool_of_no_threads_works_through_attach) {
  TypeParam pool(0);
  std::atomic<int> ran = 0;
  std::atomic<bool> left = false;
  asio::post(pool, [&] { ++ran; });
  pool.join();  // nobody to wait for
  EXPECT_EQ(ran, 0);
  std::thread attached([&] {
    pool.attach();
    left = true;
  });
  EXPECT_TRUE(eventually([&] { return ran == 1; }));
  EXPECT_FALSE(left);
  EXPECT_EQ(asio::query(pool.executor(), execution::occupancy), 1U);
  asio::post(pool, [&] { asio::post(pool, [&] { ++ran; }); });
  pool.wait();
  attached.join();
  EXPECT_EQ(ran, 2);
}

TYPED_TEST(asio_pool, an_attached_thread_is_one_of_the_pool_until_stop) {
  TypeParam pool(1);
  std::thread attached([&] { pool.attach(); });
  const std::thread::id self = attached.get_id();
  std::atomic<bool> ran_there = false;
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 2; ++i) {
      asio::post(pool, [&] {
        EXPECT_TRUE(pool.get_executor().running_in_this_thread());
        if (std::this_thread::get_id() == self) ran_there = true;
        std::this_thread::sleep_for(1ms);
      });
    }
    return ran_there.load();
  }));
  pool.stop();
  attached.join();
  pool.attach();  // a stopped pool lets go at once
  pool.join();
}

TYPED_TEST(asio_pool, join_waits_for_all_that_handlers_post) {
  TypeParam pool(2);
  std::atomic<int> ran = 0;
  std::function<void(int)> tree = [&](int depth) {
    ++ran;
    if (depth == 0) return;
    for (int i = 0; i < 2; ++i) asio::post(pool, [&tree, depth] { tree(depth - 1); });
  };
  asio::post(pool, [&] { tree(12); });
  pool.join();
  EXPECT_EQ(ran, (1 << 13) - 1);
  pool.join();  // again: nothing to wait for
}

TYPED_TEST(asio_pool, wait_waits_for_all_that_handlers_post) {
  TypeParam pool(2);
  std::atomic<int> ran = 0;
  std::function<void(int)> chain = [&](int left) {
    ++ran;
    if (left != 0) asio::post(pool, [&chain, left] { chain(left - 1); });
  };
  asio::post(pool, [&] { chain(999); });
  pool.wait();
  EXPECT_EQ(ran, 1000);
}

TYPED_TEST(asio_pool, stop_from_a_handler_abandons_the_rest_and_the_end_destroys_it) {
  std::atomic<int> ran = 0;
  std::atomic<int> ended = 0;
  {
    TypeParam pool(1);
    asio::post(pool, [&] {
      for (int i = 0; i < 100; ++i) asio::post(pool, [&, end = counts_its_end(ended)] { ++ran; });
      pool.stop();
    });
    pool.join();
    asio::post(pool, [&, end = counts_its_end(ended)] { ++ran; });
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(ended, 101);
}

TYPED_TEST(asio_pool, a_handler_that_never_ran_may_post_when_it_is_destroyed) {
  std::atomic<int> ran = 0;
  std::atomic<int> ended = 0;
  {
    TypeParam pool(0);
    struct posts_at_its_end {
      void operator()() const {}
      std::shared_ptr<void> at_end;
    };
    asio::post(pool, posts_at_its_end{.at_end = std::shared_ptr<void>(nullptr, [&](void*) {
                                        asio::dispatch(pool,
                                                       [&, end = counts_its_end(ended)] { ++ran; });
                                      })});
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(ended, 1);
}

TYPED_TEST(asio_pool, services_are_found_added_and_shut_down_before_queued_handlers_go) {
  noting_service::notes notes;
  bool down_first = false;
  bool still_there = false;
  {
    TypeParam pool(0);
    EXPECT_FALSE(asio::has_service<noting_service>(pool));
    auto& made = asio::make_service<noting_service>(pool, &notes);
    EXPECT_TRUE(asio::has_service<noting_service>(pool));
    EXPECT_EQ(&asio::use_service<noting_service>(pool), &made);
    EXPECT_THROW(asio::make_service<noting_service>(pool), asio::service_already_exists);
    pool.notify_fork(asio::execution_context::fork_prepare);
    pool.notify_fork(asio::execution_context::fork_parent);
    std::shared_ptr<void> looks(nullptr, [&](void*) {
      down_first = notes.shut_down;
      still_there = !notes.destroyed;
    });
    asio::post(pool, [looks = std::move(looks)] {});
  }
  EXPECT_TRUE(down_first);
  EXPECT_TRUE(still_there);
  EXPECT_TRUE(notes.destroyed);
}

TYPED_TEST(asio_pool, what_is_posted_after_the_join_is_never_called_and_goes_with_the_pool) {
  std::atomic<int> ran = 0;
  std::atomic<int> ended = 0;
  {
    TypeParam pool(2);
    pool.join();
    asio::post(pool, [&, end = counts_its_end(ended)] { ++ran; });
    pool.join();
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(ended, 1);
}

// post, dispatch, defer, execute. --------------------------------------------------------------

TYPED_TEST(asio_pool, post_and_defer_never_call_in_place_and_dispatch_does_so_inside) {
  TypeParam pool(1);
  const auto executor = pool.get_executor();
  std::vector<std::string> order;
  const auto note = [&order](const char* what) {
    return [&order, what] { order.push_back(what); };
  };
  on(pool, [&] {
    asio::post(pool, note("post"));
    asio::post(executor, note("post"));
    asio::post(asio::bind_executor(executor, note("post")));
    asio::dispatch(pool, note("dispatch"));
    asio::dispatch(executor, note("dispatch"));
    asio::dispatch(asio::bind_executor(executor, note("dispatch")));
    asio::defer(pool, note("defer"));
    asio::defer(executor, note("defer"));
    asio::defer(asio::bind_executor(executor, note("defer")));
    order.push_back("end");
  });
  pool.join();
  ASSERT_EQ(order.size(), 10U);
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 4),
            (std::vector<std::string>{"dispatch", "dispatch", "dispatch", "end"}));
  EXPECT_EQ(std::multiset(order.begin() + 4, order.end()),
            (std::multiset<std::string>{"defer", "defer", "defer", "post", "post", "post"}));
}

TYPED_TEST(asio_pool, from_outside_everything_runs_on_the_pool) {
  TypeParam pool(2);
  std::atomic<int> inside = 0;
  const auto check = [&] { inside += pool.get_executor().running_in_this_thread() ? 1 : 0; };
  EXPECT_FALSE(pool.get_executor().running_in_this_thread());
  asio::post(pool, check);
  asio::dispatch(pool, check);
  asio::defer(pool, check);
  asio::post(pool.executor(), check);
  asio::dispatch(pool.executor(), check);
  asio::defer(pool.executor(), check);
  execution::execute(pool.executor(), check);
  pool.join();
  EXPECT_EQ(inside, 7);
}

TYPED_TEST(asio_pool, one_thread_runs_what_it_posts_to_itself_in_order) {
  TypeParam pool(1);
  std::vector<int> order;
  asio::post(pool, [&] {
    for (int i = 0; i < 1000; ++i) asio::post(pool, [&order, i] { order.push_back(i); });
  });
  pool.join();
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TYPED_TEST(asio_pool, ts_members_post_dispatch_defer_and_count_work) {
  TypeParam pool(1);
  const auto executor = pool.get_executor();
  EXPECT_EQ(&executor.context(), &pool);
  std::vector<std::string> order;
  const std::allocator<void> allocator;
  executor.on_work_started();
  std::thread waits([&] { pool.join(); });
  on(pool, [&] {
    executor.post([&] { order.push_back("post"); }, allocator);
    executor.defer([&] { order.push_back("defer"); }, allocator);
    executor.dispatch([&] { order.push_back("dispatch"); }, allocator);
    EXPECT_THROW(executor.dispatch([] { throw std::runtime_error("seen"); }, allocator),
                 std::runtime_error);
    order.push_back("end");
  });
  executor.dispatch([&, executor] { executor.on_work_finished(); }, allocator);
  waits.join();
  EXPECT_EQ(order[0], "dispatch");
  EXPECT_EQ(order[1], "end");
  EXPECT_EQ(order.size(), 4U);
}

TYPED_TEST(asio_pool, execute_obeys_blocking) {
  TypeParam pool(1);
  const auto never = asio::require(pool.executor(), execution::blocking.never);
  const auto possibly = asio::require(never, execution::blocking.possibly);
  const auto always = asio::require(pool.executor(), execution::blocking.always);
  bool ran = false;
  execution::execute(always, [&] {
    std::this_thread::sleep_for(10ms);
    ran = pool.executor().running_in_this_thread();
  });
  EXPECT_TRUE(ran);  // it waited
  const auto constant = [&ran] { ran = false; };
  execution::execute(always, constant);
  EXPECT_FALSE(ran);
  std::vector<std::string> order;
  on(pool, [&] {
    execution::execute(never, [&] { order.push_back("never"); });
    execution::execute(possibly, [&] { order.push_back("possibly"); });
    execution::execute(always, [&] { order.push_back("always"); });
  });
  pool.join();
  EXPECT_EQ(order, (std::vector<std::string>{"possibly", "always", "never"}));
}

TYPED_TEST(asio_pool, execute_works_with_every_combination_of_properties) {
  TypeParam pool(2);
  std::atomic<int> ran = 0;
  const auto count = [&ran] { ++ran; };
  const auto each_work = [&](auto executor) {
    execution::execute(asio::require(executor, execution::outstanding_work.tracked), count);
    execution::execute(asio::require(executor, execution::outstanding_work.untracked), count);
    execution::execute(asio::require(executor, execution::allocator(std::allocator<void>())),
                       count);
  };
  const auto each_relationship = [&](auto executor) {
    each_work(asio::require(executor, execution::relationship.fork));
    each_work(asio::require(executor, execution::relationship.continuation));
    each_work(asio::prefer(executor, execution::relationship.continuation));
  };
  each_relationship(asio::require(pool.executor(), execution::blocking.possibly));
  each_relationship(asio::require(pool.executor(), execution::blocking.never));
  each_relationship(asio::require(pool.executor(), execution::blocking.always));
  pool.join();
  EXPECT_EQ(ran, 27);
}

TYPED_TEST(asio_pool, handlers_may_be_move_only_big_overaligned_or_futures) {
  TypeParam pool(2);
  std::atomic<int> ran = 0;
  asio::post(pool, [&ran, owned = std::make_unique<int>(1)] { ran += *owned; });
  std::array<int, 4096> big{};
  big.back() = 1;
  asio::post(pool, [&ran, big] { ran += big.back(); });
  struct alignas(128) aligned_part {
    int one = 1;
  };
  asio::post(pool, [&ran, part = aligned_part()] {
    ran += reinterpret_cast<std::uintptr_t>(&part) % 128 == 0 ? part.one : 0;
  });
  const auto constant = [&ran] { ++ran; };
  asio::post(pool, constant);
  asio::post(pool, asio::use_future).get();
  EXPECT_EQ(asio::post(pool, std::packaged_task<int()>([] { return 7; })).get(), 7);
  EXPECT_THROW(
      asio::post(pool, asio::use_future([]() -> int { throw std::runtime_error("x"); })).get(),
      std::runtime_error);
  pool.join();
  EXPECT_EQ(ran, 4);
}

// Executors and their properties. --------------------------------------------------------------

TYPED_TEST(asio_pool, executors_compare_copy_move_and_assign) {
  TypeParam pool(1);
  TypeParam other(1);
  auto executor = pool.get_executor();
  EXPECT_TRUE(executor == pool.executor());
  EXPECT_TRUE(executor != other.executor());
  EXPECT_TRUE(executor != asio::require(executor, execution::blocking.never));
  auto copy = executor;
  copy = other.executor();
  EXPECT_TRUE(copy == other.get_executor());
  copy = std::move(executor);
  EXPECT_TRUE(copy == pool.get_executor());
  EXPECT_EQ(&asio::query(copy, execution::context), &pool);
  static_assert(std::is_same_v<decltype(copy), typename TypeParam::executor_type>);
  static_assert(asio::execution::is_executor<typename TypeParam::executor_type>::value);
  static_assert(!asio::execution::is_executor<TypeParam>::value);
  static_assert(asio::is_executor<typename TypeParam::executor_type>::value);
  static_assert(!std::is_copy_constructible_v<TypeParam> &&
                !std::is_move_constructible_v<TypeParam>);
}

TYPED_TEST(asio_pool, require_sets_what_query_tells) {
  TypeParam pool(1);
  const auto executor = pool.executor();
  const auto check = [&](auto property, auto value, auto kind) {
    const auto required = asio::require(executor, value);
    EXPECT_TRUE(asio::query(required, property) == kind);
    if constexpr (decltype(value)::is_preferable) {  // blocking.always is not
      EXPECT_TRUE(asio::query(asio::prefer(executor, value), property) == kind);
    }
    EXPECT_EQ(&asio::query(required, execution::context), &pool);
  };
  const execution::blocking_t blocking;
  check(blocking, execution::blocking.possibly, execution::blocking_t(blocking.possibly));
  check(blocking, execution::blocking.always, execution::blocking_t(blocking.always));
  check(blocking, execution::blocking.never, execution::blocking_t(blocking.never));
  const execution::relationship_t relationship;
  check(relationship, relationship.fork, execution::relationship_t(relationship.fork));
  check(relationship, relationship.continuation,
        execution::relationship_t(relationship.continuation));
  const execution::outstanding_work_t work;
  check(work, work.tracked, execution::outstanding_work_t(work.tracked));
  check(work, work.untracked, execution::outstanding_work_t(work.untracked));
  // Undoing one leaves the others alone.
  const auto all =
      asio::require(executor, blocking.always, relationship.continuation, work.tracked);
  const auto back = asio::require(all, blocking.possibly, work.untracked);
  EXPECT_TRUE(asio::query(back, blocking) == execution::blocking_t(blocking.possibly));
  EXPECT_TRUE(asio::query(back, relationship) ==
              execution::relationship_t(relationship.continuation));
  EXPECT_TRUE(asio::query(back, work) == execution::outstanding_work_t(work.untracked));
  EXPECT_TRUE(asio::require(back, relationship.fork) == executor);
}

TYPED_TEST(asio_pool, some_queries_are_answered_by_the_type_alone) {
  using plain = typename TypeParam::executor_type;
  using tracked = std::decay_t<decltype(asio::require(std::declval<plain>(),
                                                      execution::outstanding_work.tracked))>;
  static_assert(execution::mapping_t::static_query<plain>() ==
                execution::mapping_t(execution::mapping.thread));
  static_assert(execution::outstanding_work_t::static_query<plain>() ==
                execution::outstanding_work_t(execution::outstanding_work.untracked));
  static_assert(execution::outstanding_work_t::static_query<tracked>() ==
                execution::outstanding_work_t(execution::outstanding_work.tracked));
  TypeParam pool(1);
  EXPECT_TRUE(asio::query(pool.executor(), execution::mapping) ==
              execution::mapping_t(execution::mapping.thread));
  EXPECT_EQ(asio::query(pool.executor(), execution::allocator), std::allocator<void>());
}

TYPED_TEST(asio_pool, any_io_executor_holds_and_runs_it) {
  TypeParam pool(2);
  asio::any_io_executor any = pool.get_executor();
  EXPECT_EQ(&asio::query(any, execution::context), &pool);
  EXPECT_NE(any.target<typename TypeParam::executor_type>(), nullptr);
  EXPECT_TRUE(any == asio::any_io_executor(pool.executor()));
  std::atomic<int> ran = 0;
  asio::post(any, [&] { ++ran; });
  asio::defer(asio::prefer(any, execution::relationship.continuation), [&] { ++ran; });
  asio::dispatch(asio::require(any, execution::blocking.never),
                 [any, &ran] { asio::dispatch(any, [&ran] { ++ran; }); });
  execution::execute(asio::prefer(any, execution::outstanding_work.tracked), [&] { ++ran; });
  const execution::any_executor<execution::blocking_t::always_t> always =
      asio::require(pool.executor(), execution::blocking.always);
  bool waited = false;
  execution::execute(always, [&] { waited = true; });
  EXPECT_TRUE(waited);
  any = asio::any_io_executor();
  pool.join();
  EXPECT_EQ(ran, 4);
}

TYPED_TEST(asio_pool, allocators_are_used_and_freed_before_the_call) {
  allocation_counts counts;
  const counting_allocator<char> allocator(counts);
  std::atomic<int> free_when_called = 0;
  const auto look = [&] { free_when_called += counts.live_bytes == 0 ? 1 : 0; };
  TypeParam pool(1);
  const auto executor = pool.executor();
  const auto one = [&](auto initiate) {
    const std::size_t before = counts.allocated;
    initiate();
    on(pool, [] {});
    EXPECT_EQ(counts.allocated, before + 1);
    EXPECT_EQ(counts.freed, counts.allocated);
    EXPECT_EQ(counts.live_bytes, 0);
  };
  one([&] { asio::post(pool, allocating_handler{allocator, look}); });
  one([&] { asio::defer(pool, asio::bind_allocator(allocator, look)); });
  one([&] { asio::dispatch(pool, allocating_handler{allocator, look}); });
  one([&] { executor.post(look, allocator); });
  one([&] { executor.defer(look, allocator); });
  one([&] { executor.dispatch(look, allocator); });
  const auto allocating = asio::require(executor, execution::allocator(allocator));
  EXPECT_TRUE(asio::query(allocating, execution::allocator) == allocator);
  one([&] { execution::execute(allocating, look); });
  const std::size_t before = counts.allocated;
  execution::execute(asio::require(allocating, execution::allocator), look);  // the default again
  pool.join();
  EXPECT_EQ(counts.allocated, before);
  EXPECT_EQ(free_when_called, 8);
}

TYPED_TEST(asio_pool, a_post_that_throws_queues_nothing_and_loses_no_memory) {
  allocation_counts counts;
  const counting_allocator<char> allocator(counts);
  TypeParam pool(1);
  const throws_when_copied handler;
  EXPECT_THROW(pool.executor().post(handler, allocator), std::runtime_error);
  EXPECT_EQ(counts.live_bytes, 0);
  EXPECT_EQ(counts.freed, counts.allocated);
  counts.refuse = true;
  EXPECT_THROW(pool.executor().post([] {}, allocator), std::bad_alloc);
  pool.join();
}

TYPED_TEST(asio_pool, handlers_dropped_at_the_end_are_freed_by_their_allocator) {
  allocation_counts counts;
  {
    TypeParam pool(0);
    for (int i = 0; i < 10; ++i) {
      asio::post(pool, asio::bind_allocator(counting_allocator<char>(counts), [] {}));
    }
    EXPECT_EQ(counts.freed, 0U);
  }
  EXPECT_EQ(counts.allocated, 10U);
  EXPECT_EQ(counts.freed, 10U);
  EXPECT_EQ(counts.live_bytes, 0);
}

TYPED_TEST(asio_pool, work_guard_and_tracked_executors_keep_join_waiting) {
  TypeParam pool(2);
  std::atomic<bool> joined = false;
  auto guard = asio::make_work_guard(pool);
  auto tracked = asio::require(pool.executor(), execution::outstanding_work.tracked);
  {
    auto copy = tracked;  // each copy counts, a moved-from one does not
    auto moved = std::move(copy);
    copy = moved;
    moved = std::move(copy);
  }
  std::thread waits([&] {
    pool.join();
    joined = true;
  });
  const auto still_waiting = [&] {
    on(pool, [] {});
    std::this_thread::sleep_for(20ms);
    return !joined;
  };
  EXPECT_TRUE(still_waiting());
  guard.reset();
  EXPECT_TRUE(still_waiting());
  asio::post(pool, [last = std::move(tracked)] {});
  waits.join();
  EXPECT_TRUE(joined);
}

// Strands, coroutines. -------------------------------------------------------------------------

TYPED_TEST(asio_pool, a_strand_runs_one_at_a_time_in_the_order_of_each_poster) {
  TypeParam pool(8);
  const auto strand = asio::make_strand(pool);
  const asio::strand<asio::any_io_executor> outer(pool.get_executor());
  constexpr int posters = 4;
  constexpr int each = 2000;
  std::array<int, posters> last{};
  int total = 0;  // plain: only the strand keeps it
  int outer_total = 0;
  std::vector<std::thread> threads;
  for (int poster = 0; poster < posters; ++poster) {
    threads.emplace_back([&, poster] {
      for (int i = 1; i <= each; ++i) {
        asio::post(strand, [&, poster, i] {
          EXPECT_TRUE(strand.running_in_this_thread());
          EXPECT_EQ(last[static_cast<std::size_t>(poster)], i - 1);
          last[static_cast<std::size_t>(poster)] = i;
          ++total;
          asio::dispatch(strand, [&] { ++total; });
        });
        asio::post(pool, asio::bind_executor(outer, [&] { ++outer_total; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pool.join();
  EXPECT_EQ(total, 2 * posters * each);
  EXPECT_EQ(outer_total, posters * each);
}

asio::awaitable<int> sum_of_hops(int hops) {
  int sum = 0;
  for (int i = 0; i < hops; ++i) {
    co_await asio::post(asio::use_awaitable);
    sum += i;
  }
  co_return sum;
}

TYPED_TEST(asio_pool, coroutines_run_with_each_completion_token) {
  TypeParam pool(4);
  std::atomic<int> finished = 0;
  std::vector<std::future<int>> futures;
  for (int i = 0; i < 100; ++i) {
    asio::co_spawn(
        pool,
        [&]() -> asio::awaitable<void> {
          EXPECT_TRUE(pool.get_executor().running_in_this_thread());
          finished += co_await sum_of_hops(10) == 45 ? 1 : 0;
          const auto executor = co_await asio::this_coro::executor;
          finished += co_await asio::co_spawn(executor, sum_of_hops(3), asio::use_awaitable) == 3;
        },
        asio::detached);
    futures.push_back(asio::co_spawn(pool.get_executor(), sum_of_hops(10), asio::use_future));
  }
  for (auto& future : futures) EXPECT_EQ(future.get(), 45);
  const auto fails = []() -> asio::awaitable<int> {
    co_await asio::post(asio::use_awaitable);
    throw std::runtime_error("from a coroutine");
  };
  EXPECT_THROW(asio::co_spawn(pool, fails, asio::use_future).get(), std::runtime_error);
  asio::co_spawn(asio::make_strand(pool), fails, [&](const std::exception_ptr& error, int) {
    finished += error != nullptr ? 1 : 0;
  });
  pool.join();
  EXPECT_EQ(finished, 201);
}

TYPED_TEST(asio_pool, suspended_coroutines_are_destroyed_with_their_pool) {
  std::atomic<int> ended = 0;
  {
    TypeParam pool(2);
    const auto waits = [&]() -> asio::awaitable<void> {
      const counts_its_end end(ended);
      asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
      co_await timer.async_wait(asio::use_awaitable);
    };
    for (int i = 0; i < 10; ++i) asio::co_spawn(pool, waits, asio::detached);
    on(pool, [] {});
    pool.stop();
  }
  EXPECT_LE(ended, 10);  // those that had begun; LeakSanitizer sees the rest
}

// Asio's timers, sockets, cancellation. --------------------------------------------------------

template <class Timer, class Pool>
void timer_fires_and_is_cancelled_on(Pool& pool) {
  Timer soon(pool, 1ms);
  Timer late(pool.get_executor(), 1h);
  std::atomic<int> fired = 0;
  std::atomic<int> cancelled = 0;
  late.async_wait([&](asio::error_code error) {
    cancelled += error == asio::error::operation_aborted ? 1 : 0;
    EXPECT_TRUE(pool.get_executor().running_in_this_thread());
  });
  soon.async_wait([&](asio::error_code error) {
    fired += !error && pool.get_executor().running_in_this_thread() ? 1 : 0;
    EXPECT_EQ(late.cancel(), 1U);
  });
  pool.join();  // a pending wait is work
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(cancelled, 1);
}

TYPED_TEST(asio_pool, steady_timer_fires_and_is_cancelled) {
  TypeParam pool(2);
  timer_fires_and_is_cancelled_on<asio::steady_timer>(pool);
}
TYPED_TEST(asio_pool, system_timer_fires_and_is_cancelled) {
  TypeParam pool(2);
  timer_fires_and_is_cancelled_on<asio::system_timer>(pool);
}

TYPED_TEST(asio_pool, cancellation_slots_and_awaitable_operators_work) {
  using namespace asio::experimental::awaitable_operators;
  TypeParam pool(2);
  asio::steady_timer timer(pool, 1h);
  asio::cancellation_signal signal;
  std::promise<asio::error_code> result;
  timer.async_wait(asio::bind_cancellation_slot(
      signal.slot(), [&](asio::error_code error) { result.set_value(error); }));
  signal.emit(asio::cancellation_type::all);
  EXPECT_EQ(result.get_future().get(), asio::error::operation_aborted);
  const auto race = []() -> asio::awaitable<std::size_t> {
    asio::steady_timer slow(co_await asio::this_coro::executor, 1h);
    asio::steady_timer fast(co_await asio::this_coro::executor, 1ms);
    const auto winner =
        co_await (slow.async_wait(asio::use_awaitable) || fast.async_wait(asio::use_awaitable));
    co_return winner.index();
  };
  // The operators want their branches one at a time.
  EXPECT_EQ(asio::co_spawn(asio::make_strand(pool), race, asio::use_future).get(), 1U);
  pool.join();
}

TYPED_TEST(asio_pool, the_end_destroys_pending_waits_and_timers_that_handlers_own) {
  std::atomic<int> ran = 0;
  std::atomic<int> ended = 0;
  {
    TypeParam pool(1);
    const auto timer = std::make_shared<asio::steady_timer>(pool, 1h);
    timer->async_wait([&, timer, end = counts_its_end(ended)](asio::error_code) { ++ran; });
    pool.stop();
    const auto queued = std::make_shared<asio::steady_timer>(pool, 1h);
    asio::post(pool, [&, queued, end = counts_its_end(ended)] { ++ran; });
    tcp::acceptor acceptor(pool, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    acceptor.async_accept(
        [&, end = counts_its_end(ended)](asio::error_code, const tcp::socket&) { ++ran; });
  }
  EXPECT_EQ(ended, 3);
  EXPECT_LE(ran, 1);  // the acceptor's own end completes its accept, on a stopped pool
}

template <class Pool>
asio::awaitable<void> echo_once(Pool& pool, tcp::acceptor& acceptor) {
  tcp::socket peer = co_await acceptor.async_accept(asio::use_awaitable);
  std::array<char, 5> bytes{};
  for (int i = 0; i < 20; ++i) {
    co_await asio::async_read(peer, asio::buffer(bytes), asio::use_awaitable);
    EXPECT_TRUE(pool.get_executor().running_in_this_thread());
    co_await asio::async_write(peer, asio::buffer(bytes), asio::use_awaitable);
  }
}

TYPED_TEST(asio_pool, tcp_sockets_echo) {
  TypeParam pool(2);
  tcp::acceptor acceptor(pool, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  asio::co_spawn(pool, echo_once(pool, acceptor), asio::detached);
  tcp::socket client(pool);
  client.connect(acceptor.local_endpoint());
  std::array<char, 5> bytes{};
  int rounds = 0;
  std::promise<int> over;
  std::function<void()> round = [&] {  // callbacks on this side, a coroutine on the other
    asio::async_write(client, asio::buffer("hello", 5), [&](asio::error_code error, std::size_t) {
      if (error) return over.set_value(-1);
      asio::async_read(client, asio::buffer(bytes), [&](asio::error_code failed, std::size_t n) {
        if (failed || n != 5) return over.set_value(-1);
        ++rounds == 20 ? over.set_value(rounds) : round();
      });
    });
  };
  round();
  EXPECT_EQ(over.get_future().get(), 20);
  EXPECT_EQ(std::string(bytes.data(), 5), "hello");
  pool.join();
}

// Several pools. -------------------------------------------------------------------------------

TYPED_TEST(asio_pool, two_pools_post_to_each_other) {
  TypeParam left(2);
  TypeParam right(2);
  std::promise<void> over;
  std::function<void(int)> bounce = [&](int count) {
    TypeParam& here = count % 2 == 0 ? left : right;
    TypeParam& there = count % 2 == 0 ? right : left;
    EXPECT_TRUE(here.get_executor().running_in_this_thread());
    EXPECT_FALSE(there.get_executor().running_in_this_thread());
    if (count == 1000) return over.set_value();
    asio::dispatch(there, [&bounce, count] { bounce(count + 1); });
  };
  asio::post(left, [&] { bounce(0); });
  over.get_future().get();
  // An operation on one pool's object whose handler belongs to the other.
  asio::steady_timer timer(left, 1ms);
  bool on_right = false;
  timer.async_wait(asio::bind_executor(right.executor(), [&](asio::error_code) {
    on_right = right.executor().running_in_this_thread();
  }));
  right.join();
  left.join();
  EXPECT_TRUE(on_right);
}

TYPED_TEST(asio_pool, a_thread_attached_from_inside_belongs_to_both_pools) {
  TypeParam outer(1);
  TypeParam inner(0);
  bool in_place = false;
  asio::post(inner, [&] {
    EXPECT_TRUE(inner.executor().running_in_this_thread());
    EXPECT_TRUE(outer.executor().running_in_this_thread());
    // Its only thread is this one: waiting for another would never end.
    execution::execute(asio::require(outer.executor(), execution::blocking.always),
                       [&] { in_place = true; });
    inner.stop();
  });
  asio::post(outer, [&] { inner.attach(); });
  outer.join();
  EXPECT_TRUE(in_place);
}

TYPED_TEST(asio_pool, many_pools_live_at_once) {
  std::vector<std::unique_ptr<TypeParam>> all;
  std::atomic<int> ran = 0;
  for (std::size_t i = 0; i < 16; ++i) all.push_back(std::make_unique<TypeParam>(i % 3));
  for (const auto& pool : all) asio::post(*pool, [&] { ++ran; });
  for (const auto& pool : all) pool->join();
  EXPECT_EQ(ran, 10);  // those with threads
}

// Exceptions. ----------------------------------------------------------------------------------

[[noreturn]] void escape() {
  throw std::runtime_error("escaped");
}

TYPED_TEST(asio_pool_death, an_exception_that_leaves_a_handler_terminates) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        TypeParam pool(1);
        asio::post(pool, [owned = std::make_unique<int>()] { escape(); });
        pool.join();
      },
      "escaped");
  EXPECT_DEATH(
      {
        TypeParam pool(0);
        asio::post(pool, escape);
        pool.attach();
      },
      "escaped");
}

TYPED_TEST(asio_pool_death,
           an_exception_of_a_handler_called_in_place_is_kept_until_the_outer_ends) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        TypeParam pool(1);
        asio::post(pool, [&] {
          asio::dispatch(pool, escape);
          std::fputs("went on\n", stderr);
        });
        pool.join();
      },
      "went on.*escaped");
}

TYPED_TEST(asio_pool_death, blocking_always_terminates_inside_and_outside) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [](auto& pool) {
    execution::execute(asio::require(pool.executor(), execution::blocking.always), escape);
  };
  EXPECT_DEATH(
      {
        TypeParam pool(1);
        run(pool);
      },
      "escaped");
  EXPECT_DEATH(
      {
        TypeParam pool(1);
        asio::post(pool, [&] {
          try {
            run(pool);
          } catch (...) {
            std::fputs("caught\n", stderr);
          }
        });
        pool.join();
      },
      "escaped");
}

TEST(bwos_thread_pool_death, join_wait_and_the_end_inside_a_handler_end_with_a_message) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const char* const message = "inside one of its own workers, which would wait for itself";
  const auto inside = [](const std::function<void(bwos::thread_pool*)>& wrong) {
    auto* const pool = new bwos::thread_pool(1);
    asio::post(*pool, [pool, &wrong] { wrong(pool); });
    std::this_thread::sleep_for(30s);
  };
  EXPECT_DEATH(inside([](bwos::thread_pool* pool) { pool->join(); }), message);
  EXPECT_DEATH(inside([](bwos::thread_pool* pool) { pool->wait(); }), message);
  EXPECT_DEATH(inside([](bwos::thread_pool* pool) { delete pool; }), message);
}

// Ours alone. ----------------------------------------------------------------------------------

TEST(bwos_thread_pool, takes_options_and_gives_its_pool) {
  bwos::thread_pool pool(bwos::options{.workers = 3});
  EXPECT_EQ(pool.native().workers(), 3U);
  EXPECT_EQ(asio::query(pool.executor(), execution::occupancy), 3U);
  EXPECT_THROW(bwos::thread_pool(bwos::options{.workers = 1, .steal_batch = 0}),
               std::invalid_argument);
  EXPECT_THROW(bwos::thread_pool(bwos::options::workers_max + 1), std::out_of_range);
}

TEST(bwos_thread_pool, a_native_continuation_is_inside_the_pool) {
  bwos::thread_pool pool(1);
  struct inside_check : bwos::continuation {
    explicit inside_check(bwos::thread_pool& where) : continuation(&look), pool(where) {}
    static void look(continuation& self, disposition) noexcept {
      auto& check = static_cast<inside_check&>(self);
      asio::dispatch(check.pool, [&] { check.in_place = true; });
      check.seen = check.in_place;
    }
    bwos::thread_pool& pool;
    bool in_place = false;
    bool seen = false;
  } check(pool);
  pool.native().post(check);
  pool.join();
  EXPECT_TRUE(check.seen);
}

TEST(bwos_thread_pool, wait_on_a_pool_of_no_threads_waits_for_the_attached) {
  bwos::thread_pool pool(0);
  std::atomic<bool> ran = false;
  asio::post(pool, [&] {
    std::this_thread::sleep_for(20ms);
    ran = true;
  });
  std::thread attached([&] { pool.attach(); });
  pool.wait();
  EXPECT_TRUE(ran);
  attached.join();
}

}  // namespace

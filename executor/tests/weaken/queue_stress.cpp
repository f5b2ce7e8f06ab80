// SPDX-License-Identifier: Apache-2.0
// <queue>_stress SECONDS: an owner that puts, gets and shares in random order, and thieves that
// steal batches, on small and ordinary shapes in turn. For ThreadSanitizer: entries are plain
// memory, so each order that is missing in the queue shows as a data race on one. Ends with 1 when
// the sum of what was taken differs from what was put. BWOS_STRESS_LIFO: of the LIFO queue.
// BWOS_STRESS_FORK: of the fork queue, which grows, and whose thieves request and expose.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include <bwos/queue/fork_queue.hpp>
#include <bwos/queue/lifo_queue.hpp>
#include "base/random.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
using value = std::uintptr_t;
constexpr std::uint32_t round_before_wrap = 0xffff'fffdU;

#if defined(BWOS_STRESS_FORK)
template <std::size_t Entries, std::size_t Blocks>
class queue_type : public bwos::fork_queue<value, Entries, Blocks> {
  using base = bwos::fork_queue<value, Entries, Blocks>;

 public:
  explicit queue_type(std::uint32_t first_height)
      : base(bwos::asymmetric_fence::available(), first_height) {}

  /// In place of share(), which it has not.
  void play_owner(bwos::random_source& random) {
    if (random.below(1000) != 0 || parts_.size() == 4) return;
    parts_.push_back(std::make_unique<typename base::block[]>(base::as_owner().growth()));
    base::as_owner().grow(parts_.back().get());
  }

 private:
  std::vector<std::unique_ptr<typename base::block[]>> parts_;
};

template <class Queue>
std::size_t steal(typename Queue::thief thief, bwos::random_source& random, value* out) {
  if (random.below(8) == 0) thief.request();
  if (random.below(8) == 0) thief.expose();
  return thief.steal(out, 1 + random.below(Queue::block_entries)).count;
}
#elif defined(BWOS_STRESS_LIFO)
template <std::size_t Entries, std::size_t Blocks>
using queue_type = bwos::lifo_queue<value, Entries, Blocks>;

template <class Queue>
std::size_t steal(typename Queue::thief thief, bwos::random_source& random, value* out) {
  return thief.steal(out, 1 + random.below(Queue::block_entries)).count;
}
#else
template <std::size_t Entries, std::size_t Blocks>
using queue_type = bwos::fifo_queue<value, Entries, Blocks>;

template <class Queue>
std::size_t steal(typename Queue::thief thief, bwos::random_source& random, value* out) {
  const std::size_t block = random.below(Queue::block_count);
  if (!thief.sample(block)) return 0;
  return thief.steal(block, out, 1 + random.below(Queue::block_entries)).count;
}
#endif

template <class Queue>
value steal_until(const std::atomic<bool>& done, typename Queue::thief thief,
                  bwos::random_source random) {
  value sum = 0;
  value batch[Queue::block_entries];
  while (!done.load(std::memory_order_relaxed)) {
    const std::size_t count = steal<Queue>(thief, random, batch);
    for (std::size_t i = 0; i < count; ++i) sum += batch[i];
  }
  return sum;
}

template <std::size_t Entries, std::size_t Blocks>
bool run(std::uint64_t seed, unsigned thieves, clock_type::time_point end) {
  using queue_of_shape = queue_type<Entries, Blocks>;
  const auto queue = std::make_unique<queue_of_shape>(round_before_wrap);
  std::atomic<bool> done{false};
  std::vector<value> stolen(thieves);
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < thieves; ++id) {
    threads.emplace_back([&, id] {
      stolen[id] =
          steal_until<queue_of_shape>(done, queue->as_thief(), bwos::random_source(seed + 1 + id));
    });
  }
  auto& owner = queue->as_owner();
  bwos::random_source random(seed);
  value put = 0;
  value taken = 0;
  value next = 1;
  value v = 0;
  while (clock_type::now() < end) {
    for (int step = 0; step < 1000; ++step) {
      switch (random.below(8)) {
        case 0:
#ifdef BWOS_STRESS_FORK
          queue->play_owner(random);
#else
          owner.share();
#endif
          break;
        case 1:
        case 2:
        case 3:
          if (owner.get(v)) taken += v;
          break;
        default:
          if (owner.put(next)) put += next++;
      }
    }
  }
  done.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  while (owner.get(v)) taken += v;
  for (const value sum : stolen) taken += sum;
  if (taken != put)
    std::fprintf(stderr, "%zux%zu: put %zu, taken %zu\n", Blocks, Entries, put, taken);
  return taken == put;
}

}  // namespace

int main(int count, char** arguments) {
  const int seconds = count > 1 ? std::atoi(arguments[1]) : 10;
  std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const auto end = clock_type::now() + std::chrono::seconds(seconds);
  bool equal = true;
  for (unsigned turn = 0; equal && clock_type::now() < end; ++turn, seed += 16) {
#ifdef BWOS_STRESS_FORK
    constexpr std::chrono::milliseconds turn_length(20);  // what is new is so only once
#else
    constexpr std::chrono::milliseconds turn_length(250);
#endif
    const auto turn_end = clock_type::now() + turn_length;
    switch (turn % 5) {
      case 0:
        equal = run<2, 2>(seed, 2, turn_end);
        break;
      case 1:
        equal = turn % 2 == 0 ? run<1, 2>(seed, 2, turn_end) : run<1, 3>(seed, 2, turn_end);
        break;
      case 2:
        equal = run<4, 4>(seed, 2, turn_end);
        break;
      case 3:
        equal = run<64, 2>(seed, 2, turn_end);
        break;
      default:
        equal = run<64, 8>(seed, 3, turn_end);
    }
  }
  return equal ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// A client of the LIFO queue for a stateless model checker such as GenMC (C++20, RC11). As in the
// paper's Fig. 9: an owner that puts and gets, a thief that steals once, another that steals twice;
// then the owner drains. Values are powers of two, so the sum taken equals the sum put only if
// every entry was read exactly once, and payloads are plain memory, so a missing order is a race.
// As an ordinary program it runs BWOS_CLIENT_RUNS times.
//
//   BWOS_CLIENT_SHAPE   0: two blocks of two entries, puts 3, gets 2, puts 4, gets 3, puts 5, gets
//                       4; 1: three blocks of one entry, puts 3, gets 3, puts 3, gets 2, puts 4,
//                       gets 2, which the bottom rule needs (lifo_queue.hpp, L5)
//   BWOS_CLIENT_BATCH   entries of a steal at most
//   BWOS_CLIENT_SHARE   1: share() after every get
//   BWOS_WEAKEN         the tag of an access to relax (bwos/base/memory_order.hpp)
#include <pthread.h>

#undef NDEBUG
#include <cassert>
#include <cstddef>
#include <cstdint>

#include <bwos/queue/lifo_queue.hpp>

#ifndef BWOS_CLIENT_SHAPE
#define BWOS_CLIENT_SHAPE 0
#endif
#ifndef BWOS_CLIENT_BATCH
#define BWOS_CLIENT_BATCH 1
#endif
#ifndef BWOS_CLIENT_SHARE
#define BWOS_CLIENT_SHARE 1
#endif
#ifndef BWOS_CLIENT_RUNS
#define BWOS_CLIENT_RUNS 1
#endif

namespace {

#if BWOS_CLIENT_SHAPE == 0
using queue_type = bwos::lifo_queue<std::uint64_t, 2, 2>;
constexpr unsigned plan[] = {3, 2, 4, 3, 5, 4};
#else
using queue_type = bwos::lifo_queue<std::uint64_t, 1, 3>;
constexpr unsigned plan[] = {3, 3, 3, 2, 4, 2};
#endif

struct robbery {
  queue_type* queue;
  unsigned steals;
  std::uint64_t sum;
};

void* steal(void* argument) {
  robbery& plan = *static_cast<robbery*>(argument);
  const queue_type::thief thief = plan.queue->as_thief();
  for (unsigned i = 0; i < plan.steals; ++i) {
    std::uint64_t taken[BWOS_CLIENT_BATCH];
    const bwos::steal_result got = thief.steal(taken, BWOS_CLIENT_BATCH);
    for (std::size_t k = 0; k < got.count; ++k) plan.sum += taken[k];
  }
  return nullptr;
}

void put(queue_type::owner& owner, unsigned count, std::uint64_t& next, std::uint64_t& sum) {
  for (unsigned i = 0; i < count; ++i) {
    if (owner.put(next)) sum += next;
    next <<= 1;
  }
}

void get(queue_type::owner& owner, unsigned count, std::uint64_t& sum) {
  for (unsigned i = 0; i < count; ++i) {
    std::uint64_t value = 0;
    if (owner.get(value)) sum += value;
    if (BWOS_CLIENT_SHARE) owner.share();
  }
}

void run() {
  queue_type queue;
  robbery once{&queue, 1, 0};
  robbery twice{&queue, 2, 0};
  pthread_t first;
  pthread_t second;
  pthread_create(&first, nullptr, steal, &once);
  pthread_create(&second, nullptr, steal, &twice);

  queue_type::owner& owner = queue.as_owner();
  std::uint64_t next = 1;
  std::uint64_t was_put = 0;
  std::uint64_t taken = 0;
  for (unsigned i = 0; i < 6; i += 2) {
    put(owner, plan[i], next, was_put);
    get(owner, plan[i + 1], taken);
  }

  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
  std::uint64_t value = 0;
  while (owner.get(value)) taken += value;
  assert(taken + once.sum + twice.sum == was_put);
}

}  // namespace

int main() {
  for (unsigned i = 0; i < BWOS_CLIENT_RUNS; ++i) run();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A client of the fork queue for a stateless model checker such as GenMC (C++20, RC11): an owner
// and up to two thieves, each with a plan of a letter a step; then the owner drains. Values are
// powers of two, so the sum taken equals the sum put only if every entry was read exactly once, and
// payloads are plain memory, so a missing order is a race. As an ordinary program it runs
// BWOS_CLIENT_RUNS times.
//
//   BWOS_CLIENT_OWNER    its plan: p put, g get, G grow
//   BWOS_CLIENT_FIRST    what it does before there are thieves: p, g
//   BWOS_CLIENT_THIEF_1  its plan: s steal one entry, r request, x expose
//   BWOS_CLIENT_THIEF_2  the same
//   BWOS_CLIENT_ENTRIES, BWOS_CLIENT_BLOCKS  the queue's shape
//   BWOS_CLIENT_ASKS     1: for plans of p and r alone: one more put then, which must grant
//   something;
//                        2: for an owner whose last step is p, and a first thief with rxs: if its
//                        looks found nothing, something is granted when all is done
//   BWOS_CLIENT_FAST     0: no get without a read-modify-write, as without membarrier(2)
//   BWOS_CLIENT_FENCES   0: neither side of K4 has one; 1: both; for a checker that must object
//   BWOS_WEAKEN          the tag of an access to relax (bwos/base/memory_order.hpp)
#include <pthread.h>

#undef NDEBUG
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>

#include <bwos/queue/fork_queue.hpp>

#ifndef BWOS_CLIENT_OWNER
#define BWOS_CLIENT_OWNER "pppgg"
#endif
#ifndef BWOS_CLIENT_FIRST
#define BWOS_CLIENT_FIRST ""
#endif
#ifndef BWOS_CLIENT_THIEF_1
#define BWOS_CLIENT_THIEF_1 "xs"
#endif
#ifndef BWOS_CLIENT_THIEF_2
#define BWOS_CLIENT_THIEF_2 ""
#endif
#ifndef BWOS_CLIENT_ENTRIES
#define BWOS_CLIENT_ENTRIES 4
#endif
#ifndef BWOS_CLIENT_BLOCKS
#define BWOS_CLIENT_BLOCKS 2
#endif
#ifndef BWOS_CLIENT_FAST
#define BWOS_CLIENT_FAST 1
#endif
#ifndef BWOS_CLIENT_FENCES
#define BWOS_CLIENT_FENCES 1
#endif
#ifndef BWOS_CLIENT_ASKS
#define BWOS_CLIENT_ASKS 0
#endif
#ifndef BWOS_CLIENT_RUNS
#define BWOS_CLIENT_RUNS 1
#endif

namespace {

// A race detector that compiles this knows no fences, and says so.
#if defined(__SANITIZE_THREAD__)
constexpr bool fences = false;
#else
constexpr bool fences = BWOS_CLIENT_FENCES != 0;
#endif

struct full_fence {
  static bool available() noexcept { return true; }
  static void light() noexcept { fence(); }
  static void heavy() noexcept { fence(); }

 private:
  static void fence() noexcept {
#if !defined(__SANITIZE_THREAD__)
    // [client.fence] seq_cst: K4. Partner: [client.fence].
    if (fences) std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
};

using queue_type =
    bwos::fork_queue<std::uint64_t, BWOS_CLIENT_ENTRIES, BWOS_CLIENT_BLOCKS, full_fence>;
constexpr bool fast = BWOS_CLIENT_FAST != 0 && (fences || BWOS_CLIENT_FENCES == 0);

struct robbery {
  queue_type* queue;
  const char* plan;
  std::uint64_t sum;
  bool found;  // by a look, be it that another thread was faster
};

void* rob(void* argument) {
  robbery& me = *static_cast<robbery*>(argument);
  const queue_type::thief thief = me.queue->as_thief();
  for (const char* step = me.plan; *step != '\0'; ++step) {
    if (*step == 'r') thief.request();
    if (*step == 'x') thief.expose();
    if (*step != 's') continue;
    std::uint64_t taken = 0;
    const bwos::steal_result got = thief.steal(&taken, 1);
    if (got.count == 1) me.sum += taken;
    if (got.status != bwos::steal_status::empty) me.found = true;
  }
  return nullptr;
}

struct play {
  queue_type::owner& owner;
  unsigned char* memory;  // of blocks that are constructed as it grows, for thieves to see
  std::uint64_t next = 1;
  std::uint64_t was_put = 0;
  std::uint64_t taken = 0;

  void put() {
    if (owner.put(next)) was_put += next;
    next <<= 1;
  }

  bool get() {
    std::uint64_t value = 0;
    const bool got = owner.get(value);
    taken += value;
    return got;
  }

  void grow() {
    for (unsigned i = 0; i < BWOS_CLIENT_BLOCKS; ++i) {
      new (memory + i * sizeof(queue_type::block)) queue_type::block;
    }
    owner.grow(reinterpret_cast<queue_type::block*>(memory));
  }

  void follow(const char* plan) {
    for (const char* step = plan; *step != '\0'; ++step) {
      if (*step == 'p') put();
      if (*step == 'g') get();
      if (*step == 'G') grow();
    }
  }
};

void run() {
  alignas(queue_type::block) unsigned char memory[BWOS_CLIENT_BLOCKS * sizeof(queue_type::block)];
  queue_type queue(fast);
  play owner{queue.as_owner(), memory};
  owner.follow(BWOS_CLIENT_FIRST);
  robbery first{&queue, BWOS_CLIENT_THIEF_1, 0, false};
  robbery second{&queue, BWOS_CLIENT_THIEF_2, 0, false};
  pthread_t threads[2];
  pthread_create(&threads[0], nullptr, rob, &first);
  if (*second.plan != '\0') pthread_create(&threads[1], nullptr, rob, &second);

  owner.follow(BWOS_CLIENT_OWNER);

  pthread_join(threads[0], nullptr);
  if (*second.plan != '\0') pthread_join(threads[1], nullptr);
#if BWOS_CLIENT_ASKS != 0
  // K10. 1: nobody has stolen or got; a request stands or has been answered.
  if (BWOS_CLIENT_ASKS == 1) owner.put();
  if (!first.found) {
    std::uint64_t value = 0;
    assert(queue.as_thief().steal(&value, 1).count == 1);
    owner.taken += value;
  }
#endif
  while (owner.get()) {
  }
  assert(owner.taken + first.sum + second.sum == owner.was_put);
}

}  // namespace

int main() {
  for (unsigned i = 0; i < BWOS_CLIENT_RUNS; ++i) run();
  return 0;
}

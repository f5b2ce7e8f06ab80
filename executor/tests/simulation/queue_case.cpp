// SPDX-License-Identifier: Apache-2.0
// The queue's owner and two thieves, on the smallest shapes.
#include <algorithm>
#include <array>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include "cases.hpp"

namespace bwos::simulation {
namespace {

constexpr std::uint64_t elements = 24;

/// I7: what can be stolen lies in the range of blocks in use.
template <class Thief>
bool check_range(const Thief& victim, std::size_t blocks) {
  const block_range range = victim.in_use();
  std::vector<bool> in_use(blocks);
  for (std::size_t i = 0; i < range.count; ++i) in_use[range[i]] = true;
  for (std::size_t i = 0; i < blocks; ++i) {
    expect(in_use[i] || !victim.sample(i), "range", "block ", i, " is not in the range");
  }
  return true;
}

/// Each element is got or stolen once; what the owner gets comes in the order of its puts.
template <std::size_t Entries, std::size_t Blocks>
void owner_and_thieves(machine& here) {
  using queue_type = fifo_queue<std::uint64_t, Entries, Blocks>;
  queue_type queue;
  std::vector<unsigned> taken(elements + 1);
  std::uint64_t left = elements;
  const auto take = [&](std::uint64_t element) {
    expect(element >= 1 && element <= elements, "once", "a thread has got ", element);
    expect(++taken[element] == 1, "once", "element ", element, " was taken twice");
    --left;
  };

  here.start("owner", [&] {
    auto& own = queue.as_owner();
    std::uint64_t next = 1;
    std::uint64_t latest = 0;
    while (left != 0) {
      const std::uint32_t draw = here.random.below(8);
      std::uint64_t element = 0;
      if (draw < 4 && next <= elements) {
        if (own.put(next)) ++next;
      } else if (draw < 6) {
        if (own.get(element)) {
          expect(element > latest, "order", element, " comes after ", latest);
          latest = element;
          take(element);
        }
      } else {
        own.share();
      }
      step("plays the owner");
    }
    expect(own.empty(), "once", "all was taken, and the queue says that it is not empty");
  });
  for (const char* const name : {"thief 1", "thief 2"}) {
    here.start(name, [&] {
      const auto victim = queue.as_thief();
      while (left != 0) {
        const std::size_t block = here.random.below(Blocks);
        step("plays the thief");
        here.between_steps([&] { return check_range(victim, Blocks); });
        if (!victim.sample(block)) continue;
        std::array<std::uint64_t, Entries> loot{};
        const steal_result result =
            victim.steal(block, loot.data(), 1 + here.random.below(Entries));
        std::for_each_n(loot.begin(), result.count, take);
      }
    });
  }
  here.run();
}

const registered two_by_two("queue_2x2", "an owner and two thieves, 2 blocks of 2",
                            &owner_and_thieves<2, 2>);
const registered three_by_one("queue_1x3", "an owner and two thieves, 3 blocks of 1",
                              &owner_and_thieves<1, 3>);

}  // namespace
}  // namespace bwos::simulation

// SPDX-License-Identifier: Apache-2.0
// The LIFO queue's owner and two thieves, on the smallest shapes.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <bwos/queue/lifo_queue.hpp>
#include "cases.hpp"

namespace bwos::simulation {
namespace {

constexpr std::uint64_t elements = 24;

/// Each element is got or stolen once; the owner gets what it put last, or nothing, and then
/// thieves have taken everything.
template <std::size_t Entries, std::size_t Blocks>
void owner_and_thieves(machine& here) {
  using queue_type = lifo_queue<std::uint64_t, Entries, Blocks>;
  queue_type queue;
  std::vector<unsigned> taken(elements + 1);
  std::uint64_t left = elements;
  std::array<unsigned, 2> steals{};  // that each thief has tried, to the end
  bool lost = false;
  const auto take = [&](std::uint64_t element) {
    expect(element >= 1 && element <= elements, "once", "a thread has got ", element);
    expect(++taken[element] == 1, "once", "element ", element, " was taken twice");
    --left;
  };

  here.start("owner", [&] {
    auto& own = queue.as_owner();
    std::vector<std::uint64_t> model;  // what it has put, but for what it has got
    std::uint64_t next = 1;
    std::array<unsigned, 2> steals_then{};  // when the queue was first empty for good
    bool is_empty = false;
    while (left != 0 && !lost) {
      const std::uint32_t draw = here.random.below(8);
      std::uint64_t element = 0;
      if (draw < 4 && next <= elements) {
        if (own.put(next)) model.push_back(next++);
      } else if (draw < 7) {
        if (own.get(element)) {
          expect(!model.empty() && element == model.back(), "order", "the owner got ", element,
                 ", which is not what it put last");
          model.pop_back();
          take(element);
        } else {
          model.clear();
          if (next > elements && !std::exchange(is_empty, true)) steals_then = steals;
        }
      } else {
        own.share();
      }
      // Whatever a thief had claimed by then, it has taken since.
      lost = is_empty && steals[0] > steals_then[0] + 1 && steals[1] > steals_then[1] + 1;
      step("plays the owner");
    }
    expect(left == 0, "lost", left, " elements are with nobody, and the owner finds nothing");
    expect(own.empty(), "once", "all was taken, and the queue says that it is not empty");
  });
  for (const unsigned thief : {0U, 1U}) {
    here.start(text("thief ", thief + 1), [&, thief] {
      const auto victim = queue.as_thief();
      while (left != 0 && !lost) {
        step("plays the thief");
        std::array<std::uint64_t, Entries> loot{};
        const steal_result result = victim.steal(loot.data(), 1 + here.random.below(Entries));
        std::for_each_n(loot.begin(), result.count, take);
        ++steals[thief];
      }
    });
  }
  here.run();
}

const registered two_by_two("lifo_2x2", "an owner and two thieves, 2 blocks of 2",
                            &owner_and_thieves<2, 2>);
const registered three_by_one("lifo_1x3", "an owner and two thieves, 3 blocks of 1",
                              &owner_and_thieves<1, 3>);
const registered three_by_two("lifo_2x3", "an owner and two thieves, 3 blocks of 2",
                              &owner_and_thieves<2, 3>);

}  // namespace
}  // namespace bwos::simulation

// SPDX-License-Identifier: Apache-2.0
// The fork queue's owner and two thieves, on the smallest shapes.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <bwos/queue/fork_queue.hpp>
#include "cases.hpp"

namespace bwos::simulation {
namespace {

constexpr std::uint64_t elements = 24;

/// What others store is seen at once here.
struct no_fence {
  static bool available() noexcept { return true; }
  static void light() noexcept {}
  static void heavy() noexcept {}
};

template <std::size_t Entries, std::size_t Blocks>
using queue_of = fork_queue<std::uint64_t, Entries, Blocks, no_fence>;

/// Each element is got or stolen once; the owner gets what it put last, or nothing, and then
/// thieves have taken everything.
template <std::size_t Entries, std::size_t Blocks, bool Fast, bool Grows>
void owner_and_thieves(machine& here) {
  using queue_type = queue_of<Entries, Blocks>;
  std::array<std::vector<typename queue_type::block>, 3> more;
  queue_type queue(Fast);
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
    std::size_t parts = 0;
    std::array<unsigned, 2> steals_then{};  // when the queue was first empty for good
    bool is_empty = false;
    while (left != 0 && !lost) {
      const std::uint32_t draw = here.random.below(8);
      std::uint64_t element = 0;
      if (draw < 5 && next <= elements) {
        const bool full = !own.put(next);
        if (!full) model.push_back(next++);
        if (Grows && parts < more.size() && here.random.below(full ? 2 : 12) == 0) {
          more[parts] = std::vector<typename queue_type::block>(own.growth());
          own.grow(more[parts++].data());
          if (full) {
            expect(own.put(next), "grows", "the queue has grown and is full");
            model.push_back(next++);
          }
        }
      } else if (own.get(element)) {
        take(element);
        expect(!model.empty() && element == model.back(), "order", "the owner got ", element,
               ", which is not what it put last");
        model.pop_back();
      } else {
        model.clear();
        if (next > elements && !std::exchange(is_empty, true)) steals_then = steals;
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
        const std::uint32_t draw = here.random.below(8);
        if (draw == 0) victim.request();
        if (draw < 3) victim.expose();
        std::array<std::uint64_t, Entries> loot{};
        const steal_result result = victim.steal(loot.data(), 1 + here.random.below(Entries));
        std::for_each_n(loot.begin(), result.count, take);
        ++steals[thief];
      }
    });
  }
  here.run();

  // All of it is still in use: what a full queue holds is there for thieves.
  here.start("owner and thief", [&] {
    std::size_t fits = 0;
    std::uint64_t loot = 0;
    while (queue.as_owner().put(1)) ++fits;
    std::size_t blocks = Blocks;
    for (const auto& part : more) blocks += part.size();
    expect(fits + Entries > Entries * blocks, "grows", fits, " entries fit into ", blocks,
           " blocks");
    queue.as_thief().expose();
    for (; queue.as_thief().steal(&loot, 1).count == 1; --fits) {
    }
    expect(fits == 0, "lost", fits, " entries are not there for thieves");
  });
  here.run();
}

/// Two thieves that are about to sleep: what is put from then on, and what a put in progress puts,
/// is granted.
template <bool Fast>
void requests(machine& here) {
  constexpr unsigned rounds = 6;
  queue_of<4, 2> queue(Fast);
  struct sleeper {
    bool has_begun = false;
    bool has_exposed = false;
    bool sleeps = false;
    bool had_answer = false;
  };
  std::array<sleeper, 2> thieves;
  unsigned answers = 0;
  here.start("owner", [&] {
    auto& own = queue.as_owner();
    const auto steal_one = [&] {
      std::uint64_t loot = 0;
      steal_result result;
      do {
        result = queue.as_thief().steal(&loot, 1);
      } while (result.status == steal_status::conflict);
      if (result.count == 0) return false;
      for (sleeper& each : thieves) each.had_answer = each.had_answer || each.has_begun;
      return true;
    };
    for (std::uint64_t next = 1; answers < rounds; ++next) {
      while (steal_one()) {
      }
      const std::array<sleeper, 2> before = thieves;
      expect(own.put(next), "order", "the queue is full");
      const std::array<sleeper, 2> then = thieves;
      const bool granted = steal_one();
      for (unsigned thief = 0; thief < 2; ++thief) {
        if (!before[thief].sleeps && !(then[thief].sleeps && then[thief].has_exposed)) continue;
        expect(granted || then[thief].had_answer, "answered", "thief ", thief + 1,
               " sleeps beside entry ", next);
        thieves[thief] = {};
        ++answers;
      }
      step("plays the owner");
    }
  });
  for (sleeper& me : thieves) {
    here.start(&me == &thieves[0] ? "thief 1" : "thief 2", [&] {
      while (answers < rounds) {
        step("plays the thief");
        if (me.sleeps) continue;
        me.has_begun = true;
        queue.as_thief().request();
        me.has_exposed = here.random.below(2) == 0;
        while (me.has_exposed && queue.as_thief().expose() == steal_status::conflict) {
          step("tries again");
        }
        me.sleeps = true;
      }
    });
  }
  here.run();
}

const registered two_by_two("fork_2x2", "an owner and two thieves, 2 blocks of 2",
                            &owner_and_thieves<2, 2, true, false>);
const registered three_by_one("fork_1x3", "an owner and two thieves, 3 blocks of 1",
                              &owner_and_thieves<1, 3, true, false>);
const registered two_by_four("fork_4x2", "an owner and two thieves, 2 blocks of 4",
                             &owner_and_thieves<4, 2, true, false>);
const registered slow("fork_slow", "an owner and two thieves, 2 blocks of 4, no fast gets",
                      &owner_and_thieves<4, 2, false, false>);
const registered grows_by_one("fork_grows_1x2", "2 blocks of 1, and up to 14 more",
                              &owner_and_thieves<1, 2, true, true>);
const registered grows_by_two("fork_grows_2x2", "2 blocks of 2, and up to 14 more",
                              &owner_and_thieves<2, 2, true, true>);
const registered asked("fork_request", "an owner that puts, and two thieves that ask",
                       &requests<true>);
const registered asked_slow("fork_request_slow", "the same, no fast puts", &requests<false>);

}  // namespace
}  // namespace bwos::simulation

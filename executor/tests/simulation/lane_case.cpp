// SPDX-License-Identifier: Apache-2.0
// The lane with servers that sleep as workers do, and no monitor: entries are served in order, by
// no more servers than the cap lets, and none is slept over.
#include <array>
#include <memory>
#include <vector>

#include "base/futex_parker.hpp"
#include "cases.hpp"
#include "scheduler/idle_set.hpp"
#include "scheduler/lane.hpp"

namespace bwos::simulation {
namespace {

constexpr unsigned pushes = 12;  // each pusher's
constexpr nanoseconds slice = 20 * microsecond;
constexpr nanoseconds age = 400 * microsecond;

class lane_and_servers {
 public:
  lane_and_servers(machine& here, unsigned servers, unsigned pushers)
      : here_(here),
        cap_(std::max(2U, servers) - 1),
        tasks_are_long_(here.random.below(2) != 0),
        lane_(cap_, slice, age),
        idle_(idle_set::form::named, 1, std::max(1U, servers / 2)),
        sleepers_(servers) {
    for (unsigned i = 0; i < pushers * pushes; ++i) {
      work_.push_back(std::make_unique<item>(*this, i / pushes, i % pushes));
    }
    for (unsigned i = 0; i < servers; ++i) {
      here.start(text("server ", i), [this, i] { serve(i); });
    }
    for (unsigned i = 0; i < pushers; ++i) {
      here.start(text("pusher ", i), [this, i] { push(i); });
    }
  }

  void run() { here_.run(); }

 private:
  struct item : continuation {
    item(lane_and_servers& owner, unsigned by, unsigned at)
        : continuation(&on_run), all(owner), pusher(by), number(at) {
      place.work = this;
    }
    static void on_run(continuation& self, disposition) noexcept {
      auto& mine = static_cast<item&>(self);
      mine.runs = true;
      mine.all.here_.wake(&mine);
    }
    lane_and_servers& all;
    const unsigned pusher;
    const unsigned number;
    lane_entry place;
    std::uint64_t pushed = 0;  // how many had been when this had; 0: it has not
    bool taken = false;
    bool runs = false;
  };

  void push(unsigned pusher) {
    for (unsigned i = 0; i < pushes; ++i) {
      here_.compute(here_.random.below(here_.random.below(2) == 0 ? 300 : 20'000));
      item& next = *work_[pusher * pushes + i];
      if (here_.random.below(2) != 0) {
        const nanoseconds waited = here_.random.below(20'000);
        next.place.since = here_.now() > waited ? here_.now() - waited : 1;
      }
      lane_.push(next.place);
      next.pushed = ++pushed_;
      if (lane_.open()) wake_one();
      if (here_.random.below(2) != 0) continue;
      while (!next.runs) here_.wait(&next, never, "waits for what it has pushed");
    }
  }

  void wake_one() {
    const idle_set::claim_result claim = idle_.claim(0);
    if (claim.claimed) sleepers_[claim.bit].wake();
  }

  void serve(unsigned bit) {
    while (served_ != work_.size()) {
      ++taking_;
      const std::uint64_t pushed_before = pushed_;
      const auto [work, aged] = lane_.take(false);
      --taking_;
      if (work == nullptr) {
        sleep(bit);
        continue;
      }
      take(static_cast<item&>(*work), aged, pushed_before);
      if (idle_searching_[bit] && idle_.end_search(0) && lane_.open()) wake_one();
      idle_searching_[bit] = false;
      const nanoseconds begun = here_.now();
      here_.compute(tasks_are_long_ ? 2 * slice + 1 + here_.random.below(100'000)
                                    : here_.random.below(slice / 2));
      work->invoke(*work, continuation::disposition::run);
      --serving_;
      lane_.done(static_cast<ticks>(here_.now() - begun));
    }
    for (auto& each : sleepers_) each.wake();
  }

  void take(item& taken, bool aged, std::uint64_t pushed_before) {
    // Who has left the lane's lock with an older entry may not have said so yet.
    unsigned older = 0;
    for (const auto& each : work_) {
      const bool was_there = each->pushed != 0 && each->pushed <= pushed_before;
      if (was_there && !each->taken && each->place.since < taken.place.since) ++older;
    }
    expect(older <= taking_, "order", "an entry that began to wait at ", taken.place.since,
           " comes before ", older, " older ones, and others take only ", taking_);
    taken.taken = true;
    ++served_;
    // An entry of age is served above the cap, and others then wait until there is room again.
    // Short tasks know no cap, but for the first, of which nobody knows yet that they are.
    expect(aged || serving_ < cap_ || !tasks_are_long_, "cap", serving_,
           " serve already, the cap is ", cap_);
    ++serving_;
  }

  void sleep(unsigned bit) {
    idle_.announce(0, bit, std::exchange(idle_searching_[bit], false));
    if (!lane_.open() && served_ != work_.size()) sleepers_[bit].wait(-1);
    idle_searching_[bit] = idle_.leave(0, bit, false);
  }

  machine& here_;
  const unsigned cap_;
  const bool tasks_are_long_;
  lane lane_;
  idle_set idle_;
  std::vector<futex_parker> sleepers_;
  std::array<bool, 4> idle_searching_{};
  std::vector<std::unique_ptr<item>> work_;
  unsigned taking_ = 0;
  std::uint64_t pushed_ = 0;
  unsigned serving_ = 0;
  unsigned served_ = 0;
};

void schedules(machine& here) {
  lane_and_servers all(here, 1 + here.random.below(4), 1 + here.random.below(2));
  all.run();
}

const registered by_cap("lane", "entries are served in order, to the cap, and none is slept over",
                        &schedules);

}  // namespace
}  // namespace bwos::simulation

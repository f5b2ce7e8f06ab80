// SPDX-License-Identifier: Apache-2.0
// The idle word, the inject queue, the parker and a shared set's tokens, put together by hand as a
// worker puts them together: no wake-up is lost. No monitor looks after them here.
#include <memory>
#include <vector>

#include "base/futex_parker.hpp"
#include "cases.hpp"
#include "queue/inject_queue.hpp"
#include "scheduler/idle_set.hpp"
#include "simulated_reactor.hpp"

namespace bwos::simulation {
namespace {

constexpr unsigned posts = 24;  // each poster's

/// What a parker may do wrong, to see that it is found.
enum class fault : std::uint8_t { none, no_last_look, token_read_late };

class parking {
 public:
  parking(machine& here, idle_set::form form, unsigned parkers, unsigned posters, fault wrong)
      : here_(here),
        form_(form),
        wrong_(wrong),
        idle_(form, 1, std::max(1U, parkers / 2)),
        set_(here, true),
        sleepers_(parkers) {
    for (unsigned i = 0; i < posters * posts; ++i) work_.push_back(std::make_unique<item>(*this));
    for (unsigned i = 0; i < parkers; ++i) {
      here.start(text("parker ", i), [this, i] { park_and_run(i); });
    }
    for (unsigned i = 0; i < posters; ++i) {
      here.start(text("poster ", i), [this, i] { post(i); });
    }
  }

  void run() {
    here_.run();
    for (const auto& each : work_) expect(each->runs == 1, "once", "ran ", each->runs, " times");
  }

 private:
  struct item : continuation {
    explicit item(parking& owner) : continuation(&on_run), all(owner) {}
    static void on_run(continuation& self, disposition) noexcept {
      auto& mine = static_cast<item&>(self);
      ++mine.runs;
      mine.all.here_.wake(&mine);
      if (++mine.all.done_ == mine.all.work_.size()) mine.all.stop();
    }
    void await(machine& here) {
      while (runs == 0) here.wait(this, never, "waits for what it has posted");
    }
    parking& all;
    unsigned runs = 0;
  };

  void post(unsigned poster) {
    for (unsigned i = 0; i < posts; ++i) {
      here_.compute(here_.random.below(here_.random.below(2) == 0 ? 300 : 20'000));
      item& next = *work_[poster * posts + i];
      if (form_ == idle_set::form::counted && here_.random.below(4) == 0) {
        set_.arrive(here_.now() + here_.random.below(5'000), next);
      } else {
        inject_.push(next);
        wake_one();
      }
      // A wake-up that is lost now is one that no later post makes good.
      if (here_.random.below(4) != 0) next.await(here_);
    }
  }

  void wake_one() {
    const idle_set::claim_result claim = idle_.claim(0);
    if (!claim.claimed) return;
    if (form_ == idle_set::form::named) {
      sleepers_[claim.bit].wake();
    } else {
      set_.wake();
    }
  }

  void stop() {
    stopping_.store(true, std::memory_order_seq_cst);
    for (auto& each : sleepers_) {
      if (form_ == idle_set::form::named) {
        each.wake();
      } else {
        set_.wake();
      }
    }
  }

  bool stopping() { return stopping_.load(std::memory_order_seq_cst); }

  void park_and_run(unsigned bit) {
    bool searching = false;
    while (!stopping()) {
      if (continuation* const next = inject_.pop()) {
        if (std::exchange(searching, false)) end_search();
        run_one(*next);
        continue;
      }
      if (!searching && here_.random.below(2) == 0) searching = idle_.begin_search(0);
      idle_.announce(0, bit, std::exchange(searching, false));
      const bool looked = wrong_ != fault::no_last_look;
      const bool stay = looked && (inject_.maybe_nonempty() || stopping());
      continuation_chain ready;
      searching = sleep(bit, stay, ready);
      while (continuation* const next = ready.take_first()) run_one(*next);
    }
  }

  void end_search() {
    if (idle_.end_search(0) && inject_.maybe_nonempty()) wake_one();
  }

  /// Returns whether it was claimed.
  bool sleep(unsigned bit, bool stay, continuation_chain& ready) {
    if (form_ == idle_set::form::named) {
      if (!stay) sleepers_[bit].wait(-1);
      return idle_.leave(0, bit, false);
    }
    const bool woken = !stay && set_.wait(ready);
    if (wrong_ == fault::token_read_late) {
      const bool claimed = idle_.leave(0, bit, woken);
      if (woken) set_.take_token();
      return claimed;
    }
    return idle_.leave(0, bit, woken && set_.take_token());
  }

  void run_one(continuation& work) {
    if (here_.random.below(4) == 0) here_.compute(here_.random.below(20'000));
    work.invoke(work, continuation::disposition::run);
  }

  machine& here_;
  const idle_set::form form_;
  const fault wrong_;
  idle_set idle_;
  inject_queue inject_;
  simulated_reactor set_;
  std::vector<futex_parker> sleepers_;
  std::vector<std::unique_ptr<item>> work_;
  unsigned done_ = 0;
  atomic<bool> stopping_{false};
};

template <idle_set::form Form, fault Wrong>
void schedules(machine& here) {
  const unsigned parkers = 1 + here.random.below(4);
  parking all(here, Form, parkers, 1 + here.random.below(2), Wrong);
  all.run();
}

constexpr auto named = idle_set::form::named;
constexpr auto counted = idle_set::form::counted;

const registered by_name("parking_by_name", "futexes: no wake-up is lost",
                         &schedules<named, fault::none>);
const registered in_a_set("parking_in_a_set", "a shared set: no wake-up is lost",
                          &schedules<counted, fault::none>);
const registered no_look("parking_by_name_without_the_last_look", "must fail: nothing_is_lost",
                         &schedules<named, fault::no_last_look>);
const registered no_look_set("parking_in_a_set_without_the_last_look", "must fail: nothing_is_lost",
                             &schedules<counted, fault::no_last_look>);
const registered late("parking_with_a_token_read_late", "must fail: nothing_is_lost",
                      &schedules<counted, fault::token_read_late>);

}  // namespace
}  // namespace bwos::simulation

// SPDX-License-Identifier: Apache-2.0
#include "http/h2/clock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <vector>

namespace bwos::server::h2 {

void PrintTo(due what, std::ostream* to) {
  constexpr std::array<const char*, 9> names{"nothing",     "notice",   "leave",
                                             "probe",       "end_idle", "end_late_header",
                                             "end_unheard", "end_old",  "give_back"};
  *to << names.at(static_cast<std::size_t>(what));
}

namespace {

using namespace std::chrono_literals;
using time_point = clock_facts::time_point;

constexpr time_point start{1000s};
constexpr time_point never = time_point::max();

/// Times that can be told apart.
const limits bounds{.handshake_timeout = 10s,
                    .header_timeout = 7s,
                    .idle_timeout = 300s,
                    .keepalive = 1000s,
                    .keepalive_timeout = 20s,
                    .age_grace = 60s};

/// An idle connection.
clock_facts facts() {
  return {.began = start,
          .heard = start,
          .idle_since = start,
          .header_since = start,
          .probed_at = start,
          .leave_at = start,
          .is_established = true};
}

template <class Change>
clock_facts but(Change change) {
  clock_facts changed = facts();
  change(changed);
  return changed;
}

struct row {
  const char* what;
  clock_facts of;
  time_point now;
  due expected;
  time_point next;  // of `nothing`
};

const auto spare = [](clock_facts& of) { of.has_spare = true; };
const auto streams = [](clock_facts& of) { of.has_streams = true; };

TEST(h2_clock, says_what_is_due_and_when_to_ask_again) {
  const std::vector<row> table{
      {"idle, for a moment", facts(), start + 1s, due::nothing, start + 300s},
      {"idle, just not long enough", facts(), start + 300s - 1ns, due::nothing, start + 300s},
      {"idle, long enough", facts(), start + 300s, due::end_idle, {}},
      {"with what it does not need yet", but(spare), start + 1s, due::nothing, start + spare_kept},
      {"and has not needed for long", but(spare), start + spare_kept, due::give_back, {}},
      {"while it has a stream", but([](auto& of) { of.has_spare = of.has_streams = true; }),
       start + 100s, due::nothing, start + 1000s},
      {"while a header comes", but([](auto& of) { of.has_spare = of.in_header = true; }),
       start + 6s, due::nothing, start + 7s},
      {"while what is idle waits for us",
       but([](auto& of) { of.has_spare = of.is_our_turn = true; }), start + 100s, due::nothing,
       start + 1000s},
      {"streams are open", but(streams), start + 300s, due::nothing, start + 1000s},
      {"what is idle waits for us", but([](auto& of) { of.is_our_turn = true; }), start + 300s,
       due::nothing, start + 1000s},
      {"no handshake yet", but([](auto& of) { of.is_established = false; }), start + 9s,
       due::nothing, start + 10s},
      {"no handshake in time",
       but([](auto& of) { of.is_established = false; }),
       start + 10s,
       due::end_late_header,
       {}},
      {"no handshake in time, whosever turn it is",
       but([](auto& of) {
         of.is_established = false;
         of.is_our_turn = true;
       }),
       start + 10s,
       due::end_late_header,
       {}},
      {"in a header", but([](auto& of) { of.in_header = of.has_streams = true; }), start + 6s,
       due::nothing, start + 7s},
      {"a header that does not end",
       but([](auto& of) { of.in_header = of.has_streams = true; }),
       start + 7s,
       due::end_late_header,
       {}},
      {"a header that waits for us", but([](auto& of) { of.in_header = of.is_our_turn = true; }),
       start + 7s, due::nothing, start + 1000s},
      {"silent for long", but(streams), start + 1000s, due::probe, {}},
      {"probed", but([](auto& of) { of.has_streams = of.probed = true; }), start + 19s,
       due::nothing, start + 20s},
      {"nobody answers the probe",
       but([](auto& of) { of.has_streams = of.probed = true; }),
       start + 20s,
       due::end_unheard,
       {}},
      {"old", but([](auto& of) { of.age_end = start + 5s; }), start + 5s, due::notice, {}},
      {"not old yet", but([](auto& of) { of.age_end = start + 5s; }), start + 4s, due::nothing,
       start + 5s},
      {"the server drains", but([](auto& of) { of.drains = true; }), start + 1s, due::notice, {}},
      {"noticed", but([](auto& of) {
         of.drains = true;
         of.stage = parting::noticed;
         of.leave_at = start + 2s;
       }),
       start + 1s, due::nothing, start + 2s},
      {"the notice has arrived",
       but([](auto& of) {
         of.stage = parting::noticed;
         of.leave_at = start + 2s;
         of.notice_arrived = true;
       }),
       start + 1s,
       due::leave,
       {}},
      {"the notice is not answered",
       but([](auto& of) {
         of.stage = parting::noticed;
         of.leave_at = start + 2s;
       }),
       start + 2s,
       due::leave,
       {}},
      {"it has left, and its streams go on", but([](auto& of) {
         of.stage = parting::left;
         of.drains = of.notice_arrived = of.has_streams = true;
       }),
       start + 2s, due::nothing, start + 1000s},
      {"its grace is over",
       but([](auto& of) {
         of.stage = parting::left;
         of.has_streams = true;
         of.cut_at = start + 60s;
       }),
       start + 60s,
       due::end_old,
       {}},
      {"several are due: parting comes first",
       but([](auto& of) { of.drains = true; }),
       start + 2000s,
       due::notice,
       {}},
      {"it has ended", but([](auto& of) { of.ended = of.drains = true; }), start + 2000s,
       due::nothing, never},
  };
  for (const row& each : table) {
    const clock_step step = what_is_due(each.of, bounds, each.now);
    EXPECT_EQ(step.what, each.expected) << each.what;
    if (each.expected == due::nothing) {
      EXPECT_EQ(step.next, each.next) << each.what;
    }
  }
}

TEST(h2_clock, limits_of_0_are_none) {
  const clock_facts of = but(streams);
  EXPECT_EQ(what_is_due(of, {.keepalive = 0s}, start + 24h * 365).what, due::nothing);
  EXPECT_EQ(what_is_due(of, {.keepalive = 0s}, start).next, never);
}

/// All that is due at one time, in its order.
std::vector<due> all_due(clock_facts& of, time_point now, const limits& by = bounds) {
  std::vector<due> done;
  for (due what = due::notice; what != due::nothing && done.size() < 10;) {
    what = what_is_due(of, by, now).what;
    did(what, of, by, now);
    done.push_back(what);
  }
  return done;
}

TEST(h2_clock, each_is_done_once) {
  clock_facts of = facts();
  of.drains = true;
  EXPECT_EQ(all_due(of, start + 1s), (std::vector{due::notice, due::nothing}));
  EXPECT_EQ(of.leave_at, start + 1s + goaway_patience);
  EXPECT_EQ(all_due(of, of.leave_at), (std::vector{due::leave, due::nothing}));
  EXPECT_EQ(all_due(of, start + 300s), (std::vector{due::end_idle, due::nothing}));
  EXPECT_EQ(all_due(of, start + 24h), (std::vector{due::nothing}));
}

TEST(h2_clock, a_probe_that_is_answered_is_followed_by_another) {
  clock_facts of = but(streams);
  EXPECT_EQ(all_due(of, start + 1000s), (std::vector{due::probe, due::nothing}));
  of.probed = false;
  of.heard = start + 1001s;
  EXPECT_EQ(all_due(of, start + 2000s), (std::vector{due::nothing}));
  EXPECT_EQ(all_due(of, start + 2001s), (std::vector{due::probe, due::nothing}));
  EXPECT_EQ(all_due(of, start + 2021s), (std::vector{due::end_unheard, due::nothing}));
}

TEST(h2_clock, grace_is_for_what_is_old_and_not_for_a_server_that_drains) {
  clock_facts old = facts();
  old.age_end = start + 5s;
  (void)all_due(old, start + 5s);
  EXPECT_EQ(old.cut_at, start + 65s);
  clock_facts drained = facts();
  drained.drains = true;
  (void)all_due(drained, start + 5s);
  EXPECT_EQ(drained.cut_at, never);
  clock_facts patient = facts();
  patient.age_end = start + 5s;
  (void)all_due(patient, start + 5s, {});
  EXPECT_EQ(patient.cut_at, never) << "no grace: its streams take as long as they take";
}

}  // namespace
}  // namespace bwos::server::h2

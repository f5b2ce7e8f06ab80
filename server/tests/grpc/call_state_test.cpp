// SPDX-License-Identifier: Apache-2.0
// The two tables at the top of call_state.hpp: what may follow may, and what it answers then.
#include "grpc/call_state.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace bwos::server::rpc {
namespace {

using stream = call_state::stream;
using handler = call_state::handler;

/// Enters all of `streams`, with a handler that begins behind `request`, if it `runs`.
call_state at(const std::vector<stream>& streams, bool runs = true) {
  call_state made;
  for (const stream each : streams) {
    made.enter(each);
    if (runs && each == stream::request) made.enter(handler::running);
  }
  return made;
}

TEST(call_state, begins_with_a_header_that_is_not_whole) {
  const call_state fresh;
  EXPECT_FALSE(fresh.is_open());
  EXPECT_FALSE(fresh.is_wanted());
  EXPECT_FALSE(fresh.is_answered());
  EXPECT_FALSE(fresh.is_running());
  EXPECT_FALSE(fresh.is_over());
}

TEST(call_state, goes_from_its_header_to_its_answers_end) {
  call_state one = at({stream::request});
  EXPECT_TRUE(one.is_open());
  EXPECT_TRUE(one.is_wanted());
  EXPECT_TRUE(one.is_running());
  one.enter(stream::answer);
  EXPECT_TRUE(one.has_begun_answer());
  EXPECT_TRUE(one.is_wanted());
  EXPECT_FALSE(one.is_answered());
  one.enter(handler::ended);
  one.enter(stream::answered);
  EXPECT_TRUE(one.is_answered());
  EXPECT_FALSE(one.is_wanted());
  EXPECT_TRUE(one.is_open());
  EXPECT_FALSE(one.is_over());
  one.enter(stream::answered);  // it is reset behind its answer
  one.enter(stream::closed);
  EXPECT_FALSE(one.is_open());
  EXPECT_TRUE(one.is_answered());
  EXPECT_TRUE(one.is_over());
  one.enter(stream::closed);  // the connection is lost
}

TEST(call_state, is_not_over_while_its_handler_runs) {
  call_state one = at({stream::request, stream::closed});
  EXPECT_TRUE(one.is_running());
  EXPECT_FALSE(one.is_over());
  one.enter(handler::ended);
  EXPECT_TRUE(one.is_over());
}

TEST(call_state, is_over_without_a_handler_once_it_is_closed) {
  EXPECT_TRUE(at({stream::closed}).is_over());
  EXPECT_TRUE(at({stream::request, stream::closed}, false).is_over());
  EXPECT_TRUE(at({stream::request, stream::answered, stream::closed}, false).is_over());
}

#ifndef NDEBUG
TEST(call_state_death, what_may_not_follow_is_told) {
  EXPECT_DEATH(at({stream::answer}), "may_follow");  // behind a header that is not whole
  EXPECT_DEATH(at({stream::answered}), "may_follow");
  EXPECT_DEATH(at({stream::request, stream::answer}, false), "may_follow");  // nobody answers
  EXPECT_DEATH(at({stream::request, stream::request}), "may_follow");
  EXPECT_DEATH(at({stream::request, stream::answered, stream::answer}), "may_follow");
  EXPECT_DEATH(at({stream::closed, stream::request}), "may_follow");
  call_state fresh;
  EXPECT_DEATH(fresh.enter(handler::running), "may_follow");
  EXPECT_DEATH(fresh.enter(handler::ended), "may_follow");
  call_state ended = at({stream::request});
  ended.enter(handler::ended);
  EXPECT_DEATH(ended.enter(handler::running), "may_follow");
}
#endif

}  // namespace
}  // namespace bwos::server::rpc

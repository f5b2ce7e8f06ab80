// SPDX-License-Identifier: Apache-2.0
#include "steal/amount.hpp"

#include <gtest/gtest.h>

namespace bwos::test {
namespace {

std::size_t amount(steal_amount what, std::size_t open, std::size_t batch = 16,
                   std::size_t room = 64) {
  return amount_to_steal(what, batch, room).of(open);
}

TEST(amount_to_steal, one_is_one) {
  for (const std::size_t open : {0U, 1U, 2U, 64U}) EXPECT_EQ(amount(steal_amount::one, open), 1U);
}

TEST(amount_to_steal, a_batch_is_what_was_set) {
  EXPECT_EQ(amount(steal_amount::batch, 64), 16U);
  EXPECT_EQ(amount(steal_amount::batch, 64, 1), 1U);
  EXPECT_EQ(amount(steal_amount::batch, 64, 64), 64U);
  EXPECT_EQ(amount(steal_amount::batch, 64, 64, 8), 8U) << "no more than there is room for";
}

TEST(amount_to_steal, half_is_rounded_up_and_never_nothing) {
  constexpr std::size_t halves[] = {1, 1, 1, 2, 2, 3, 3, 4};
  for (std::size_t open = 0; open < 8; ++open) {
    EXPECT_EQ(amount(steal_amount::half, open), halves[open]) << open;
  }
  EXPECT_EQ(amount(steal_amount::half, 63), 32U);
  EXPECT_EQ(amount(steal_amount::half, 64), 32U);
  EXPECT_EQ(amount(steal_amount::half, 1024), 64U) << "no more than there is room for";
}

TEST(amount_to_steal, a_block_is_all_that_there_is_room_for) {
  for (const std::size_t open : {0U, 1U, 64U}) EXPECT_EQ(amount(steal_amount::block, open), 64U);
  EXPECT_EQ(amount(steal_amount::block, 64, 16, 8), 8U);
}

}  // namespace
}  // namespace bwos::test

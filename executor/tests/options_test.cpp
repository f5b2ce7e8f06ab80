// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bwos/options.hpp>
#include <set>
#include <stdexcept>
#include <string>

namespace bwos::test {
namespace {

/// What validate() says; empty: nothing.
std::string complaint(const options& settings) {
  try {
    settings.validate();
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(options, every_way_of_stealing_is_valid_and_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (unsigned i = 0; i <= static_cast<unsigned>(steal_kind::topology); ++i) {
    options settings;
    settings.steal = static_cast<steal_kind>(i);
    EXPECT_EQ(complaint(settings), "");
    names.insert(name_of(settings.steal));
  }
  EXPECT_EQ(names, (std::set<std::string>{"random", "none", "sequential", "last-victim",
                                          "best-of-two", "best-of-many", "topology"}));
  names.clear();
  for (const auto choice : {steal_choice::in_use, steal_choice::probabilistic}) {
    options settings;
    settings.steal_blocks = choice;
    EXPECT_EQ(complaint(settings), "");
    names.insert(name_of(choice));
  }
  EXPECT_EQ(names, (std::set<std::string>{"in-use", "probabilistic"}));
  names.clear();
  for (const auto amount :
       {steal_amount::batch, steal_amount::one, steal_amount::half, steal_amount::block}) {
    options settings;
    settings.steal_takes = amount;
    EXPECT_EQ(complaint(settings), "");
    names.insert(name_of(amount));
  }
  EXPECT_EQ(names, (std::set<std::string>{"batch", "one", "half", "block"}));
}

TEST(options, what_is_no_way_of_stealing_is_named) {
  options settings;
  settings.steal = static_cast<steal_kind>(99);
  EXPECT_NE(complaint(settings).find("options::steal is 99"), std::string::npos);
  settings = {};
  settings.steal_blocks = static_cast<steal_choice>(7);
  EXPECT_NE(complaint(settings).find("options::steal_blocks is 7"), std::string::npos);
  settings = {};
  settings.steal_takes = static_cast<steal_amount>(4);
  EXPECT_NE(complaint(settings).find("options::steal_takes is 4"), std::string::npos);
  settings = {};
  settings.steal_batch = options::steal_batch_max + 1;
  EXPECT_NE(complaint(settings).find("options::steal_batch is 65"), std::string::npos);
}

TEST(options, by_default_stealing_is_random_by_batches_of_16) {
  const options settings;
  EXPECT_EQ(settings.steal, steal_kind::random);
  EXPECT_EQ(settings.steal_blocks, steal_choice::in_use);
  EXPECT_EQ(settings.steal_takes, steal_amount::batch);
  EXPECT_EQ(settings.steal_batch, 16U);
}

}  // namespace
}  // namespace bwos::test

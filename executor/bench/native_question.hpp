// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <thread>

#include "answer.hpp"

namespace bwos::bench {

/// A pool, and a task that answers the thread which posts it there.
class native_question : bwos::continuation {
 public:
  explicit native_question(const bwos::options& how) : continuation(&run), pool_(how) {}
  void ask() { pool_.post(*this); }
  void until_parked() {
    while (pool_.statistics().parked != pool_.workers()) std::this_thread::yield();
  }
  answer reply;

 private:
  static void run(bwos::continuation& self, disposition) noexcept {
    static_cast<native_question&>(self).reply.give();
  }
  bwos::pool pool_;
};

}  // namespace bwos::bench

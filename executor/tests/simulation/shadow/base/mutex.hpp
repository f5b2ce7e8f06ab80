// SPDX-License-Identifier: Apache-2.0
// Stands in front of executor/src/base/mutex.hpp: see atomic.hpp.
#pragma once

#include <source_location>

#include "machine.hpp"

namespace bwos {

class mutex {
  using place = std::source_location;

 public:
  mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock(place at = place::current()) noexcept {
    simulation::touch(this, simulation::access::change, "locks", at);
    // Whoever comes between the wake and the woken may have it first, as with std::mutex.
    while (locked_) simulation::machine::current()->wait(this, simulation::never, "lock");
    locked_ = true;
    simulation::step("has locked", at);
  }
  bool try_lock(place at = place::current()) noexcept {
    simulation::touch(this, simulation::access::change, "tries to lock", at);
    if (locked_) return false;
    locked_ = true;
    simulation::step("has locked", at);
    return true;
  }
  void unlock(place at = place::current()) noexcept {
    simulation::touch(this, simulation::access::change, "unlocks", at);
    locked_ = false;
    simulation::machine* const here = simulation::machine::current();
    if (here != nullptr) here->wake(this);
    simulation::step("has unlocked", at);
  }

 private:
  bool locked_ = false;
};

}  // namespace bwos

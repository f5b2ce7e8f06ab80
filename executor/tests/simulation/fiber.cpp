// SPDX-License-Identifier: Apache-2.0
// The C library's check of jumps knows one stack a thread.
#undef _FORTIFY_SOURCE
#include "fiber.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#ifdef BWOS_SIMULATION_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace bwos::simulation {
namespace {

/// Waits for forks nest on them, 64 deep at most (options::wait_depth).
constexpr std::size_t stack_bytes = std::size_t{512} * 1024;

/// Stacks of fibers that have ended, for the next ones: a seed needs half a dozen, and there are
/// many seeds.
std::vector<std::unique_ptr<std::byte[]>>& spare_stacks() {
  static std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

std::byte* take_stack() {
  auto& spare = spare_stacks();
  if (spare.empty()) return std::make_unique_for_overwrite<std::byte[]>(stack_bytes).release();
  std::byte* const taken = spare.back().release();
  spare.pop_back();
  return taken;
}

}  // namespace

fiber::fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  ::getcontext(&first_);
  first_.uc_stack.ss_sp = stack_;
  first_.uc_stack.ss_size = stack_bytes;
  first_.uc_link = nullptr;
  // makecontext() hands on nothing wider than an int.
  const std::uint64_t self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&first_, reinterpret_cast<void (*)()>(&enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

fiber::~fiber() {
  spare_stacks().emplace_back(stack_);
}

void fiber::enter(unsigned high, unsigned low) noexcept {
  const std::uint64_t self = std::uint64_t{high} << 32 | low;
  reinterpret_cast<fiber*>(static_cast<std::uintptr_t>(self))->run();
}

#ifdef BWOS_SIMULATION_ASAN

void fiber::run() noexcept {
  __sanitizer_finish_switch_fiber(nullptr, &outside_stack_, &outside_size_);
  body_();
  ended_ = true;
  __sanitizer_start_switch_fiber(nullptr, outside_stack_, outside_size_);
  ::setcontext(&outside_);
}

void fiber::resume() noexcept {
  void* mine = nullptr;
  __sanitizer_start_switch_fiber(&mine, stack_, stack_bytes);
  ::swapcontext(&outside_, &first_);
  __sanitizer_finish_switch_fiber(mine, nullptr, nullptr);
}

void fiber::leave() noexcept {
  __sanitizer_start_switch_fiber(&fake_stack_, outside_stack_, outside_size_);
  ::swapcontext(&first_, &outside_);
  __sanitizer_finish_switch_fiber(fake_stack_, &outside_stack_, &outside_size_);
}

#else

void fiber::run() noexcept {
  body_();
  ended_ = true;
  ::_longjmp(outside_, 1);
}

void fiber::resume() noexcept {
  if (::_setjmp(outside_) != 0) return;
  if (begun_) ::_longjmp(inside_, 1);
  begun_ = true;
  ::setcontext(&first_);
}

void fiber::leave() noexcept {
  if (::_setjmp(inside_) == 0) ::_longjmp(outside_, 1);
}

#endif

}  // namespace bwos::simulation

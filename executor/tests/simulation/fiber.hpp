// SPDX-License-Identifier: Apache-2.0
// A stack of its own on the one real thread, entered and left by hand.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <functional>

namespace bwos::simulation {

class fiber {
 public:
  /// `body` runs on the fiber's stack from the first resume() on. It must not let an exception out.
  explicit fiber(std::function<void()> body);
  /// It has ended, or is never resumed again: then what lies on its stack is leaked.
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// From outside: runs the body until it calls leave() or ends.
  void resume() noexcept;
  /// On the fiber: back to who resumed it.
  void leave() noexcept;
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  static void enter(unsigned high, unsigned low) noexcept;
  void run() noexcept;

  std::function<void()> body_;
  std::byte* const stack_;
  bool begun_ = false;
  bool ended_ = false;
  // makecontext() makes the stack and jumps change it: swapcontext() costs two system calls, 310 ns
  // where the jumps cost 20 (measured). A sanitizer knows the former, and must be told where to.
#ifdef BWOS_SIMULATION_ASAN
  ucontext_t outside_{};
  void* fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_size_ = 0;
#else
  std::jmp_buf outside_;
  std::jmp_buf inside_;
#endif
  ucontext_t first_{};
};

}  // namespace bwos::simulation

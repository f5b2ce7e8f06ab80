// SPDX-License-Identifier: Apache-2.0
#include "grpc/message_pipe.hpp"

#include <bwos/continuation.hpp>

#include "grpc/call.hpp"
#include "grpc/framing.hpp"

namespace bwos::server::rpc {
namespace {

/// Room for a message behind its prefix.
char* add_prefix(std::string& to, std::size_t size, bool compressed) {
  const std::size_t at = to.size();
  to.resize(at + message_prefix::bytes + size);
  message_prefix{.flag = compressed ? std::uint8_t{1} : std::uint8_t{0},
                 .size = static_cast<std::uint32_t>(size)}
      .write(to.data() + at);
  return to.data() + at + message_prefix::bytes;
}

}  // namespace

// Not inlined: a coroutine that calls it may go on on another thread.
[[gnu::noinline]] const message_pipe*& running_here() noexcept {
  thread_local const message_pipe* which = nullptr;
  return which;
}

bool message_pipe::is_here() const noexcept {
  return running_here() == this;
}

/// The handler is `here`, and its connection's turn is over. Says so twice running: to who tries,
/// and to who waits then.
bool message_pipe::pauses() noexcept {
  return is_here() && !has_resumed_ && call_.turn_is_over();
}

/// Lets the lock go; behind it the call may be gone if it has ended.
void message_pipe::tell(std::unique_lock<std::mutex>& held) noexcept {
  const bool pushes = !told_ && !is_here();
  told_ |= pushes;
  held.unlock();
  if (pushes) call_.push();
}

bool message_pipe::is_ready() const noexcept {
  switch (waits_for_) {
    case wait::none:
      return false;
    case wait::read:
      return over_ || unread_ > 0 || no_more_;
    case wait::write:
      return over_ || fits(wants_);
    case wait::notice:
      return over_ || noticed_;
    case wait::end:
      return over_;
  }
  return false;
}

// The handler.

/// True: it does.
bool message_pipe::wait_for(wait what, coroutine_waiter& waiting) noexcept {
  std::unique_lock held(mutex_);
  waits_for_ = what;
  if (is_ready() && !((what == wait::read || what == wait::write) && pauses())) return false;
  waiter_ = &waiting;
  if (what == wait::end) tell(held);  // who waits for is_settled()
  return true;
}

rpc::step message_pipe::try_read(google::protobuf::MessageLite& into) {
  std::unique_lock held(mutex_);
  if (over_ || is_bad()) return rpc::step::over;
  if (unread_ == 0) return no_more_ ? rpc::step::over : rpc::step::wait;
  if (pauses()) return rpc::step::wait;
  has_resumed_ = false;
  if (read_to_ == reading_.size()) {
    const std::string rest = in_.substr(in_whole_);
    reading_.swap(in_);  // which is empty
    reading_.resize(std::exchange(in_whole_, 0));
    in_.assign(rest);
    read_to_ = 0;
  }
  const char* const at = reading_.data() + read_to_;
  const message_prefix prefix = message_prefix::read(
      std::as_bytes(std::span<const char, message_prefix::bytes>(at, message_prefix::bytes)));
  const std::size_t size = message_prefix::bytes + prefix.size;
  read_to_ += size;
  read_ += size;
  unread_ -= size;
  if (unread_ == 0 || read_ >= untold_bytes_max) {
    tell(held);
  } else {
    held.unlock();
  }
  const bool good =
      call_.read(into, {at + message_prefix::bytes, prefix.size}, prefix.flag != 0, why_bad_);
  forget_read();
  if (!good) {
    bad();
    return rpc::step::over;
  }
  return rpc::step::done;
}

/// What was read takes no memory: all of it, or the first half of much.
void message_pipe::forget_read() {
  if (read_to_ == reading_.size()) {
    h2::empty(reading_);
    read_to_ = 0;
  } else if (read_to_ >= untold_bytes_max && read_to_ >= reading_.size() / 2) {
    reading_ = reading_.substr(std::exchange(read_to_, 0));
  }
}

bool message_pipe::wait_to_read(coroutine_waiter& waiting) {
  return wait_for(wait::read, waiting);
}

/// Compresses it, once however often it is tried. False: that makes it no smaller.
bool message_pipe::pack(const google::protobuf::MessageLite& from) {
  if (!is_packed_) {
    packed_.clear();
    const std::string plain = from.SerializeAsString();
    deflate(call_.reply_encoding(), plain, packed_);
    if (packed_.size() >= plain.size()) packed_.clear();
    is_packed_ = true;
  }
  return !packed_.empty();
}

/// So much waits for the runner, or for room. False: there is no memory for it, and what was
/// charged is yet.
bool message_pipe::charge(std::size_t bytes) noexcept {
  const std::size_t now = bytes / memory_budget::granule * memory_budget::granule;
  if (now == charged_) return true;
  if (now > charged_ && !call_.memory().take_messages(now - charged_)) return false;
  if (now < charged_) call_.memory().give_back_messages(charged_ - now);
  charged_ = now;
  return true;
}

void message_pipe::give_back_charge() noexcept {
  const std::lock_guard held(mutex_);
  static_cast<void>(charge(0));
}

rpc::step message_pipe::write(const google::protobuf::MessageLite& from, bool compressed,
                              bool waits) {
  const bool packed = compressed && call_.reply_encoding() != encoding::identity && pack(from);
  const std::size_t size = packed ? packed_.size() : from.ByteSizeLong();
  std::unique_lock held(mutex_);
  if (over_ || is_bad()) return rpc::step::over;
  wants_ = message_prefix::bytes + size;
  if (!charge(out_.size() + wants_)) {
    wants_ = 0;  // collect() must not charge it
    why_bad_ = call::no_room();
    bad();
    return rpc::step::over;
  }
  if (waits && (!fits(wants_) || pauses())) return rpc::step::wait;
  has_resumed_ = false;
  char* const to = add_prefix(out_, size, packed);
  if (packed) {
    packed_.copy(to, size);
    h2::empty(packed_);
  } else {
    from.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(to));
  }
  is_packed_ = false;
  unsent_ += std::exchange(wants_, 0);
  call_.begin_reply();
  tell(held);
  return rpc::step::done;
}

rpc::step message_pipe::try_write(const google::protobuf::MessageLite& from, bool compressed) {
  return write(from, compressed, true);
}

bool message_pipe::wait_to_write(const google::protobuf::MessageLite&, bool,
                                 coroutine_waiter& waiting) {
  return wait_for(wait::write, waiting);
}

void message_pipe::write_last(const google::protobuf::MessageLite& from) {
  (void)write(from, true, false);
}

void message_pipe::notify() noexcept {
  coroutine_waiter* waits = nullptr;
  {
    const std::lock_guard held(mutex_);
    noticed_ = true;
    if (waits_for_ == wait::notice) waits = std::exchange(waiter_, nullptr);
  }
  if (waits != nullptr) call_.post(*waits);
}

bool message_pipe::end() noexcept {
  const std::lock_guard held(mutex_);
  ended_ = true;
  const bool pushes = !told_ && !is_here();
  told_ |= pushes;
  return pushes;
}

// The runner.

bool message_pipe::bring(std::span<const std::byte> prefix, std::span<const std::byte> body,
                         bool whole) {
  const std::lock_guard held(mutex_);
  if (over_) return false;
  in_.append(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  in_.append(reinterpret_cast<const char*>(body.data()), body.size());
  if (!whole) return false;
  unread_ += in_.size() - in_whole_;
  in_whole_ = in_.size();
  return waiter_ != nullptr && is_ready();
}

bool message_pipe::bring_end() noexcept {
  const std::lock_guard held(mutex_);
  no_more_ = true;
  return waiter_ != nullptr && is_ready();
}

bool message_pipe::sent(std::size_t bytes) noexcept {
  const std::lock_guard held(mutex_);
  unsent_ -= bytes;
  return waiter_ != nullptr && is_ready();
}

coroutine_waiter* message_pipe::cancel() noexcept {
  const std::lock_guard held(mutex_);
  over_ = true;
  std::string().swap(in_);
  std::string().swap(out_);
  static_cast<void>(charge(wants_));
  return std::exchange(waiter_, nullptr);
}

coroutine_waiter* message_pipe::take_ready() noexcept {
  const std::lock_guard held(mutex_);
  return is_ready() ? std::exchange(waiter_, nullptr) : nullptr;
}

coroutine_waiter* message_pipe::take_waiter() noexcept {
  const std::lock_guard held(mutex_);
  return std::exchange(waiter_, nullptr);
}

void message_pipe::resume(coroutine_waiter& which) noexcept {
  has_resumed_ = true;
  run_here([&] {
    which.finish(continuation::disposition::run);
    return true;
  });
}

message_pipe::left message_pipe::collect(std::string& written, bool from_inbox) noexcept {
  const std::lock_guard held(mutex_);
  if (from_inbox) told_ = false;
  written.swap(out_);
  static_cast<void>(charge(wants_));
  return {.read = std::exchange(read_, 0),
          .ended = ended_ && !told_,
          .paused = waiter_ != nullptr && is_ready()};
}

bool message_pipe::is_settled() noexcept {
  const std::lock_guard held(mutex_);
  return out_.empty() && (!noticed_ || waits_for_ == wait::end);
}

bool message_pipe::has_unread() noexcept {
  const std::lock_guard held(mutex_);
  return unread_ > 0;
}

}  // namespace bwos::server::rpc

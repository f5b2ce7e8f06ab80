// SPDX-License-Identifier: Apache-2.0
// What a peer may make us do on one HTTP/2 connection beside serving it.
//
// clang-format off
// | what is counted                | how much                                     | what follows                |
// |--------------------------------|----------------------------------------------|-----------------------------|
// | frames that bring nothing (1)  | idle_frames_burst at once, _per_second later | ENHANCE_YOUR_CALM           |
// |                                | on; requests and bytes of DATA earn more     |                             |
// | windows that SETTINGS open (2) | as a WINDOW_UPDATE for each stream that has  | ENHANCE_YOUR_CALM           |
// |                                | something to send                            |                             |
// | RST_STREAM that we send for an | error_resets_burst at once, _per_second      | ENHANCE_YOUR_CALM           |
// | error of the peer's            | later on                                     |                             |
// | PING too soon, of gRPC peers   | limits::ping_strikes_max; frames of answers  | ENHANCE_YOUR_CALM,          |
// |                                | between two excuse both                      | "too_many_pings"            |
// | RST_STREAM of the peer's       | nghttp2's: 1,000 at once, 33 a second        | INTERNAL_ERROR              |
// | CONTINUATION of one header     | nghttp2's: 8                                 | ENHANCE_YOUR_CALM           |
// | acknowledgements not read      | limits::acks_max that wait for the peer      | ENHANCE_YOUR_CALM           |
// | fields of a header             | limits::header_bytes_max                     | 431 or RESOURCE_EXHAUSTED   |
// |                                | header_excess times as much                  | ENHANCE_YOUR_CALM           |
// | streams open at once           | limits::streams_max                          | REFUSED_STREAM              |
// | handlers that run elsewhere    | limits::handlers_max                         | REFUSED_STREAM              |
// | answers that wait              | limits::output_bytes_max                     | REFUSED_STREAM              |
// | what requests keep             | limits::request_bytes_max                    | REFUSED_STREAM or           |
// |                                |                                              | RESOURCE_EXHAUSTED          |
// | windows that let too little go | limits::write_rate_min over a write_timeout  | CANCEL (send_watch.hpp)     |
// clang-format on
//
// (1) DATA that is empty or padding alone, PING, SETTINGS, PRIORITY, WINDOW_UPDATE, HEADERS and
// DATA on a closed stream, types that nobody knows, RST_STREAM that is skipped, what is an error of
// its stream.
//
// (2) One that is wider than ever before earns its bytes at once, as they are let go on each
// stream: clients that measure their windows double them a few times, with all their streams open.
//
// This class counts the first four rows. Tests: flood_limits_test.cpp; from outside, for all rows:
// blackbox/test_h2_attacks.py.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace bwos::server::h2 {

/// As nghttp2 counts the peer's resets.
inline constexpr double idle_frames_burst = 10'000;
inline constexpr double idle_frames_per_second = 330;
/// What a peer does earns it more of them: a whole request, for its PING (clients measure their
/// windows) and its WINDOW_UPDATEs; bytes of DATA, either way, for those WINDOW_UPDATEs. Guessed:
/// twice what grpc-go, the busiest known, sends.
inline constexpr double idle_frames_per_request = 8;
inline constexpr double idle_frames_per_byte = 1.0 / 1024;

/// As nghttp2 counts the peer's own. No client in order has any: a guess that leaves room.
inline constexpr double error_resets_burst = 1'000;
inline constexpr double error_resets_per_second = 33;

/// As limits::ping_interval_min, without a stream (gRPC C++'s).
inline constexpr std::chrono::hours ping_interval_without_streams{2};

/// One connection's. One thread at a time.
class flood_limits {
 public:
  using clock = std::chrono::steady_clock;

  /// Once for each batch, with the time that its frames are counted at.
  void now(clock::time_point when) noexcept {
    idle_frames_.now(when);
    error_resets_.now(when);
  }

  // False: too many.

  [[nodiscard]] bool take_idle_frames(std::uint64_t frames) noexcept {
    return idle_frames_.take(static_cast<double>(frames));
  }
  /// A SETTINGS frame gave each stream's window so many bytes. `waiting`: bytes of the answers of
  /// `streams` that have not been sent.
  [[nodiscard]] bool take_windows(std::uint32_t initial_window, std::size_t streams,
                                  std::size_t waiting) noexcept {
    const bool opens = initial_window > std::exchange(initial_window_, initial_window);
    const std::uint32_t wider = initial_window > widest_ ? initial_window - widest_ : 0;
    widest_ += wider;
    const double each = 1 - wider * idle_frames_per_byte;
    if (!opens || each <= 0) return true;
    return idle_frames_.take(each * static_cast<double>(std::min(streams, waiting)));
  }
  [[nodiscard]] bool take_error_reset() noexcept { return error_resets_.take(1); }
  /// A PING of a gRPC peer has come, which may come again after `apart` (gRPC's doc/keepalive.md,
  /// "Server Enforcement"): the peer may be measuring its window.
  [[nodiscard]] bool take_ping(clock::time_point when, clock::duration apart,
                               unsigned strikes_max) noexcept {
    const bool strike = has_pinged_ && when - pinged_ < apart;
    has_pinged_ = true;
    pinged_ = when;
    return !strike || ++strikes_ <= strikes_max;
  }

  // What the peer has done that it may send more for.

  void earn_request() noexcept { idle_frames_.earn(idle_frames_per_request); }
  void earn_bytes(std::uint64_t bytes) noexcept {
    idle_frames_.earn(static_cast<double>(bytes) * idle_frames_per_byte);
  }
  /// Frames of an answer were sent.
  void excuse_pings() noexcept {
    has_pinged_ = false;
    strikes_ = 0;
  }

 private:
  /// A bucket of tokens, full at first.
  class bucket {
   public:
    bucket(double burst, double per_second) noexcept
        : tokens_(burst), burst_(burst), per_second_(per_second) {}

    void now(clock::time_point when) noexcept {
      if (tokens_ < burst_ && when > filled_) {
        const std::chrono::duration<double> passed = when - filled_;
        tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
      }
      filled_ = when;
    }
    void earn(double tokens) noexcept { tokens_ = std::min(burst_, tokens_ + tokens); }
    [[nodiscard]] bool take(double tokens) noexcept { return (tokens_ -= tokens) >= 0; }

   private:
    double tokens_;
    const double burst_;
    const double per_second_;
    clock::time_point filled_;
  };

  bucket idle_frames_{idle_frames_burst, idle_frames_per_second};
  bucket error_resets_{error_resets_burst, error_resets_per_second};
  std::uint32_t initial_window_ = 65'535;  // RFC 9113, 6.5.2
  std::uint32_t widest_ = initial_window_;
  clock::time_point pinged_;  // if has_pinged_
  unsigned strikes_ = 0;
  bool has_pinged_ = false;
};

}  // namespace bwos::server::h2

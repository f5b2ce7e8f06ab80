// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

#include "net/limits.hpp"

namespace bwos::server {

using std::chrono::microseconds;

/// What one HTTP connection may take of the server. The flags of the same names set these;
/// config.cpp has the ranges.
struct http_limits {
  /// Request line and header fields; trailers and chunk extensions are counted against it anew.
  /// Above: 431, or 414 if the request line alone is.
  std::size_t header_bytes_max = 16 * 1024;
  /// Above: 413, before anything of the excess is kept.
  std::size_t body_bytes_max = 1024 * 1024;
  /// Requests answered before the answers are sent and other connections get their turn.
  unsigned pipeline_max = 256;
  microseconds idle_timeout =
      std::chrono::seconds(60);  ///< Without a request begun: closed silently.
  microseconds header_timeout = std::chrono::seconds(10);  ///< From a request's first byte: 408.
  microseconds body_timeout = std::chrono::seconds(30);    ///< From the end of its header: 408.
  microseconds write_timeout = std::chrono::seconds(30);   ///< For one batch of answers: closed.
  /// A drain lets a connection without a request live for so long, as one may be on its way or in
  /// the socket already.
  microseconds drain_idle = std::chrono::seconds(1);
  /// Routes whose handlers take longer on average wait for a worker that has nothing else to do
  /// (--lane-threshold-us); 0: none does.
  microseconds lane_threshold{0};
};

/// A connection that pipelines gives way after this much time: the longest that it keeps a worker
/// from the others, unless a single request takes longer.
inline constexpr microseconds pipeline_slice{100};
/// One that has come out of the lane answers long requests for so long before it goes there again
/// with the rest: each way there costs a send and a turn of the worker's loop, and while one of its
/// requests waits, those behind it do (.9 of the CPU where 200 us requests fill two workers, and a
/// twentieth of their wait). No longer than the worker's own slice.
inline constexpr microseconds lane_slice{300};
/// Brief answers (route::brief) written between two looks at the clock: together about a
/// microsecond.
inline constexpr unsigned brief_answers_per_look = 8;

/// Answers beyond this are sent before the next pipelined request is read (guessed: a socket
/// buffer's magnitude).
inline constexpr std::size_t output_bytes_max = 64 * 1024;

/// HTTP/2 reads so much of a receive before it looks for output, which acknowledgements count as:
/// more PINGs than --h2-acks-max must not come between. (A default of 1,000 of them are 17,000.)
inline constexpr std::size_t batch_bytes_max = 16 * 1024;

/// Room is made at once for so much of a body that has not come yet: growing by doubling copies it,
/// and frees blocks that are large enough for malloc() to return their pages each time.
inline constexpr std::size_t body_bytes_ahead = 256 * 1024;

/// A body of so much is sent from where it lies, and not copied behind its head. A guess: well
/// above what a longer system call costs, and the answers behind it wait for another one.
inline constexpr std::size_t body_bytes_apart = 32 * 1024;

/// So much of a body that is yet to come is received straight to where the body is gathered. Less
/// is received as all else is, with what may come behind it. A guess: what copying it costs is what
/// a system call does.
inline constexpr std::size_t body_bytes_direct = 16 * 1024;

/// So many bytes that are received there count as one of input_bytes_max, as they are neither
/// copied again nor parsed. If each counted, 100 connections with bodies of 256 KiB would take
/// turns in the midst of them, and the bodies would have left the cache before they are sent.
inline constexpr std::size_t direct_bytes_per_byte = 4;

/// A request with a body of so much does not come by one receive (bwos::options::receive_bytes).
/// Behind it the next receive takes head_bytes_expected at most, a head and little of its body: a
/// 256 KiB echo takes .91 [.85, .95] times the CPU.
inline constexpr std::size_t body_bytes_divided = 128 * 1024;
inline constexpr std::size_t head_bytes_expected = 8 * 1024;
static_assert(head_bytes_expected >= input_bytes_bulk, "it would look like a pause");

/// A worker's output buffer that became larger than this is freed after the batch (guessed: more
/// than the answers of a batch take, but for what one may exceed it by).
inline constexpr std::size_t output_bytes_kept = 256 * 1024;

}  // namespace bwos::server

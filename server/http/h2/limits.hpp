// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bwos::server::h2 {

using std::chrono::microseconds;

/// What one HTTP/2 connection may take of the server. The flags of the same names set these;
/// config.cpp has the ranges.
struct limits {
  /// Fields of one request, each counted as RFC 9113, 6.5.2 has it: name, value and 32 bytes.
  /// Above, the request is refused; beyond header_excess times as much the connection ends.
  std::size_t header_bytes_max = 16 * 1024;
  /// Streams open at once (--grpc-streams-max); above: REFUSED_STREAM.
  unsigned streams_max = 1000;
  /// Answers that wait for the peer; while there are more, streams that open and calls about to be
  /// run get REFUSED_STREAM. Guessed: a few answers of the largest size.
  std::size_t output_bytes_max = std::size_t{16} * 1024 * 1024;
  /// Streams whose handlers have suspended or been handed on, also of those that the peer has given
  /// up (--grpc-handlers-max); above: REFUSED_STREAM. One less are handed on.
  unsigned handlers_max = 1000;
  /// Acknowledgements (of PING and SETTINGS) that wait for the peer; above, the connection ends.
  unsigned acks_max = 1000;
  /// From the accept to the end of the peer's first SETTINGS.
  microseconds handshake_timeout = std::chrono::seconds(10);
  /// From the first frame of a header to its last.
  microseconds header_timeout = std::chrono::seconds(10);
  /// Without a stream: GOAWAY. gRPC C++ has none; a guess, longer than a client's keepalive.
  microseconds idle_timeout = std::chrono::minutes(5);
  /// A peer of which nothing has been heard for so long is sent a PING (gRPC's default); if nothing
  /// comes within the second time either, the connection ends. 0: no PING.
  microseconds keepalive = std::chrono::hours(2);
  microseconds keepalive_timeout = std::chrono::seconds(20);
  /// A connection as old as that, give or take age_spread, is told to go; its calls may take
  /// age_grace yet. 0: it may grow as old as it likes; its calls may take as long.
  microseconds age_max{0};
  microseconds age_grace{0};
  /// Of gRPC peers: a PING sooner than this after another is a strike, where no answer was sent
  /// between them; more strikes than the maximum end the connection. 0: as many as it likes.
  microseconds ping_interval_min = std::chrono::minutes(5);
  unsigned ping_strikes_max = 2;
  /// What requests keep beyond connection_window. Unfinished messages, where they are larger than
  /// half a stream's window, and all of them while the connection's is half full: above, the call
  /// that brings more is refused. And messages of gRPC, as large as they are expanded, until their
  /// handlers have ended: above, RESOURCE_EXHAUSTED. Guessed: 16 messages of the largest size.
  std::size_t request_bytes_max = std::size_t{64} * 1024 * 1024;
  /// A message of a request, from its first byte (a unary one from its header's end) to its last
  /// (--body-timeout).
  microseconds body_timeout = std::chrono::seconds(30);
  /// A peer that takes nothing of what is written, or whose window takes nothing of an answer
  /// (--write-timeout).
  microseconds write_timeout = std::chrono::seconds(30);
  /// Bytes a second, on average over a write_timeout, that a peer's windows let go of an answer
  /// that waits for them, or of all answers where the connection's window is what they wait for.
  /// Below, those are reset. 0: any byte in that time is enough. As Kestrel has it: a client that
  /// reads as it can, over the slowest of mobile networks, is faster.
  std::size_t write_rate_min = 240;

  /// Of that, so many bytes within a write_timeout.
  [[nodiscard]] std::uint64_t write_bytes_min() const noexcept {
    const std::chrono::duration<double> patience = write_timeout;
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(write_rate_min) * patience.count()));
  }
};

/// A header of more than so many times its limit is no mistake.
inline constexpr std::size_t header_excess = 4;

/// While the fields of a connection's open streams take as much memory as so many lists of the
/// largest size, further streams are refused. Guessed: by default 4 MiB, which a thousand streams
/// (--grpc-streams-max) reach with some 20 fields each.
inline constexpr std::size_t header_lists_max = 256;

/// What a field takes beside its bytes. Guessed: two strings, in a list that doubles.
inline constexpr std::size_t field_bytes = 128;
/// What a stream takes beside its fields and data: each of a thousand streaming calls that waited
/// took 1.7 KB. And messages of up to rpc::uncharged_bytes_max.
inline constexpr std::size_t stream_bytes = 2304;

/// What an HTTP/2 connection takes while it is idle: nghttp2's session, mostly. Each of 5,000 made
/// 11.7 KiB resident behind a call, .8 KiB of it the header that may come again, and 7.7 KiB half a
/// minute later. Each of 8,000 without a stream was 5.7 KiB.
inline constexpr std::size_t connection_bytes = 11 * 1024;

/// Bytes that a peer may send ahead on one stream, and on the whole connection.
inline constexpr std::int32_t stream_window = 1 << 20;
inline constexpr std::int32_t connection_window = 16 << 20;

/// Fields of an answer's header, or of its trailers: more are handed over by way of the heap.
inline constexpr std::size_t fields_few = 8;

/// Output that is collected before it is sent: all of a batch of ordinary answers.
inline constexpr std::size_t send_bytes = 128 * 1024;

/// Part of --h2-age-max that a connection's is longer or shorter, so that those which began
/// together do not end together (gRPC's).
inline constexpr double age_spread = 0.1;

/// After the notice of a GOAWAY the peer's last calls are on their way for a round trip: until its
/// answer to a PING, but no longer than this.
inline constexpr std::chrono::milliseconds goaway_patience{1000};

/// An idle connection keeps for so long what makes its next stream cheap. Guessed: giving it back
/// and having it anew takes some ten microseconds, which are much for each call of a peer that
/// pauses briefly.
inline constexpr std::chrono::seconds spare_kept{30};

}  // namespace bwos::server::h2

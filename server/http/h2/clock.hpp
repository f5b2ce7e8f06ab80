// SPDX-License-Identifier: Apache-2.0
// What an HTTP/2 connection is due, and when: a function of times, without a clock of its own.
#pragma once

#include <chrono>
#include <cstdint>

#include "http/h2/limits.hpp"

namespace bwos::server::h2 {

/// How far a connection has come with its parting (RFC 9113, 6.8): GOAWAY that refuses nothing yet,
/// and GOAWAY behind it.
enum class parting : std::uint8_t { none, noticed, left };

/// What is known of a connection.
struct clock_facts {
  using time_point = std::chrono::steady_clock::time_point;

  time_point began;         ///< Accepted.
  time_point heard;         ///< The peer's last bytes.
  time_point idle_since;    ///< While it has no streams.
  time_point header_since;  ///< While in_header.
  time_point probed_at;     ///< While probed.
  time_point leave_at;      ///< While noticed: the notice's answer is waited for until then.
  time_point age_end = time_point::max();
  time_point cut_at = time_point::max();  ///< Its streams end, too.
  parting stage = parting::none;
  bool drains = false;          ///< The server wants it to go.
  bool notice_arrived = false;  ///< The peer has answered the PING behind the notice.
  bool is_established = false;  ///< The peer's preface and SETTINGS have come.
  bool in_header = false;
  bool has_streams = false;
  bool is_our_turn = false;  ///< What has come has to wait for us: the peer is not late.
  bool probed = false;       ///< A PING was sent, and nothing heard since.
  bool has_spare = false;    ///< It has had streams, and what they took is not given back.
  bool ended = false;
};

enum class due : std::uint8_t {
  nothing,
  notice,           ///< The first GOAWAY, and a PING.
  leave,            ///< The second.
  probe,            ///< A PING.
  end_idle,         ///< Nothing was asked for.
  end_late_header,  ///< Neither the handshake nor a header takes so long.
  end_unheard,      ///< Nobody has answered the probe.
  end_old,          ///< Its age's grace is over.
  give_back,        ///< What is not needed while nothing is asked for.
};

struct clock_step {
  due what;
  clock_facts::time_point next;  ///< Of `nothing`: when to ask again, though nothing happens.
};

/// One thing at a time: asked again once it is done (did()), until there is nothing.
[[nodiscard]] clock_step what_is_due(const clock_facts& of, const limits& bounds,
                                     clock_facts::time_point now) noexcept;

/// `what` was done.
void did(due what, clock_facts& to, const limits& bounds, clock_facts::time_point now) noexcept;

}  // namespace bwos::server::h2

// SPDX-License-Identifier: Apache-2.0
#include "http/h2/clock.hpp"

#include <algorithm>

namespace bwos::server::h2 {
namespace {

using time_point = clock_facts::time_point;

/// Of the handshake, a header, or nothing being asked for.
time_point patience_end(const clock_facts& of, const limits& bounds) noexcept {
  if (!of.is_established) return of.began + bounds.handshake_timeout;
  if (of.is_our_turn) return time_point::max();
  if (of.in_header) return of.header_since + bounds.header_timeout;
  return of.has_streams ? time_point::max() : of.idle_since + bounds.idle_timeout;
}

/// Of hearing something of the peer.
time_point silence_end(const clock_facts& of, const limits& bounds) noexcept {
  if (of.probed) return of.probed_at + bounds.keepalive_timeout;
  return bounds.keepalive.count() > 0 ? of.heard + bounds.keepalive : time_point::max();
}

/// Of being so idle that what is not needed meanwhile is better given back.
time_point spare_end(const clock_facts& of) noexcept {
  const bool is_idle = !of.has_streams && !of.in_header && !of.is_our_turn;
  return of.has_spare && is_idle ? of.idle_since + spare_kept : time_point::max();
}

}  // namespace

clock_step what_is_due(const clock_facts& of, const limits& bounds, time_point now) noexcept {
  if (of.ended) return {due::nothing, time_point::max()};
  time_point parts = time_point::max();
  if (of.stage == parting::none) {
    if (of.drains || now >= of.age_end) return {due::notice, now};
    parts = of.age_end;
  } else if (of.stage == parting::noticed) {
    if (of.notice_arrived || now >= of.leave_at) return {due::leave, now};
    parts = of.leave_at;
  }
  const time_point late = patience_end(of, bounds);
  if (now >= late) {
    return {of.is_established && !of.in_header ? due::end_idle : due::end_late_header, now};
  }
  const time_point silent = silence_end(of, bounds);
  if (now >= silent) return {of.probed ? due::end_unheard : due::probe, now};
  if (now >= of.cut_at) return {due::end_old, now};
  const time_point spare = spare_end(of);
  if (now >= spare) return {due::give_back, now};
  return {due::nothing, std::min({parts, late, silent, of.cut_at, spare})};
}

void did(due what, clock_facts& to, const limits& bounds, time_point now) noexcept {
  switch (what) {
    case due::nothing:
      return;
    case due::notice:
      to.stage = parting::noticed;
      to.leave_at = now + goaway_patience;
      if (!to.drains && bounds.age_grace.count() > 0) to.cut_at = now + bounds.age_grace;
      return;
    case due::leave:
      to.stage = parting::left;
      return;
    case due::probe:
      to.probed = true;
      to.probed_at = now;
      return;
    case due::give_back:
      to.has_spare = false;
      return;
    case due::end_idle:
    case due::end_late_header:
    case due::end_unheard:
    case due::end_old:
      to.ended = true;
      return;
  }
}

}  // namespace bwos::server::h2

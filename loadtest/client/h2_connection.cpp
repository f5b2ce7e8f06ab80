// SPDX-License-Identifier: Apache-2.0
#include "h2_connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>

namespace bwos::load {

using h2::frame_head;
using h2::frame_type;

namespace {

constexpr std::size_t read_bytes = 64 * 1024;
constexpr std::size_t prefix_bytes = 5;  // of a gRPC message: compressed or not, length

std::string with_prefix(std::string_view message) {
  std::string text(1, '\0');
  h2::append_u32(text, static_cast<std::uint32_t>(message.size()));
  return text.append(message);
}

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// -1 where it is no number.
std::int32_t number_in(std::string_view text) {
  std::int32_t value = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size() ? value : -1;
}

// Cuts the padding off; false where it is longer than the frame.
bool strip_padding(const frame_head& head, std::string_view& payload) {
  if (!head.has(h2::flag::padded)) return true;
  if (payload.empty()) return false;
  const auto padding = static_cast<unsigned char>(payload[0]);
  payload.remove_prefix(1);
  if (padding > payload.size()) return false;
  payload.remove_suffix(padding);
  return true;
}

}  // namespace

h2_request h2_request_of(const request_class& which, const sockaddr_in& target) {
  const bool grpc = which.protocol == protocol_kind::grpc;
  const bool post = grpc || which.post_bytes >= 0;
  h2_request made;
  made.fields = {{":method", post ? "POST" : "GET"},
                 {":scheme", "http"},
                 {":path", which.path},
                 {":authority", "localhost:" + std::to_string(ntohs(target.sin_port))}};
  if (grpc) {
    made.fields.push_back({"content-type", "application/grpc"});
    made.fields.push_back({"te", "trailers"});
    made.body = with_prefix(which.message);
    if (which.reply) made.expected = with_prefix(*which.reply);
  } else if (post) {
    made.fields.push_back({"content-type", "text/plain"});
    made.fields.push_back({"content-length", std::to_string(which.post_bytes)});
    made.body.assign(static_cast<std::size_t>(which.post_bytes), 'x');
  }
  return made;
}

h2_connection::h2_connection(const sockaddr_in& target, const std::vector<h2_request>& requests,
                             const std::vector<request_class>& classes, std::size_t carrier)
    : connection(target),
      requests_(requests),
      classes_(classes),
      carrier_(carrier),
      headers_(classes.size()) {
  nghttp2_hd_inflater* inflater = nullptr;
  if (::nghttp2_hd_inflate_new(&inflater) != 0) throw std::bad_alloc();
  inflater_.reset(inflater);
  // Left for the first flush: a socket just connected takes it.
  out_ = h2::preface;
  h2::append_head(out_, {12, frame_type::settings, 0, 0});
  h2::append_setting(out_, h2::setting::enable_push, 0);
  h2::append_setting(out_, h2::setting::initial_window_size, classes[carrier].window_bytes);
  if (classes[carrier].window_bytes > h2::window_default) {
    h2::append_window_update(out_, 0, classes[carrier].window_bytes - h2::window_default);
  }
}

std::uint32_t h2_connection::streams_max() const noexcept {
  constexpr std::uint32_t last_stream = 0x7f00'0000;  // they end soon after; a billion calls
  if (!settings_came_ || !opening_ || next_stream_ > last_stream) return 0;
  return carrier().streams == 0 ? peer_streams_max_
                                : std::min(carrier().streams, peer_streams_max_);
}

void h2_connection::begin(const window& measured, outcome& into) {
  flush({now_ns(), measured, into});  // the preface
}

void h2_connection::send_requests(std::size_t class_index, std::int64_t due_ns,
                                  const window& measured, outcome& into) {
  const unsigned burst = classes_[class_index].burst;
  const batch in{now_ns(), measured, into};
  const bool counted = measured.contains(due_ns);
  if (!opening_ || outstanding() >= outstanding_max) {
    if (counted) into.classes[class_index].failed(failure::unsent) += burst;
    return;
  }
  for (unsigned i = 0; i < burst; ++i) {
    if (counted) into.lateness_ns.record(in.now_ns - due_ns);
    waiting_.push_back({due_ns, class_index});
  }
  refill(in);
  flush(in);
}

// Opens as many streams as there is work and room for.
void h2_connection::refill(const batch& in) {
  const std::uint32_t most = streams_max();
  if (is_closed_loop()) {
    if (in.now_ns >= in.measured.end_ns) return;
    while (calls_.size() < most) start({in.now_ns, carrier_}, in);
  } else {
    while (calls_.size() < most && !waiting_.empty()) {
      start(waiting_.front(), in);
      waiting_.pop_front();
    }
  }
}

void h2_connection::start(const arrival& which, const batch& in) {
  const h2_request& request = requests_[which.class_index];
  call& made = calls_.insert(next_stream_);
  made.class_index = static_cast<std::uint32_t>(which.class_index);
  made.due_ns = which.due_ns;
  next_stream_ += 2;
  ++in.into.sent_in_all;
  if (in.measured.contains(which.due_ns)) ++in.into.classes[which.class_index].sent;

  const std::size_t at = out_.size();
  out_ += headers_of(which.class_index);
  h2::write_u32(out_.data() + at + 5, made.stream);
  const auto size = static_cast<std::int64_t>(request.body.size());
  if (size == 0) return;
  if (size > std::min({peer_window_, send_window_, std::int64_t{peer_frame_bytes_}})) {
    made.send_window = peer_window_;
    unfinished_.push_back(made.stream);
    window_grew_ = true;
    return send_bodies();
  }
  send_window_ -= size;
  made.body_sent = request.body.size();
  h2::append_head(out_, {static_cast<std::uint32_t>(size), frame_type::data, h2::flag::end_stream,
                         made.stream});
  out_ += request.body;
}

// The frame, but for its stream. The encoder's table changes only with the first requests.
const std::string& h2_connection::headers_of(std::size_t class_index) {
  std::string& frame = headers_[class_index];
  if (!frame.empty()) return frame;
  const h2_request& request = requests_[class_index];
  std::string block;
  const bool stays = encoder_.encode(request.fields, block);
  const std::uint8_t end = request.body.empty() ? h2::flag::end_stream : std::uint8_t{0};
  thread_local std::string made;
  made.clear();
  h2::append_head(made, {static_cast<std::uint32_t>(block.size()), frame_type::headers,
                         static_cast<std::uint8_t>(h2::flag::end_headers | end), 0});
  made += block;
  if (!stays) {
    for (std::string& each : headers_) each.clear();
    return made;
  }
  return frame = made;
}

// As much of the bodies as the peer's windows allow.
void h2_connection::send_bodies() {
  if (!window_grew_) return;
  window_grew_ = false;
  std::erase_if(unfinished_, [&](std::uint32_t stream) {
    call* const of = calls_.find(stream);
    if (of == nullptr) return true;
    const std::string& body = requests_[of->class_index].body;
    while (of->body_sent < body.size()) {
      const auto left = static_cast<std::int64_t>(body.size() - of->body_sent);
      const std::int64_t size =
          std::min({left, of->send_window, send_window_, std::int64_t{peer_frame_bytes_}});
      if (size <= 0) return false;
      h2::append_head(out_, {static_cast<std::uint32_t>(size), frame_type::data,
                             size == left ? h2::flag::end_stream : std::uint8_t{0}, stream});
      out_.append(body, of->body_sent, static_cast<std::size_t>(size));
      of->body_sent += static_cast<std::size_t>(size);
      of->send_window -= size;
      send_window_ -= size;
    }
    return true;
  });
}

void h2_connection::flush(const batch& in) {
  if (fd_ < 0 || out_.empty()) return;
  const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(out_.size())) {
    out_.clear();
  } else if (sent >= 0) {
    out_.erase(0, static_cast<std::size_t>(sent));
  } else if (errno != EAGAIN && errno != EINTR) {
    give_up(failure::reset, in);
  }
}

void h2_connection::on_writable(const window& measured, outcome& into) {
  flush({now_ns(), measured, into});
}

bool h2_connection::on_readable(bool ended, const window& measured, outcome& into) {
  constexpr int reads_max = 4;  // a quarter of a megabyte, well under a millisecond
  std::array<char, h2::head_bytes + h2::frame_bytes + read_bytes> buffer;
  for (int reads = 0; reads < reads_max && fd_ >= 0; ++reads) {
    std::memcpy(buffer.data(), partial_.data(), partial_.size());
    const ssize_t got = ::recv(fd_, buffer.data() + partial_.size(), read_bytes, 0);
    const batch in{now_ns(), measured, into};
    if (got > 0) {
      const auto size = static_cast<std::size_t>(got);
      std::string_view bytes(buffer.data(), partial_.size() + size);
      if (!take(bytes, in)) {
        give_up(failure::malformed, in);
        return false;
      }
      partial_.assign(bytes);
      send_bodies();
      refill(in);
      flush(in);
      if (fd_ >= 0 && !opening_ && calls_.size() == 0) close();  // told to go away, and done
      // A short read emptied the socket; what comes later is a new edge.
      if (size < read_bytes && !ended) return false;
    } else if (got < 0 && errno == EAGAIN) {
      return false;
    } else if (got == 0 || errno != EINTR) {
      give_up(got == 0 ? failure::closed : failure::reset, in);
    }
  }
  return fd_ >= 0;
}

// Whole frames from the front of `bytes`.
bool h2_connection::take(std::string_view& bytes, const batch& in) {
  while (bytes.size() >= h2::head_bytes) {
    const frame_head head = h2::read_head(bytes.data());
    if (head.length > h2::frame_bytes) return false;
    if (bytes.size() < h2::head_bytes + head.length) return true;
    if (!take_frame(head, bytes.substr(h2::head_bytes, head.length), in)) return false;
    bytes.remove_prefix(h2::head_bytes + head.length);
  }
  return true;
}

bool h2_connection::take_frame(const frame_head& head, std::string_view payload, const batch& in) {
  if (!settings_came_ && head.type != frame_type::settings) return false;
  if (block_stream_ != 0) {
    if (head.type != frame_type::continuation || head.stream != block_stream_) return false;
    return take_block(head, payload, in);
  }
  switch (head.type) {
    case frame_type::data:
      return take_data(head, payload, in);
    case frame_type::headers:
      return take_headers(head, payload, in);
    case frame_type::rst_stream:
      return take_reset(head, payload, in);
    case frame_type::settings:
      return take_settings(head, payload);
    case frame_type::ping:
      if (head.stream != 0 || payload.size() != 8) return false;
      if (head.has(h2::flag::ack)) return true;
      h2::append_head(out_, {8, frame_type::ping, h2::flag::ack, 0});
      out_ += payload;
      return true;
    case frame_type::goaway:
      return head.stream == 0 && take_goaway(payload, in);
    case frame_type::window_update:
      return take_window_update(head, payload);
    case frame_type::push_promise:  // we said that we take none
    case frame_type::continuation:
      return false;
    case frame_type::priority:
      break;
  }
  return true;  // of a kind that means nothing to us
}

bool h2_connection::take_data(const frame_head& head, std::string_view payload, const batch& in) {
  if (head.stream % 2 == 0 || head.stream >= next_stream_) return false;
  const std::size_t whole = payload.size();
  if (!acknowledge(0, unacknowledged_, whole) || !strip_padding(head, payload)) return false;
  call* const of = calls_.find(head.stream);
  if (of == nullptr) return true;
  if (of->status == 0) return false;
  keep(*of, payload);
  if (head.has(h2::flag::end_stream)) return end_of_answer(*of, in);
  return acknowledge(head.stream, of->unacknowledged, whole);
}

// Gives received bytes back when half of the window is used; false when the peer sent more than
// all.
bool h2_connection::acknowledge(std::uint32_t stream, std::uint32_t& unacknowledged,
                                std::size_t bytes) {
  const std::uint32_t window =
      stream == 0 ? std::max(h2::window_default, carrier().window_bytes) : carrier().window_bytes;
  if (bytes > window - unacknowledged) return false;
  unacknowledged += static_cast<std::uint32_t>(bytes);
  if (unacknowledged > window / 2) {
    h2::append_window_update(out_, stream, unacknowledged);
    unacknowledged = 0;
  }
  return true;
}

// The answer's body is counted and compared, not kept.
void h2_connection::keep(call& of, std::string_view body) {
  const std::optional<std::string>& expected = requests_[of.class_index].expected;
  if (expected) {
    const std::size_t left =
        expected->size() - std::min<std::size_t>(of.received, expected->size());
    const std::size_t compared = std::min(left, body.size());
    if (compared > 0) {
      of.differs |= std::memcmp(expected->data() + of.received, body.data(), compared) != 0;
    }
  }
  if (of.received < prefix_bytes) {
    const auto at = static_cast<std::size_t>(of.received);
    body.substr(0, prefix_bytes - at).copy(of.prefix.data() + at, prefix_bytes - at);
  }
  of.received += body.size();
}

bool h2_connection::take_headers(const frame_head& head, std::string_view payload,
                                 const batch& in) {
  if (head.stream % 2 == 0 || head.stream >= next_stream_) return false;
  if (!strip_padding(head, payload)) return false;
  if (head.has(h2::flag::priority)) {
    if (payload.size() < 5) return false;
    payload.remove_prefix(5);
  }
  block_stream_ = head.stream;
  block_ends_stream_ = head.has(h2::flag::end_stream);
  block_is_final_ = false;
  return take_block(head, payload, in);
}

// A block of a stream that is gone is decoded too: it may change the table.
bool h2_connection::take_block(const frame_head& head, std::string_view block, const batch& in) {
  call* const of = calls_.find(block_stream_);
  const bool is_last = head.has(h2::flag::end_headers);
  const auto* from = reinterpret_cast<const std::uint8_t*>(block.data());
  std::size_t left = block.size();
  for (;;) {
    nghttp2_nv field{};
    int flags = 0;
    const ssize_t taken =
        ::nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags, from, left, is_last ? 1 : 0);
    if (taken < 0) return false;
    from += taken;
    left -= static_cast<std::size_t>(taken);
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && of != nullptr &&
        !take_field(of, block_ends_stream_, field)) {
      return false;
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
      ::nghttp2_hd_inflate_end_headers(inflater_.get());
      break;
    }
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && left == 0) break;
  }
  if (!is_last) return true;
  block_stream_ = 0;
  return of == nullptr || end_block(of, in);
}

bool h2_connection::take_field(call* of, bool is_last, const nghttp2_nv& field) {
  const std::string_view name = text_of(field.name, field.namelen);
  const std::string_view value = text_of(field.value, field.valuelen);
  if (name == ":status") {
    const std::int32_t status = number_in(value);
    if (of->status != 0 || status < 100 || status > 999) return false;
    block_is_final_ = status >= 200;
    if (block_is_final_) of->status = status;
  } else if (name.starts_with(':')) {
    return false;
  } else if (name == "content-type") {
    of->is_grpc_type = value.starts_with("application/grpc");
  } else if (name == "grpc-status" && is_last) {
    of->grpc_status = number_in(value);
  }
  return true;
}

bool h2_connection::end_block(call* of, const batch& in) {
  if (of->status == 0) return !block_ends_stream_;            // 1xx: the answer is still to come
  if (!block_is_final_ && !block_ends_stream_) return false;  // trailers end an answer
  return !block_ends_stream_ || end_of_answer(*of, in);
}

bool h2_connection::end_of_answer(call& of, const batch& in) {
  class_outcome& its = in.into.classes[of.class_index];
  ++in.into.answered_in_all;
  if (in.measured.contains(of.due_ns)) {
    ++its.answered;
    if (is_right(of, its)) its.latency_ns.record(in.now_ns - of.due_ns);
  }
  if (of.body_sent < requests_[of.class_index].body.size()) {
    // The peer wants no more of it; the stream would stay open.
    h2::append_head(out_, {4, frame_type::rst_stream, 0, of.stream});
    h2::append_u32(out_, h2::error_cancel);
  }
  calls_.erase(of);
  return true;
}

// Counts what is wrong with an answer.
bool h2_connection::is_right(const call& of, class_outcome& its) const {
  const request_class& which = classes_[of.class_index];
  const bool grpc = which.protocol == protocol_kind::grpc;
  const auto wrong = [&](failure kind) {
    ++its.failed(kind);
    return false;
  };
  if (of.status != 200 || (grpc && !of.is_grpc_type)) return wrong(failure::status);
  if (grpc && of.grpc_status != 0) return wrong(failure::grpc_status);
  std::uint64_t size = of.received;
  if (grpc) {
    if (size < prefix_bytes) return wrong(failure::length);
    size -= prefix_bytes;
    if (h2::read_u32(of.prefix.data() + 1) != size) return wrong(failure::length);
  }
  if (which.length_bytes >= 0 && size != static_cast<std::uint64_t>(which.length_bytes)) {
    return wrong(failure::length);
  }
  if (grpc && of.prefix[0] != 0) return wrong(failure::body);
  const std::optional<std::string>& expected = requests_[of.class_index].expected;
  if (expected && (of.differs || of.received != expected->size())) return wrong(failure::body);
  return true;
}

bool h2_connection::take_reset(const frame_head& head, std::string_view payload, const batch& in) {
  if (payload.size() != 4 || head.stream % 2 == 0 || head.stream >= next_stream_) return false;
  call* const of = calls_.find(head.stream);
  if (of == nullptr) return true;
  if (in.measured.contains(of->due_ns)) {
    ++in.into.classes[of->class_index].failed(failure::stream_reset);
  }
  calls_.erase(*of);
  return true;
}

bool h2_connection::take_settings(const frame_head& head, std::string_view payload) {
  if (head.stream != 0 || payload.size() % 6 != 0) return false;
  if (head.has(h2::flag::ack)) return payload.empty();
  for (; !payload.empty(); payload.remove_prefix(6)) {
    const std::uint32_t value = h2::read_u32(payload.data() + 2);
    switch (h2::read_u16(payload.data())) {
      case h2::setting::header_table_size:
        encoder_.limit_table(value);
        for (std::string& each : headers_) each.clear();
        break;
      case h2::setting::max_concurrent_streams:
        peer_streams_max_ = value;
        break;
      case h2::setting::initial_window_size: {
        if (value > h2::window_max) return false;
        const std::int64_t change = value - peer_window_;
        calls_.for_each([&](call& each) { each.send_window += change; });
        peer_window_ = value;
        window_grew_ = true;
        break;
      }
      case h2::setting::max_frame_size:
        if (value < h2::frame_bytes) return false;
        peer_frame_bytes_ = value;
        break;
      default:
        break;
    }
  }
  settings_came_ = true;
  h2::append_head(out_, {0, frame_type::settings, h2::flag::ack, 0});
  return true;
}

// What the peer has not processed was never sent; the rest it will still answer.
bool h2_connection::take_goaway(std::string_view payload, const batch& in) {
  if (payload.size() < 8) return false;
  const std::uint32_t last = h2::read_u32(payload.data()) & 0x7fff'ffff;
  stop_opening(in);
  std::vector<std::uint32_t> unprocessed;
  calls_.for_each([&](const call& each) {
    if (each.stream > last) unprocessed.push_back(each.stream);
  });
  for (const std::uint32_t stream : unprocessed) {
    call& of = *calls_.find(stream);
    --in.into.sent_in_all;
    if (in.measured.contains(of.due_ns)) {
      class_outcome& its = in.into.classes[of.class_index];
      --its.sent;
      ++its.failed(failure::unsent);
    }
    calls_.erase(of);
  }
  return true;
}

bool h2_connection::take_window_update(const frame_head& head, std::string_view payload) {
  if (payload.size() != 4) return false;
  const std::int64_t more = h2::read_u32(payload.data()) & 0x7fff'ffff;
  if (more == 0) return false;
  window_grew_ = true;
  if (head.stream == 0) return (send_window_ += more) <= h2::window_max;
  call* const of = calls_.find(head.stream);
  return of == nullptr || (of->send_window += more) <= h2::window_max;
}

// What waits is not sent any more, nor what a closed loop would send next.
void h2_connection::stop_opening(const batch& in) {
  for (const arrival& each : waiting_) {
    if (in.measured.contains(each.due_ns)) {
      ++in.into.classes[each.class_index].failed(failure::unsent);
    }
  }
  waiting_.clear();
  if (opening_ && is_closed_loop() && in.now_ns < in.measured.end_ns) {
    in.into.classes[carrier_].failed(failure::unsent) += carrier().streams;
  }
  opening_ = false;
}

void h2_connection::give_up(failure kind, const batch& in) {
  close();
  calls_.for_each([&](const call& each) {
    if (in.measured.contains(each.due_ns)) ++in.into.classes[each.class_index].failed(kind);
  });
  calls_.clear();
  out_.clear();
  stop_opening(in);
}

void h2_connection::finish(const window& measured, outcome& into) const {
  calls_.for_each([&](const call& each) {
    if (measured.contains(each.due_ns)) ++into.classes[each.class_index].outstanding;
  });
  for (const arrival& each : waiting_) {
    if (measured.contains(each.due_ns)) ++into.classes[each.class_index].failed(failure::unsent);
  }
  // A peer that never sent its SETTINGS.
  if (is_closed_loop() && opening_ && !settings_came_) {
    into.classes[carrier_].failed(failure::unsent) += carrier().streams;
  }
}

}  // namespace bwos::load

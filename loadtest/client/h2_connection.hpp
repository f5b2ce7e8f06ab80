// SPDX-License-Identifier: Apache-2.0
// An HTTP/2 connection with prior knowledge, for plain requests and for unary gRPC calls of one or
// several classes. Requests are copied from frames built once; what a read brought is answered with
// one write. Response headers are decoded by nghttp2, and every answer is checked.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "connection.hpp"
#include "h2_frames.hpp"
#include "hpack_encoder.hpp"
#include "options.hpp"
#include "stream_table.hpp"

namespace bwos::load {

// What a class sends on each of its streams.
struct h2_request {
  std::vector<h2::header_field> fields;
  std::string body;                     // under gRPC the message behind its prefix
  std::optional<std::string> expected;  // the answer's body, in the same form
};
h2_request h2_request_of(const request_class& which, const sockaddr_in& target);

class h2_connection final : public connection {
 public:
  // Throws as connection does. Both vectors have an element for each class and must outlive the
  // connection. `carrier` is the index of the class that says how it behaves.
  h2_connection(const sockaddr_in& target, const std::vector<h2_request>& requests,
                const std::vector<request_class>& classes, std::size_t carrier);

  void begin(const window& measured, outcome& into) override;
  void send_requests(std::size_t class_index, std::int64_t due_ns, const window& measured,
                     outcome& into) override;
  bool on_readable(bool ended, const window& measured, outcome& into) override;
  void on_writable(const window& measured, outcome& into) override;
  void finish(const window& measured, outcome& into) const override;
  std::size_t outstanding() const noexcept override { return calls_.size() + waiting_.size(); }

 private:
  struct call {
    std::uint32_t stream = 0;
    std::uint32_t class_index = 0;
    std::int64_t due_ns = 0;
    std::int64_t send_window = 0;
    std::size_t body_sent = 0;
    std::uint64_t received = 0;        // bytes of the answer's body
    std::uint32_t unacknowledged = 0;  // of them, what no WINDOW_UPDATE gave back yet
    std::int32_t status = 0;           // 0: no final header block yet
    std::int32_t grpc_status = -1;
    std::array<char, 5> prefix{};  // gRPC: the message's first bytes
    bool is_grpc_type = false;
    bool differs = false;  // from what was expected
  };

  // An arrival that no stream was free for, or that came before the peer's SETTINGS.
  struct arrival {
    std::int64_t due_ns;
    std::size_t class_index;
  };

  // What the frames of a read are handled with.
  struct batch {
    std::int64_t now_ns;
    const window& measured;
    outcome& into;
  };

  struct inflater_deleter {
    void operator()(nghttp2_hd_inflater* which) const noexcept { ::nghttp2_hd_inflate_del(which); }
  };

  const request_class& carrier() const noexcept { return classes_[carrier_]; }
  bool is_closed_loop() const noexcept { return carrier().rate == 0; }
  std::uint32_t streams_max() const noexcept;

  void refill(const batch& in);
  void start(const arrival& which, const batch& in);
  const std::string& headers_of(std::size_t class_index);
  void send_bodies();
  void flush(const batch& in);

  // Each is false when the connection can no longer be used; nobody has closed it yet.
  bool take(std::string_view& bytes, const batch& in);
  bool take_frame(const h2::frame_head& head, std::string_view payload, const batch& in);
  bool take_data(const h2::frame_head& head, std::string_view payload, const batch& in);
  bool take_headers(const h2::frame_head& head, std::string_view payload, const batch& in);
  bool take_block(const h2::frame_head& head, std::string_view block, const batch& in);
  bool take_field(call* of, bool is_last, const nghttp2_nv& field);
  bool end_block(call* of, const batch& in);
  bool take_reset(const h2::frame_head& head, std::string_view payload, const batch& in);
  bool take_settings(const h2::frame_head& head, std::string_view payload);
  bool take_goaway(std::string_view payload, const batch& in);
  bool take_window_update(const h2::frame_head& head, std::string_view payload);

  void keep(call& of, std::string_view body);
  bool acknowledge(std::uint32_t stream, std::uint32_t& unacknowledged, std::size_t bytes);
  bool end_of_answer(call& of, const batch& in);
  bool is_right(const call& of, class_outcome& its) const;
  void stop_opening(const batch& in);
  void give_up(failure kind, const batch& in);

  const std::vector<h2_request>& requests_;
  const std::vector<request_class>& classes_;
  std::size_t carrier_;

  h2::stream_table<call> calls_;
  std::deque<arrival> waiting_;            // oldest first
  std::vector<std::uint32_t> unfinished_;  // streams whose request's body is not all sent
  std::uint32_t next_stream_ = 1;
  bool opening_ = true;  // false: no stream may be opened any more
  bool window_grew_ = false;

  bool settings_came_ = false;
  std::uint32_t peer_streams_max_ = 0xffff'ffff;
  std::uint32_t peer_frame_bytes_ = h2::frame_bytes;
  std::int64_t peer_window_ = h2::window_default;  // of a new stream
  std::int64_t send_window_ = h2::window_default;  // of the connection
  std::uint32_t unacknowledged_ = 0;               // DATA of all streams

  h2::hpack_encoder encoder_;
  std::vector<std::string> headers_;  // by class, frame and all; empty: to be encoded
  std::unique_ptr<nghttp2_hd_inflater, inflater_deleter> inflater_;
  std::uint32_t block_stream_ = 0;  // 0: no header block is open
  bool block_ends_stream_ = false;
  bool block_is_final_ = false;  // it began with a :status other than 1xx

  std::string partial_;  // the front of a frame
  std::string out_;      // bytes that the socket did not take yet
};

}  // namespace bwos::load

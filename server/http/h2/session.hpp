// SPDX-License-Identifier: Apache-2.0
// HTTP/2 (RFC 9113) of one connection, the server's side: bytes in, events of streams out; answers
// in, bytes out. Framing, HPACK, flow control and the state of streams are nghttp2's; limits are
// ours.
//
// No thread of its own and no socket: one thread at a time calls it, and it calls back from within
// feed(), pull() and reset() only. Callbacks may call whatever of it they like but those, and must
// not throw: std::bad_alloc in one is the end of the connection (is_over()).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/h2/flood_limits.hpp"
#include "http/h2/idle_reset_filter.hpp"
#include "http/h2/limits.hpp"
#include "http/h2/repeated_header.hpp"
#include "http/h2/send_watch.hpp"
#include "http/h2/session_memory.hpp"
#include "net/byte_buffer.hpp"

struct nghttp2_session;

namespace bwos::server::h2 {

/// RFC 9113, 7.
enum class error : std::uint32_t {
  none = 0,
  protocol = 1,
  internal = 2,
  refused_stream = 7,
  cancel = 8,
  enhance_your_calm = 11,
};

/// Of a buffer that is empty: what is larger than an ordinary message is given back, so that who is
/// idle does not keep the memory of the largest.
inline constexpr std::size_t empty_bytes_kept = 4 * 1024;
inline void empty(std::string& buffer) noexcept {
  buffer.clear();
  if (buffer.capacity() > empty_bytes_kept) std::string().swap(buffer);
}

/// Names are lower case.
struct field {
  std::string_view name;
  std::string_view value;
};

/// One request, and its answer. Belongs to the application, from application::open() until after
/// on_closed(); until then the session refers to it.
class stream {
 public:
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  [[nodiscard]] std::int32_t id() const noexcept { return id_; }
  /// Bytes of on_data() that count against the peer's windows yet.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  /// Bytes of the answer's body that have been pulled; of body_size().
  [[nodiscard]] std::size_t body_sent() const noexcept { return body_sent_; }
  [[nodiscard]] bool has_body_left() const noexcept { return body_sent_ < body_.size(); }

 protected:
  stream() = default;
  ~stream() = default;
  /// What comes of a request after its early answer is taken yet, until a reset(). Else the answer
  /// is followed by RST_STREAM(NO_ERROR), which some clients take for an error.
  void take_rest(bool whether) noexcept { takes_rest_ = whether; }

  /// In order: fields; the header's end, with whether they were too many (then some were left out);
  /// data; its end. Nothing after on_closed(), which may come at any time.
  virtual void on_field(std::string_view name, std::string_view value) = 0;
  virtual void on_header(bool too_large) = 0;
  /// In place of its fields: they are those that remember_header() was told of, of the stream
  /// before that had the same session::header_number(). False: it wants them one by one.
  virtual bool repeat_header() { return false; }
  /// Behind on_header() of a header that has come before: it may come again.
  virtual void remember_header() {}
  /// `bytes` lie in what feed() was given. `last`: of the last DATA frame. They count against the
  /// peer's windows until session::consume(), or on_closed().
  virtual void on_data(std::span<const std::byte> bytes, bool last) = 0;
  virtual void on_end() = 0;
  /// `why` is `none` if it was answered, and the peer wanted the answer.
  virtual void on_closed(error why) = 0;
  /// Of what was appended so much has been pulled.
  virtual void on_sent(std::size_t /*bytes*/) {}
  /// What follows the body, if anything does; valid until on_closed(). Asked for once, when the
  /// body has gone.
  virtual std::span<const field> trailers() = 0;

 private:
  friend class session;
  std::int32_t id_ = 0;
  std::size_t header_kept_ = 0;  // memory of its fields, about
  bool header_read_ = false;
  bool ended_ = false;  // by the peer
  bool early_ = false;  // answered before the peer's end
  bool takes_rest_ = false;
  bool goes_on_ = false;   // begin(), and not yet finish()
  bool deferred_ = false;  // nghttp2 waits for more of its body
  bool cut_ = false;       // nothing more of its body
  std::size_t held_ = 0;   // bytes of on_data() that have not been consumed
  std::string text_;       // of its body: what append() brought, or answer() took
  std::string_view body_;  // in text_, or where answer() was told
  std::size_t body_sent_ = 0;
  std::uint64_t sent_ever_ = 0;  // of its body, also what append() forgot
  send_watch watch_;
  std::size_t body_promised_ = 0;  // to nghttp2, for a frame that it has begun
};

class application {
 public:
  /// The peer opens a stream. Null: REFUSED_STREAM.
  virtual stream* open() = 0;

 protected:
  ~application() = default;
};

class session {
 public:
  using clock = std::chrono::steady_clock;

  /// Our SETTINGS are the first bytes of pull(). Both must outlive it. Throws std::bad_alloc.
  session(application& owner, const limits& bounds);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();  ///< Calls back no more.

  /// From now on RST_STREAM of a stream that has not begun is skipped, and counted with the frames
  /// that bring nothing. Else it ends the connection (RFC 9113, 6.4).
  void skip_idle_resets() noexcept { idle_resets_.start(); }

  /// From now on a header that is the one before once more comes by stream::repeat_header().
  void recognise_headers() noexcept { recognises_headers_ = true; }
  [[nodiscard]] std::uint64_t header_number() const noexcept { return repeated_.number(); }

  void feed(std::span<const std::byte> bytes, clock::time_point now);

  /// Appends what is to be sent until there is nothing more, or `to` holds send_bytes. True: more.
  bool pull(byte_buffer& to);

  /// HEADERS, DATA and trailers, if there are any. `header` must stay valid until on_closed().
  void answer(stream& to, std::span<const field> header, std::string body);
  /// The same, of a body that stays where it is until on_closed().
  void answer_from(stream& to, std::span<const field> header, std::string_view body);
  /// HEADERS alone. See stream::take_rest().
  void answer(stream& to, std::span<const field> header);
  /// HEADERS of an answer whose DATA is brought by append(), and its trailers asked for after
  /// finish(). append() takes the bytes of `more`, and may leave it memory of no use to the stream.
  void begin(stream& to, std::span<const field> header);
  void append(stream& to, std::string& more);
  void finish(stream& to);
  /// finish(), and what has not been pulled is forgotten.
  void cut(stream& to);
  void reset(stream& what, error why);
  /// HEADERS before those of the answer: a status of 1xx.
  void inform(stream& to, std::span<const field> header);
  /// From on_field() of `from`: another takes its place, is told the fields that came, and what is
  /// to come. `from` is the caller's again.
  void pass(const stream& from, stream& to, std::span<const field> fields);

  /// An open stream keeps this field of its header; or none any more.
  void keep_field(stream& of, std::string_view name, std::string_view value) noexcept;
  void forget_fields(stream& of) noexcept;

  /// So many of its held() bytes need no memory any more: the peer may send as many again, on this
  /// stream and on the connection.
  void consume(stream& of, std::size_t bytes);
  /// Now and then, a few times in each limits::write_timeout while there are streams; then
  /// is_stalled() of each: whether the peer's windows let less of its answer go than
  /// limits::write_rate_min. What waits because others of its connection are sent, or because
  /// nobody had time for the connection, is not stalled.
  void watch_windows(clock::time_point now);
  [[nodiscard]] bool is_stalled(stream& which);

  /// Of all streams: at most connection_window.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }

  /// GOAWAY that refuses nothing yet, and behind it a PING (RFC 9113, 6.8). was_noticed(): its
  /// answer is here.
  void notice();
  [[nodiscard]] bool was_noticed() const noexcept { return noticed_; }
  /// GOAWAY: streams that are open go on, new ones are ignored; is_over() after the last.
  void leave();
  /// GOAWAY with an error, and nothing after it.
  void end(error why);

  /// A PING: whoever is there answers.
  void probe();
  /// From now on PINGs that come too soon end the connection.
  void police_pings() noexcept { polices_pings_ = true; }

  /// Without a stream for a while: some of its memory goes back to the system.
  void give_back_memory() noexcept {
    repeated_.forget();
    memory_.give_back();
  }

  /// Nothing more to receive, and nothing to send but what pull() gives yet.
  [[nodiscard]] bool is_over() const noexcept;
  /// The peer's preface and SETTINGS have come.
  [[nodiscard]] bool is_established() const noexcept { return established_; }
  /// Of what was fed last.
  [[nodiscard]] clock::time_point now() const noexcept { return now_; }
  [[nodiscard]] bool in_header() const noexcept { return in_header_; }
  /// Of the header that has come last: whether it has a host that is not its :authority. Such a
  /// request should count as malformed (RFC 9113, 8.3.1): whoever stands before us may have judged
  /// it by the other one.
  [[nodiscard]] bool hosts_differ() const noexcept { return hosts_differ_; }
  /// While in_header(): when its first frame was fed, or whoever did not read gave it time anew.
  [[nodiscard]] clock::time_point header_since() const noexcept { return header_since_; }
  void renew_header(clock::time_point now) noexcept { header_since_ = now; }
  /// Bytes of answers that pull() has not given.
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return waiting_bytes_; }
  [[nodiscard]] std::size_t streams() const noexcept { return streams_; }
  /// Memory of the fields that open streams keep, of these themselves, of their table, and of the
  /// header that is kept to be recognised, about.
  [[nodiscard]] std::size_t header_bytes_kept() const noexcept {
    return header_kept_ + streams_ * stream_bytes + memory_.grown_bytes() +
           repeated_.memory_bytes();
  }

 private:
  struct callbacks;
  void receive(std::span<const std::byte> bytes);
  [[nodiscard]] bool pull_frames(byte_buffer& to);
  void fail(int nghttp2_error);
  int end_at_once(std::string_view reason) noexcept;
  void count_idle_frames(std::uint64_t frames);
  void end_if_not(bool is_fair);
  void count_what_was_skipped();
  [[nodiscard]] bool is_late_header(std::uint8_t type, std::int32_t id) const noexcept;
  void note_opened(std::int32_t id) noexcept;
  void bring(std::span<const repeated_header::texts> fields);
  bool end_of_fields();
  [[nodiscard]] std::size_t far_too_large() const noexcept {
    return limits_.header_bytes_max * header_excess;
  }
  void note_host(std::string_view name, std::string_view value);
  [[nodiscard]] stream* find(std::int32_t id) const noexcept;
  void end_of_request(stream& of);
  void submit_answer(stream& to, std::span<const field> header);
  void submit_trailers(stream& of);
  [[nodiscard]] bool is_slow(send_watch& watch, bool waits_for_peer, std::int32_t window,
                             std::size_t left, std::uint64_t sent) const noexcept;
  void ends_early(stream& which) noexcept;
  void consume_rest_of(stream& closed);

  application& owner_;
  const limits& limits_;
  session_memory memory_;  // of nghttp2's session
  nghttp2_session* session_ = nullptr;
  repeated_header repeated_;
  flood_limits floods_;
  clock::time_point now_;           // of what is fed
  clock::time_point header_since_;  // if in_header_
  idle_reset_filter idle_resets_;
  std::uint64_t announced_ = 0;    // frames that nghttp2 has told of, or that were counted for it
  std::uint64_t data_earned_ = 0;  // bytes of DATA
  byte_buffer* output_ = nullptr;  // of the pull() that runs
  stream* current_ = nullptr;      // whose header came last, if it is open
  std::int32_t header_id_ = 0;     // of the stream whose header came last
  std::int32_t opened_id_ = -1;    // of the last stream of the peer
  std::int32_t skipped_from_ = 0;  // numbers that it has left out last, and so closed
  std::int32_t skipped_to_ = 0;
  std::size_t header_bytes_ = 0;
  std::size_t header_kept_ = 0;  // of all streams
  std::string authority_;        // of that header; its memory is kept for the next
  std::size_t waiting_bytes_ = 0;
  std::uint64_t sent_ever_ = 0;   // of all bodies
  send_watch watch_;              // of them, while the connection's window is what they wait for
  clock::time_point watched_at_;  // watch_windows() was called last
  std::size_t streams_ = 0;
  std::size_t held_ = 0;
  std::size_t early_ = 0;  // answers before the peer's end that are to be sent yet
  error last_words_ = error::none;
  std::string_view last_reason_;
  bool established_ = false;
  bool in_header_ = false;
  bool hosts_differ_ = false;
  bool noticed_ = false;
  bool asks_ = false;  // behind the GOAWAY that is to be sent, whether it has arrived
  bool polices_pings_ = false;
  bool recognises_headers_ = false;
  bool was_away_ = false;        // who calls watch_windows(), from its last call to the one before
  bool waits_for_us_ = true;     // what has not been sent: not, or not only, for the peer's windows
  bool is_slow_ = false;         // the connection's window lets too little go
  bool has_pulled_all_ = false;  // what the peer's windows let go, and ...
  bool has_no_window_ = false;   // ... then the connection's was used up
  bool is_full_ = false;         // the output: DATA goes on with the next pull()
  bool dead_ = false;            // nghttp2 must not be called any more
};

}  // namespace bwos::server::h2

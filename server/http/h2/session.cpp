// SPDX-License-Identifier: Apache-2.0
#include "http/h2/session.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/is_text.hpp"

namespace bwos::server::h2 {
namespace {

constexpr std::array<std::uint8_t, 8> notice_ping{'g', 'o', 'i', 'n', 'g', ' ', 'n', 'o'};
constexpr std::array<std::uint8_t, 8> probe_ping{'s', 't', 'i', 'l', 'l', ' ', 'u', 'p'};

struct option_deleter {
  void operator()(nghttp2_option* which) const noexcept { nghttp2_option_del(which); }
};

std::unique_ptr<nghttp2_option, option_deleter> options_of(const limits& bounds) {
  nghttp2_option* made = nullptr;
  if (nghttp2_option_new(&made) != 0) throw std::bad_alloc();
  std::unique_ptr<nghttp2_option, option_deleter> owned(made);
  nghttp2_option_set_no_auto_window_update(made, 1);
  nghttp2_option_set_no_closed_streams(made, 1);  // they are for priorities, which we have not
  nghttp2_option_set_server_fallback_rfc7540_priorities(made, 0);
  nghttp2_option_set_max_outbound_ack(made, bounds.acks_max);
  return owned;
}

session_memory& memory_of(void* user) noexcept {
  return *static_cast<session_memory*>(user);
}

nghttp2_mem hooks_of(session_memory& memory) noexcept {
  return {.mem_user_data = &memory,
          .malloc = [](std::size_t size, void* user) { return memory_of(user).allocate(size); },
          .free = [](void* what, void* user) { memory_of(user).deallocate(what); },
          .calloc = [](std::size_t count, std::size_t each,
                       void* user) { return memory_of(user).allocate_zeroed(count, each); },
          .realloc = [](void* what, std::size_t size,
                        void* user) { return memory_of(user).reallocate(what, size); }};
}

std::uint8_t* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));  // nghttp2 only reads
}

/// Fields as nghttp2 wants them, for the time of a call to it. The texts stay where they are.
class field_list {
 public:
  explicit field_list(std::span<const field> fields) : size_(fields.size()) {
    if (size_ > few_.size()) many_.resize(size_);
    nghttp2_nv* const all = size_ > few_.size() ? many_.data() : few_.data();
    for (std::size_t i = 0; i < size_; ++i) {
      all[i] = {.name = bytes_of(fields[i].name),
                .value = bytes_of(fields[i].value),
                .namelen = fields[i].name.size(),
                .valuelen = fields[i].value.size(),
                .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
    }
  }
  [[nodiscard]] const nghttp2_nv* data() const noexcept {
    return size_ > few_.size() ? many_.data() : few_.data();
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::array<nghttp2_nv, fields_few> few_;
  std::vector<nghttp2_nv> many_;
  const std::size_t size_;
};

/// RFC 9113, 6.8: for a session that nghttp2 has given up without a word.
std::string goaway_frame(std::uint32_t last, error why, std::string_view reason) {
  std::string frame{0, 0, static_cast<char>(8 + reason.size()), NGHTTP2_GOAWAY, 0, 0, 0, 0, 0};
  for (const std::uint32_t word : {last, static_cast<std::uint32_t>(why)}) {
    for (int bits = 24; bits >= 0; bits -= 8) frame += static_cast<char>(word >> bits);
  }
  return frame.append(reason);
}

/// But for the case of their letters, which an origin server may leave at that.
bool is_same_host(std::string_view one, std::string_view other) noexcept {
  constexpr auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
  return std::ranges::equal(one, other, {}, lower, lower);
}

/// Frames that cost us work and bring the peer nothing, as far as their heads tell.
bool is_idle_frame(const nghttp2_frame_hd& head) noexcept {
  switch (head.type) {
    case NGHTTP2_DATA:
      return head.length == 0 && (head.flags & NGHTTP2_FLAG_END_STREAM) == 0;
    case NGHTTP2_HEADERS:
    case NGHTTP2_RST_STREAM:  // nghttp2 counts these two
    case NGHTTP2_CONTINUATION:
      return false;
    default:  // PING, SETTINGS, PRIORITY, WINDOW_UPDATE
      return true;
  }
}

/// Whether a stream is reset for what its peer has done. The others are ours: an answer that did
/// not wait, too much of everything, a peer that does not read.
bool is_of_the_peer(std::uint32_t code) noexcept {
  return code != NGHTTP2_NO_ERROR && code != NGHTTP2_REFUSED_STREAM && code != NGHTTP2_CANCEL;
}

/// DATA without data. Its head alone does not tell that.
bool is_padding_alone(const nghttp2_frame& frame) noexcept {
  return frame.hd.type == NGHTTP2_DATA && frame.hd.length > 0 &&
         frame.hd.length == frame.data.padlen && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) == 0;
}

}  // namespace

/// nghttp2's side: each returns an error code of its. An exception, which can only be that there is
/// no memory, is the end of the session.
struct session::callbacks {
  static session& of(void* user) noexcept { return *static_cast<session*>(user); }

  template <class Body>
  static int guarded(Body body) noexcept {
    try {
      return body();
    } catch (...) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  static int on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
    return guarded([&] {
      session& self = of(user);
      ++self.announced_;
      if (is_idle_frame(*head) || self.is_late_header(head->type, head->stream_id))
        self.count_idle_frames(1);
      // RFC 9113, 5.1.1: numbers of new streams grow. nghttp2 takes those for closed streams', on
      // which a header may be late.
      const std::int32_t id = head->stream_id;
      if (head->type == NGHTTP2_HEADERS && id <= self.skipped_to_ && id >= self.skipped_from_) {
        self.end(error::protocol);
      }
      return 0;
    });
  }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return guarded([&] {
      session& self = of(user);
      self.in_header_ = true;
      self.header_since_ = self.now_;
      self.header_id_ = frame->hd.stream_id;
      self.header_bytes_ = 0;
      self.repeated_.pass_over();
      if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        self.current_ = self.find(frame->hd.stream_id);
        return 0;
      }
      self.note_opened(frame->hd.stream_id);
      const bool has_room = self.waiting_bytes_ <= self.limits_.output_bytes_max &&
                            self.header_kept_ <= header_lists_max * self.limits_.header_bytes_max;
      self.current_ = has_room ? self.owner_.open() : nullptr;
      if (self.current_ == nullptr) {
        self.in_header_ = false;  // once the reset is sent, nghttp2 tells of the header no more
        return nghttp2_submit_rst_stream(self.session_, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_REFUSED_STREAM);
      }
      self.current_->id_ = frame->hd.stream_id;
      ++self.streams_;
      if (self.recognises_headers_) self.repeated_.begin();
      self.authority_.clear();
      self.hosts_differ_ = false;
      return nghttp2_session_set_stream_user_data(self.session_, frame->hd.stream_id,
                                                  self.current_);
    });
  }

  static int on_header(nghttp2_session*, const nghttp2_frame*, nghttp2_rcbuf* name,
                       nghttp2_rcbuf* value, std::uint8_t, void* user) {
    return guarded([&] {
      session& self = of(user);
      const repeated_header::texts field{name, value};
      if (self.repeated_.is_next(field)) return 0;
      self.bring(self.repeated_.differ());
      self.repeated_.note(field);
      self.bring(std::span(&field, 1));
      return self.current_ == nullptr && self.header_bytes_ > self.far_too_large()
                 ? static_cast<int>(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE)
                 : 0;
    });
  }

  static int on_data(nghttp2_session*, std::uint8_t flags, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* user) {
    return guarded([&] {
      session& self = of(user);
      stream* const to = self.find(id);
      if (to == nullptr) return nghttp2_session_consume(self.session_, id, size);
      const bool last =
          (flags & (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_PADDED)) == NGHTTP2_FLAG_END_STREAM;
      to->held_ += size;
      self.held_ += size;
      to->on_data(std::as_bytes(std::span(bytes, size)), last);
      return 0;
    });
  }

  static int take_ping(session& self, const nghttp2_ping& frame) noexcept {
    if ((frame.hd.flags & NGHTTP2_FLAG_ACK) != 0) {
      self.noticed_ |= std::equal(notice_ping.begin(), notice_ping.end(), frame.opaque_data);
      return 0;
    }
    const unsigned strikes_max = self.limits_.ping_strikes_max;
    if (!self.polices_pings_ || strikes_max == 0) return 0;
    clock::duration apart = self.limits_.ping_interval_min;
    if (self.streams_ == 0) apart = ping_interval_without_streams;
    const bool is_fair = self.floods_.take_ping(self.now_, apart, strikes_max);
    return is_fair ? 0 : self.end_at_once("too_many_pings");
  }

  static void take_settings(session& self, const nghttp2_settings& frame) {
    self.established_ = true;
    for (const nghttp2_settings_entry& each : std::span(frame.iv, frame.niv)) {
      if (each.settings_id != NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE) continue;
      self.end_if_not(self.floods_.take_windows(each.value, self.streams_, self.waiting_bytes_));
    }
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return guarded([&] {
      session& self = of(user);
      const nghttp2_frame_hd& head = frame->hd;
      if (head.type == NGHTTP2_SETTINGS) take_settings(self, frame->settings);
      if (head.type == NGHTTP2_PING) return take_ping(self, frame->ping);
      if (is_padding_alone(*frame)) self.count_idle_frames(1);
      if (head.type != NGHTTP2_HEADERS && head.type != NGHTTP2_DATA) return 0;
      const bool repeats = head.type == NGHTTP2_HEADERS && self.end_of_fields();
      stream* const to = head.type == NGHTTP2_HEADERS ? self.current_ : self.find(head.stream_id);
      if (to == nullptr) return 0;
      if (!to->header_read_) {
        to->header_read_ = true;
        to->on_header(self.header_bytes_ > self.limits_.header_bytes_max);
        if (repeats) to->remember_header();
      }
      if ((head.flags & NGHTTP2_FLAG_END_STREAM) != 0) self.end_of_request(*to);
      return 0;
    });
  }

  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* user) noexcept {
    return guarded([&] {
      of(user).in_header_ = false;
      of(user).count_idle_frames(1);
      return 0;
    });
  }

  /// An answer that did not wait for the request's end: the peer need not send the rest (RFC 9113,
  /// 8.1).
  static int on_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) noexcept {
    class session& self = of(user);
    if (frame->hd.type == NGHTTP2_GOAWAY && std::exchange(self.asks_, false)) {
      return nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, notice_ping.data());
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM && is_of_the_peer(frame->rst_stream.error_code)) {
      self.end_if_not(self.floods_.take_error_reset());
    }
    const bool answers = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (answers) self.floods_.excuse_pings();
    if (self.early_ == 0 || !answers || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    const stream* const to = self.find(frame->hd.stream_id);
    if (to == nullptr || to->ended_ || to->takes_rest_) return 0;
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                     NGHTTP2_NO_ERROR);
  }

  static int on_close(nghttp2_session* session, std::int32_t id, std::uint32_t why,
                      void* user) noexcept {
    return guarded([&] {
      class session& self = of(user);
      if (id == self.header_id_) self.in_header_ = false;  // its rest is skipped without a word
      stream* const closed = self.find(id);
      if (closed == nullptr) return 0;
      nghttp2_session_set_stream_user_data(session, id, nullptr);
      if (closed == self.current_) self.current_ = nullptr;
      self.consume_rest_of(*closed);
      self.waiting_bytes_ -= closed->body_.size() - closed->body_sent_;
      self.early_ -= closed->early_ ? 1U : 0U;
      self.header_kept_ -= closed->header_kept_;
      --self.streams_;
      closed->on_closed(static_cast<error>(why));
      return 0;
    });
  }

  static ssize_t on_body(nghttp2_session* session, std::int32_t id, std::uint8_t*, std::size_t room,
                         std::uint32_t* flags, nghttp2_data_source* source, void*) noexcept {
    const int result = guarded([&] {
      stream& from = *static_cast<stream*>(source->ptr);
      const std::size_t left = from.body_.size() - from.body_sent_;
      from.deferred_ = from.cut_ || (left == 0 && from.goes_on_);
      if (from.deferred_) return static_cast<int>(NGHTTP2_ERR_DEFERRED);
      *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
      from.body_promised_ = std::min(left, room);
      if (left > room || from.goes_on_) return static_cast<int>(from.body_promised_);
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      const field_list trailers(from.trailers());
      if (trailers.size() == 0) return static_cast<int>(left);
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const int submitted = nghttp2_submit_trailer(session, id, trailers.data(), trailers.size());
      return submitted != 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : static_cast<int>(left);
    });
    return result;
  }

  static int on_send_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head,
                          std::size_t size, nghttp2_data_source* source, void* user) noexcept {
    return guarded([&] {
      constexpr std::size_t head_size = 9;  // padded never
      session& self = of(user);
      if (self.output_->size() >= send_bytes) {
        self.is_full_ = true;
        return static_cast<int>(NGHTTP2_ERR_WOULDBLOCK);
      }
      stream& from = *static_cast<stream*>(source->ptr);
      self.output_->append({reinterpret_cast<const char*>(head), head_size});
      self.output_->append(from.body_.substr(from.body_sent_, size));
      from.body_sent_ += size;
      from.sent_ever_ += size;
      self.sent_ever_ += size;
      from.body_promised_ = 0;
      self.waiting_bytes_ -= size;
      self.floods_.earn_bytes(size);
      if (from.goes_on_ && !from.has_body_left()) {
        empty(from.text_);
        from.body_ = {};
        from.body_sent_ = 0;
      }
      from.on_sent(size);
      return 0;
    });
  }

  static const nghttp2_session_callbacks* table() {
    static const nghttp2_session_callbacks* const made = [] {
      nghttp2_session_callbacks* all = nullptr;
      if (nghttp2_session_callbacks_new(&all) != 0) throw std::bad_alloc();
      nghttp2_session_callbacks_set_on_begin_frame_callback(all, &on_begin_frame);
      nghttp2_session_callbacks_set_on_begin_headers_callback(all, &on_begin_headers);
      nghttp2_session_callbacks_set_on_header_callback2(all, &on_header);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(all, &on_data);
      nghttp2_session_callbacks_set_on_frame_recv_callback(all, &on_frame);
      nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(all, &on_invalid_frame);
      nghttp2_session_callbacks_set_on_frame_send_callback(all, &on_sent);
      nghttp2_session_callbacks_set_on_stream_close_callback(all, &on_close);
      nghttp2_session_callbacks_set_send_data_callback(all, &on_send_data);
      return all;
    }();
    return made;
  }
};

session::session(application& owner, const limits& bounds) : owner_(owner), limits_(bounds) {
  const auto options = options_of(bounds);
  nghttp2_mem hooks = hooks_of(memory_);
  if (nghttp2_session_server_new3(&session_, callbacks::table(), this, options.get(), &hooks) !=
      0) {
    throw std::bad_alloc();
  }
  const std::array<nghttp2_settings_entry, 3> ours{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, bounds.streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(bounds.header_bytes_max)},
  }};
  if (nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, ours.data(), ours.size()) != 0 ||
      nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, connection_window) !=
          0) {
    nghttp2_session_del(session_);
    throw std::bad_alloc();
  }
}

session::~session() {
  nghttp2_session_del(session_);
}

void session::feed(std::span<const std::byte> bytes, clock::time_point now) {
  if (dead_) return;
  now_ = now;
  floods_.now(now);
  while (!bytes.empty() && !dead_) {
    const auto [passed, was_reset] = idle_resets_.next(bytes);
    if (!passed.empty()) receive(passed);
    if (was_reset) count_idle_frames(1);
  }
}

void session::receive(std::span<const std::byte> bytes) {
  const ssize_t taken = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (taken < 0) fail(static_cast<int>(taken));
  count_what_was_skipped();
}

/// nghttp2 skips frames of types that it does not know, and DATA of streams that are closed,
/// without a word: those that have gone to it, and that it has not told of.
void session::count_what_was_skipped() {
  const auto [frames, data_bytes] = idle_resets_.passed();
  const std::uint64_t bytes = data_bytes - std::exchange(data_earned_, data_bytes);
  if (bytes > 0) floods_.earn_bytes(bytes);
  if (frames > announced_) count_idle_frames(frames - announced_);
  announced_ = frames;
}

bool session::pull(byte_buffer& to) {
  has_pulled_all_ = !pull_frames(to);
  has_no_window_ = !dead_ && nghttp2_session_get_remote_window_size(session_) <= 0;
  return !has_pulled_all_;
}

bool session::pull_frames(byte_buffer& to) {
  output_ = &to;
  is_full_ = false;
  while (!dead_) {  // ends: with nothing to send, or enough
    if (to.size() >= send_bytes) return nghttp2_session_want_write(session_) != 0;
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) fail(static_cast<int>(size));
    if (size <= 0) break;
    to.append({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
  }
  if (const error why = std::exchange(last_words_, error::none); why != error::none) {
    const auto last = static_cast<std::uint32_t>(nghttp2_session_get_last_proc_stream_id(session_));
    to.append(goaway_frame(last, why, last_reason_));
  }
  return is_full_ && !dead_;
}

void session::answer(stream& to, std::span<const field> header, std::string body) {
  to.text_ = std::move(body);
  answer_from(to, header, to.text_);
}

void session::answer_from(stream& to, std::span<const field> header, std::string_view body) {
  if (dead_) return;
  ends_early(to);
  to.body_ = body;
  waiting_bytes_ += body.size();
  submit_answer(to, header);
}

void session::answer(stream& to, std::span<const field> header) {
  if (dead_) return;
  ends_early(to);
  const field_list fields(header);
  fail(nghttp2_submit_response(session_, to.id_, fields.data(), fields.size(), nullptr));
}

void session::begin(stream& to, std::span<const field> header) {
  if (dead_) return;
  to.goes_on_ = true;
  submit_answer(to, header);
}

/// HEADERS, and its body's DATA.
void session::submit_answer(stream& to, std::span<const field> header) {
  nghttp2_data_provider provider{};
  provider.source.ptr = &to;
  provider.read_callback = &callbacks::on_body;
  const field_list fields(header);
  fail(nghttp2_submit_response(session_, to.id_, fields.data(), fields.size(), &provider));
}

/// Who holds up what waits is seen as the last pull() has left it: what was fed since may have
/// opened a window by a byte, time and again.
void session::watch_windows(clock::time_point now) {
  was_away_ = now - watched_at_ > limits_.write_timeout / 2;
  watched_at_ = now;
  waits_for_us_ = !has_pulled_all_;
  const bool waits_for_peer = !waits_for_us_ && has_no_window_ && waiting_bytes_ > 0;
  is_slow_ = is_slow(watch_, waits_for_peer, nghttp2_session_get_remote_window_size(session_),
                     waiting_bytes_, sent_ever_);
}

bool session::is_stalled(stream& which) {
  const auto window = nghttp2_session_get_stream_remote_window_size(session_, which.id_);
  const bool is_own = window <= 0 || !has_no_window_;  // else the connection's is what it waits for
  const bool waits_for_peer = !waits_for_us_ && is_own && which.has_body_left();
  if (is_slow(which.watch_, waits_for_peer, window, which.body_.size() - which.body_sent_,
              which.sent_ever_)) {
    return true;
  }
  return !is_own && is_slow_ && which.has_body_left();
}

/// Of `left` bytes that wait for a window. One that has been opened wide enough is not waited for.
bool session::is_slow(send_watch& watch, bool waits_for_peer, std::int32_t window, std::size_t left,
                      std::uint64_t sent) const noexcept {
  const std::uint64_t least = limits_.write_bytes_min();
  const bool is_open =
      window > 0 && static_cast<std::uint64_t>(window) >= std::min<std::uint64_t>(left, least);
  if (was_away_ || !waits_for_peer || is_open) watch.stop();
  return waits_for_peer && !is_open &&
         watch.is_slow(watched_at_, sent, limits_.write_timeout, least);
}

void session::append(stream& to, std::string& more) {
  waiting_bytes_ += more.size();
  if (to.has_body_left()) {
    to.text_.erase(0, std::exchange(to.body_sent_, 0));  // not much: who appends waits for these
    to.text_.append(more);
  } else {
    to.text_.swap(more);
    to.body_sent_ = 0;
    to.watch_.stop();
  }
  to.body_ = to.text_;
  if (dead_ || !std::exchange(to.deferred_, false)) return;
  fail(nghttp2_session_resume_data(session_, to.id_));
}

void session::finish(stream& to) {
  if (dead_) return;
  to.goes_on_ = false;
  ends_early(to);
  if (to.deferred_) submit_trailers(to);
}

void session::cut(stream& to) {
  if (dead_) return;
  const std::size_t end = to.body_sent_ + to.body_promised_;
  waiting_bytes_ -= to.body_.size() - end;
  to.text_.resize(end);
  to.body_ = to.text_;
  to.cut_ = true;
  ends_early(to);
  submit_trailers(to);
}

/// At once, whatever its window: they are no DATA.
void session::submit_trailers(stream& of) {
  const field_list trailers(of.trailers());
  fail(nghttp2_submit_trailer(session_, of.id_, trailers.data(), trailers.size()));
}

void session::ends_early(stream& which) noexcept {
  which.early_ = !which.ended_;
  early_ += which.early_ ? 1U : 0U;
}

void session::reset(stream& what, error why) {
  if (dead_) return;
  fail(nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, what.id_,
                                 static_cast<std::uint32_t>(why)));
}

void session::inform(stream& to, std::span<const field> header) {
  if (dead_) return;
  const field_list fields(header);
  fail(nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, to.id_, nullptr, fields.data(),
                              fields.size(), nullptr));
}

void session::pass(const stream& from, stream& to, std::span<const field> fields) {
  to.id_ = from.id_;
  current_ = &to;
  header_kept_ -= from.header_kept_;
  nghttp2_session_set_stream_user_data(session_, to.id_, &to);
  for (const field& each : fields) to.on_field(each.name, each.value);
}

void session::keep_field(stream& of, std::string_view name, std::string_view value) noexcept {
  const std::size_t kept = name.size() + value.size() + field_bytes;
  of.header_kept_ += kept;
  header_kept_ += kept;
}

void session::forget_fields(stream& of) noexcept {
  header_kept_ -= std::exchange(of.header_kept_, 0);
}

void session::consume(stream& of, std::size_t bytes) {
  if (dead_ || bytes == 0) return;
  of.held_ -= bytes;
  held_ -= bytes;
  fail(nghttp2_session_consume(session_, of.id_, bytes));
}

/// Its own window nobody needs any more.
void session::consume_rest_of(stream& closed) {
  const std::size_t bytes = std::exchange(closed.held_, 0);
  held_ -= bytes;
  if (bytes > 0) fail(nghttp2_session_consume_connection(session_, bytes));
}

void session::notice() {
  if (dead_) return;
  asks_ = true;  // a PING submitted now would go first: nghttp2 holds it for urgent
  fail(nghttp2_submit_shutdown_notice(session_));
}

void session::probe() {
  if (dead_) return;
  fail(nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, probe_ping.data()));
}

void session::leave() {
  if (dead_) return;
  fail(nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                             nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                             nullptr, 0));
}

void session::end(error why) {
  if (dead_) return;
  fail(nghttp2_session_terminate_session(session_, static_cast<std::uint32_t>(why)));
}

bool session::is_over() const noexcept {
  return dead_ ||
         (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0);
}

/// After an error of nghttp2's that is not this or that stream's. 0: there was none.
void session::fail(int nghttp2_error) {
  if (nghttp2_error > NGHTTP2_ERR_FATAL) return;
  dead_ = true;
  if (nghttp2_error == NGHTTP2_ERR_FLOODED || nghttp2_error == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
    last_words_ = error::enhance_your_calm;
  }
  if (nghttp2_error == NGHTTP2_ERR_BAD_CLIENT_MAGIC) last_words_ = error::protocol;
}

/// For nghttp2's callbacks, which give back what this returns: nghttp2 reads no further.
int session::end_at_once(std::string_view reason) noexcept {
  last_words_ = error::enhance_your_calm;
  last_reason_ = reason;
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/// Of a stream that is closed: nghttp2 reads it for HPACK's sake.
bool session::is_late_header(std::uint8_t type, std::int32_t id) const noexcept {
  return type == NGHTTP2_HEADERS && id <= opened_id_ && find(id) == nullptr;
}

void session::note_opened(std::int32_t id) noexcept {
  if (id > opened_id_ + 2) {
    skipped_from_ = opened_id_ + 2;
    skipped_to_ = id - 2;
  }
  opened_id_ = id;
}

/// To the stream whose header comes. One that is far too large ends the session.
void session::bring(std::span<const repeated_header::texts> fields) {
  constexpr auto text_of = [](nghttp2_rcbuf* which) {
    const nghttp2_vec bytes = nghttp2_rcbuf_get_buf(which);
    return std::string_view(reinterpret_cast<const char*>(bytes.base), bytes.len);
  };
  for (const auto& [name_texts, value_texts] : fields) {
    const std::string_view name = text_of(name_texts);
    const std::string_view value = text_of(value_texts);
    header_bytes_ += name.size() + value.size() + 32;
    if (header_bytes_ > far_too_large()) {
      current_ = nullptr;
      return end(error::enhance_your_calm);
    }
    if (current_ == nullptr || current_->header_read_ || header_bytes_ > limits_.header_bytes_max) {
      continue;  // a trailer's fields mean nothing to us
    }
    note_host(name, value);
    current_->on_field(name, value);
  }
}

/// True: it is the header before once more, and its stream has read all of it for the second time.
bool session::end_of_fields() {
  in_header_ = false;
  if (repeated_.is_cut_short()) bring(repeated_.differ());
  if (!repeated_.finish() || current_ == nullptr) return false;
  if (current_->repeat_header()) return false;
  bring(repeated_.fields());
  return true;
}

/// Pseudo-fields come first, and nghttp2 lets no field of the two come twice.
void session::note_host(std::string_view name, std::string_view value) {
  if (is_text(name, ":authority")) {
    authority_ = value;
  } else if (is_text(name, "host")) {
    hosts_differ_ = !authority_.empty() && !is_same_host(value, authority_);
  }
}

void session::count_idle_frames(std::uint64_t frames) {
  end_if_not(floods_.take_idle_frames(frames));
}

void session::end_if_not(bool is_fair) {
  if (!is_fair) end(error::enhance_your_calm);
}

stream* session::find(std::int32_t id) const noexcept {
  if (current_ != nullptr && current_->id_ == id) return current_;
  return static_cast<stream*>(nghttp2_session_get_stream_user_data(session_, id));
}

void session::end_of_request(stream& of) {
  of.ended_ = true;
  floods_.earn_request();
  of.on_end();
}

}  // namespace bwos::server::h2

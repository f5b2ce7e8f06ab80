// SPDX-License-Identifier: Apache-2.0
#include "http/h2/requests.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "http/h1/syntax.hpp"
#include "http/h2/endpoint.hpp"
#include "http/limits.hpp"
#include "http/worker_local.hpp"
#include "net/kept_buffers.hpp"

namespace bwos::server::h2 {
namespace {

constexpr std::array<field, 1> continue_header{field{":status", "100"}};

/// Bodies of the largest size that one connection may have unanswered. Guessed: more is no browser.
constexpr std::size_t bodies_max = 16;

/// The decimal of a status, for as long as the program runs.
std::string_view code_of(status what) noexcept {
  static constexpr auto texts = [] {
    std::array<std::array<char, 3>, status_count> all{};
    for (std::size_t i = 0; i < status_count; ++i) {
      const unsigned code = status_texts[i].code;
      all[i] = {static_cast<char>('0' + code / 100), static_cast<char>('0' + code / 10 % 10),
                static_cast<char>('0' + code % 10)};
    }
    return all;
  }();
  const auto& text = texts[static_cast<std::size_t>(what)];
  return {text.data(), text.size()};
}

}  // namespace

/// In the lane, and back.
struct request_stream::long_run final : continuation, handed_on_stream {
  long_run(request_stream& one, std::size_t at) noexcept
      : continuation(&on_turn),
        handed_on_stream(one.in_),
        of(&one),
        where(at),
        since(metrics::now_ticks()) {}
  static void on_turn(continuation& self, disposition how) noexcept;
  void answer() noexcept;

  request_stream*
      of;  // null: the connection has gone with the threads, and this goes with the lane
  const std::size_t where;
  const metrics::ticks since;
  lane_entry place;
  response reply;
  std::string text;  // what reply refers to, unless that lies in the request
  std::atomic<bool> cancelled{false};
};

request_stream::request_stream(requests& in) noexcept : in_(in) {
  take_rest(true);
}

request_stream::~request_stream() = default;

/// On a worker. As its last act it gives itself back, or goes.
void request_stream::long_run::on_turn(continuation& self, disposition how) noexcept {
  auto& run = static_cast<long_run&>(self);
  if (how == disposition::run) {
    // [request.cancelled] relaxed: a hint not to begin; nothing is read on its strength. Partner:
    // [request.cancel].
    if (!run.cancelled.load(std::memory_order_relaxed)) run.answer();
    return run.of->in_.at_.give_back(run);
  }
  if (run.of == nullptr) {
    delete &run;
    return;
  }
  request_stream& discarded = *run.of;
  discarded.run_.reset();
  discarded.in_.at_.one_discarded();
}

void request_stream::long_run::answer() noexcept {
  const h1::common& common = of->in_.common_;
  const metrics::ticks begun = metrics::now_ticks();
  try {
    reply = common.routes.respond(where, of->asked(), this_worker().text);
    if (!of->content_.has(reply.body)) {
      text = reply.body;
      reply.body = text;
    }
  } catch (...) {
    reply = error_response(status::internal_error);
  }
  common.times.note(where, metrics::now_ticks() - begun);
}

// The request.

void request_stream::on_field(std::string_view name, std::string_view value) {
  if (may_be_call_ && !name.starts_with(':')) {  // pseudo-fields come first
    fields_.append(name).append(1, '\0').append(value).append(1, '\0');
    in_.session_.keep_field(*this, name, value);
  }
  if (name == "content-type") {
    if (may_be_call_ && in_.at_.of().calls->is_call(value)) return in_.hand_over(*this);
    if (content_type_.empty()) content_type_ = value;
  } else if (name == ":method") {
    read_method(value);
  } else if (name == ":path") {
    target_ = value;
  } else if (name == ":authority" || name == "host") {
    read_host(value);
  } else if (name == "content-length") {
    read_length(value);
  } else if (name == "expect") {
    read_expect(value);
  }
}

void request_stream::object(status why) noexcept {
  if (objection_ == status::ok) objection_ = why;
}

void request_stream::read_method(std::string_view value) {
  if (value == "GET") {
    verb_ = method::get;
  } else if (value == "HEAD") {
    verb_ = method::head;
  } else if (value == "POST") {
    verb_ = method::post;
    may_be_call_ = in_.at_.has_calls();
  } else if (value == "OPTIONS") {
    verb_ = method::options;
  } else if (value == "CONNECT") {
    object(status::method_not_allowed);
  } else if (!h1::is_known_method(value)) {
    object(status::not_implemented);
  }
}

void request_stream::read_host(std::string_view value) {
  if (!h1::is_host(value)) object(status::bad_request);
}

/// nghttp2 has seen to it that it is a number, and compares it with what comes.
void request_stream::read_length(std::string_view value) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
  if (error != std::errc() || size > in_.common_.limits.body_bytes_max) {
    object(status::payload_too_large);
  } else if (!in_.at_.of().memory.admits_body(size)) {
    object(status::service_unavailable);
  } else {
    content_length_ = size;
  }
}

void request_stream::read_expect(std::string_view value) {
  expects_continue_ = h1::is_lower_case_of(value, "100-continue");
  if (!expects_continue_) object(status::expectation_failed);
}

void request_stream::on_header(bool too_large) {
  taken_up_ = in_.session_.now();
  std::string().swap(fields_);
  in_.session_.forget_fields(*this);
  in_.session_.keep_field(*this, content_type_, target_);
  may_be_call_ = false;
  if (too_large) objection_ = status::header_fields_too_large;
  if (target_.find('#') != std::string::npos) object(status::bad_request);
  if (in_.session_.hosts_differ()) object(status::bad_request);
  if (!in_.at_.may_keep_header()) object(status::service_unavailable);
  in_.wait_for_body(*this);
  if (objection_ != status::ok) return refuse(objection_);
  if (expects_continue_) in_.awaits_continue_ = true;
}

void request_stream::on_data(std::span<const std::byte> bytes, bool /*last*/) {
  in_.session_.consume(*this, bytes.size());  // keep() has bounds of its own
  expects_continue_ = false;
  if (answered_) {
    dropped_bytes_ += bytes.size();
    if (dropped_bytes_ > linger_bytes_max) in_.session_.reset(*this, error::none);
    return;
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (content_.size() + text.size() > in_.common_.limits.body_bytes_max) {
    return refuse(status::payload_too_large);
  }
  if (!in_.keep(*this, text)) refuse(status::service_unavailable);
}

void request_stream::on_end() {
  in_.wait_no_more(*this);
  taken_up_ = in_.session_.now();
  if (!answered_) in_.complete(*this);
}

void request_stream::on_closed(error /*why*/) {
  open_ = false;
  in_.wait_no_more(*this);
  if (run_) {
    // [request.cancel] relaxed: it publishes nothing but itself. Partner: [request.cancelled].
    return run_->cancelled.store(true, std::memory_order_relaxed);
  }
  in_.drop_content(*this);
  if (!ready_) in_.release(*this);
}

void request_stream::on_sent(std::size_t bytes) {
  if (!lends_) return;
  content_room_ += bytes;  // the session does not count them any more, and they are there yet
  in_.lent_bytes_ += bytes;
}

request request_stream::asked() const noexcept {
  const std::string_view target = target_;
  const std::size_t mark = std::min(target.find('?'), target.size());
  return {.verb = verb_,
          .path = target.substr(0, mark),
          .query = target.substr(std::min(mark + 1, target.size())),
          .content_type = content_type_,
          .body = content_.view(),
          .length_known = true};  // RFC 9113, 8.1: its frames say where it ends
}

// The answer.

/// What comes of its body yet is dropped, within the bounds of HTTP/1.1's last answers.
void request_stream::refuse(status why) {
  expects_continue_ = false;
  in_.common_.metrics.here().request(in_.common_.routes.other(), number_of(why));
  answer(error_response(why));
}

void request_stream::answer(const response& what) {
  answered_ = true;
  in_.at_.note_answer();
  if (in_.common_.log != nullptr) [[unlikely]]
    note(what);
  worker_local& worker = this_worker();
  const metrics::registry& metrics = in_.common_.metrics;
  const clock::time_point now = worker.coarse_now(metrics::now_ticks(), metrics.ticks_per_ms());
  constexpr std::size_t behind_name = std::string_view("Date: ").size();
  worker.date.line(now).copy(date_.data(), date_.size(), behind_name);
  const auto length_end =
      std::to_chars(length_.data(), length_.data() + length_.size(), what.body.size()).ptr;
  std::array<field, 5> fields{field{":status", code_of(what.code)},
                              {"date", {date_.data(), date_.size()}},
                              {"content-type", what.content_type},
                              {"content-length", std::string_view(length_.data(), length_end)}};
  std::size_t count = 4;
  if (const std::size_t colon = what.header.find(": "); colon != std::string_view::npos) {
    more_name_ = what.header.substr(0, colon);
    for (char& c : more_name_) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    fields[count++] = {more_name_, what.header.substr(colon + 2)};
  }
  const auto header = std::span(fields).first(count);
  if (verb_ == method::head || what.body.empty()) {
    in_.session_.answer(*this, header);
  } else if (content_.has(what.body)) {
    in_.lend_content(*this, what.body.size());
    return in_.session_.answer_from(*this, header, what.body);
  } else {
    in_.session_.answer(*this, header, std::string(what.body));
  }
  in_.drop_content(*this);
}

/// To the access log.
void request_stream::note(const response& what) const {
  const request from = asked();
  const auto took = clock::now() - taken_up_;
  in_.common_.log->note({.socket = in_.at_.socket(),
                         .protocol = "HTTP/2",
                         .method = name_of(from.verb),
                         .path = from.path,
                         .status = text_of(what.code).code,
                         .bytes = from.verb == method::head ? 0 : what.body.size(),
                         .duration = std::chrono::duration_cast<std::chrono::microseconds>(took)});
}

// All of them.

requests::requests(endpoint& of, const h1::common& common) noexcept
    : at_(of), session_(of.session()), common_(common) {}

requests::~requests() {
  while (request_stream* const each = newest_) {
    newest_ = each->older_;
    if (each->run_) each->run_.release()->of = nullptr;  // the lane discards it yet
    delete each;
  }
}

stream& requests::open() {
  auto* const made = new request_stream(*this);
  made->older_ = newest_;
  if (newest_ != nullptr) newest_->newer_ = made;
  newest_ = made;
  return *made;
}

void requests::run(clock::time_point now) {
  if (!at_.owes()) expire(now);
  if (std::exchange(awaits_continue_, false)) invite();
  left_ = run_ready(now);
}

void requests::renew(clock::time_point now) noexcept {
  for (request_stream* each = soonest_; each != nullptr; each = each->later_) {
    each->deadline_ = now + common_.limits.body_timeout;
  }
}

void requests::sweep(clock::time_point /*now*/) {
  for (request_stream* each = newest_; each != nullptr;) {
    request_stream& which = *std::exchange(each, each->older_);
    if (!which.open_ || !session_.is_stalled(which)) continue;
    count_timeout(metrics::timeout::write);
    session_.reset(which, error::cancel);
  }
}

rest requests::run_ready(clock::time_point now) {
  const bool from_lane = std::exchange(left_, rest::nothing) == rest::long_one;
  const metrics::ticks begun = metrics::now_ticks();
  const bool late = common_.queue_age.exceeded(now);
  metrics::slot& counters = common_.metrics.here();
  const metrics::ticks slice =
      common_.metrics.ticks_per_ms() * static_cast<metrics::ticks>(pipeline_slice.count());
  unsigned answered = 0;
  rest left = rest::nothing;
  while (ready_ != nullptr && left == rest::nothing) {
    request_stream& each = *ready_;
    const request asked = each.asked();
    const std::size_t where = common_.routes.find(asked.path);
    const route& entry = common_.routes[where];
    const bool is_long = common_.times.is_long(where) && !(from_lane && answered == 0);
    const bool shed = !entry.vital && (late || (is_long && common_.queue_age.exceeded_in_lane()));
    const bool is_refused = shed || (!entry.vital && !at_.may_answer());
    const bool goes_alone = is_long && at_.hands_on();
    if (each.open_ && is_long && !is_refused && !goes_alone) {
      left = rest::long_one;
      break;
    }
    ready_ = each.next_ready_;
    if (ready_ == nullptr) ready_end_ = &ready_;
    each.ready_ = false;
    if (!each.open_) {
      release(each);
      continue;
    }
    if (session_.waiting_bytes() + lent_bytes_ > at_.of().bounds.output_bytes_max) {
      session_.reset(each, error::refused_stream);
      continue;
    }
    if (goes_alone && !is_refused) {
      hand_on(each, where);
      continue;
    }
    const metrics::ticks asked_at = entry.brief ? 0 : metrics::now_ticks();
    const response reply =
        is_refused ? busy_response() : common_.routes.respond(where, asked, this_worker().text);
    if (!is_refused && !entry.brief) common_.times.note(where, metrics::now_ticks() - asked_at);
    each.answer(reply);
    counters.request(where, number_of(reply.code));
    if (shed) counters.shed();
    ++answered;
    const bool look = !entry.brief || answered % brief_answers_per_look == 0;
    const bool over = answered == common_.limits.pipeline_max ||
                      (look && (metrics::now_ticks() - begun) * 1000 > slice);
    if (over && ready_ != nullptr) left = rest::some;
  }
  if (answered > 0) counters.answered(answered, metrics::now_ticks() - begun);
  return left;
}

/// To the lane, if the connection has not too many there already.
void requests::hand_on(request_stream& which, std::size_t route) {
  if (!at_.may_hand_on()) return session_.reset(which, error::refused_stream);
  which.run_ = std::make_unique<request_stream::long_run>(which, route);
  at_.one_handed_on();
  common_.workers.post_long(*which.run_, which.run_->place);
}

void requests::take(inbox_entry& ended) {
  const auto& run = static_cast<request_stream::long_run&>(ended);
  request_stream& which = *run.of;
  const std::unique_ptr<request_stream::long_run> owned = std::move(which.run_);
  at_.one_came_back();
  if (!which.open_) {
    drop_content(which);
    return release(which);
  }
  which.answer(run.reply);
  metrics::slot& counters = common_.metrics.here();
  counters.request(run.where, number_of(run.reply.code));
  counters.answered(1, metrics::now_ticks() - run.since);
}

void requests::lost() noexcept {
  for (request_stream* each = newest_; each != nullptr; each = each->older_) {
    // [request.lost] relaxed: it publishes nothing but itself. Partner: [request.cancelled].
    if (each->run_) each->run_->cancelled.store(true, std::memory_order_relaxed);
  }
}

void requests::bury(inbox_entry& ended) noexcept {
  static_cast<request_stream::long_run&>(ended).of->run_.reset();
  at_.one_came_back();
}

void requests::expire(clock::time_point now) {
  while (soonest_ != nullptr && soonest_->deadline_ <= now) {
    request_stream& late = *soonest_;
    wait_no_more(late);
    if (late.answered_) {
      session_.reset(late, error::none);
      continue;
    }
    common_.metrics.here().timed_out(metrics::timeout::body);
    late.take_rest(false);
    late.refuse(status::request_timeout);
  }
}

/// Those who wait for it are told to send their bodies, unless they have begun (RFC 9110, 10.1.1).
void requests::invite() {
  for (request_stream* each = soonest_; each != nullptr; each = each->later_) {
    if (std::exchange(each->expects_continue_, false)) session_.inform(*each, continue_header);
  }
}

void requests::complete(request_stream& which) noexcept {
  which.ready_ = true;
  *ready_end_ = &which;
  ready_end_ = &which.next_ready_;
}

/// Headers end one after the other, so that the list is in the order of its deadlines.
void requests::wait_for_body(request_stream& which) noexcept {
  which.waits_ = true;
  which.deadline_ = session_.now() + common_.limits.body_timeout;
  which.sooner_ = latest_;
  (latest_ != nullptr ? latest_->later_ : soonest_) = &which;
  latest_ = &which;
}

void requests::wait_no_more(request_stream& which) noexcept {
  if (!std::exchange(which.waits_, false)) return;
  (which.sooner_ != nullptr ? which.sooner_->later_ : soonest_) = which.later_;
  (which.later_ != nullptr ? which.later_->sooner_ : latest_) = which.sooner_;
}

/// Room for the rest of a body is made once a part of it has come, so that nobody is charged for
/// much by announcing it. A guess: what a frame brings of a body of body_bytes_ahead.
constexpr std::size_t ahead_part = 16;

/// False: the connection has too much already.
bool requests::keep(request_stream& which, std::string_view bytes) {
  byte_buffer& content = which.content_;
  const std::size_t size = content.size() + bytes.size();
  if (size > content.capacity()) {
    memory_budget& memory = at_.of().memory;
    const std::size_t whole = std::max(size, which.content_length_);
    const std::size_t ahead = std::min(whole, body_bytes_ahead);
    const std::size_t room =
        buffer_bytes(size * ahead_part >= ahead ? std::max(size, ahead) : size);
    const std::size_t more = room - which.content_room_;
    const std::size_t most = bodies_max * buffer_bytes(common_.limits.body_bytes_max);
    if (content_bytes_ + more > most) return false;
    const bool becomes_large = content.size() <= memory_budget::body_bytes_tight;
    if (becomes_large && !memory.admits_body(whole)) return false;
    if (!at_.may_keep(more)) return false;
    byte_buffer larger = take_buffer(room, memory);
    larger.append(content.view());
    put_away(std::exchange(content, std::move(larger)), memory);
    which.content_room_ = room;
    content_bytes_ += more;
  }
  content.append(bytes);
  return true;
}

/// An answer of `bytes` lies in it, which the session counts while they wait.
void requests::lend_content(request_stream& which, std::size_t bytes) noexcept {
  which.lends_ = true;
  content_bytes_ -= which.content_room_;
  which.content_room_ -= bytes;
  lent_bytes_ += which.content_room_;
}

void requests::drop_content(request_stream& which) noexcept {
  if (which.content_.capacity() == 0) return;
  (which.lends_ ? lent_bytes_ : content_bytes_) -= std::exchange(which.content_room_, 0);
  if (which.content_.capacity() >= kept_buffer_bytes_min) at_.keeps_less();
  put_away(std::exchange(which.content_, {}), at_.of().memory);
}

/// It is a call: a stream of the peer's takes its place, and what has come of it.
void requests::hand_over(request_stream& call) {
  std::vector<field> read{{":method", "POST"}, {":path", call.target_}};
  std::string_view rest = call.fields_;
  const auto take = [&rest] {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(text.size() + 1);
    return text;
  };
  while (!rest.empty()) {  // ends: each turn takes a field
    const std::string_view name = take();
    read.push_back({name, take()});
  }
  session_.pass(call, at_.open_call(), read);
  release(call);
}

void requests::release(request_stream& which) noexcept {
  if (which.older_ != nullptr) which.older_->newer_ = which.newer_;
  (which.newer_ != nullptr ? which.newer_->older_ : newest_) = which.older_;
  delete &which;
}

}  // namespace bwos::server::h2

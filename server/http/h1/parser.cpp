// SPDX-License-Identifier: Apache-2.0
#include "http/h1/parser.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "http/h1/syntax.hpp"
#include "net/kept_buffers.hpp"

namespace bwos::server::h1 {
namespace {

constexpr std::size_t behind_target = std::string_view(" HTTP/1.1\r\n").size();

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// is_host(), but for the text that this thread has found good last: nearly all requests name the
/// same host.
bool is_host_again(std::string_view text) noexcept {
  struct good {
    std::array<char, 63> text;
    std::uint8_t size;
  };
  constinit thread_local good last{};
  if (text == std::string_view(last.text.data(), last.size)) return true;
  if (!is_host(text)) return false;
  if (text.size() <= last.text.size()) {
    last.size = static_cast<std::uint8_t>(text.copy(last.text.data(), last.text.size()));
  }
  return true;
}

constexpr std::uint64_t bit(unsigned llhttp_method) noexcept {
  return std::uint64_t{1} << llhttp_method;
}

/// Of those that llhttp reads: the ones that judge_request_line() knows.
constexpr std::uint64_t known_methods = bit(HTTP_GET) | bit(HTTP_HEAD) | bit(HTTP_POST) |
                                        bit(HTTP_PUT) | bit(HTTP_DELETE) | bit(HTTP_OPTIONS) |
                                        bit(HTTP_TRACE) | bit(HTTP_PATCH);

method method_of(std::uint8_t llhttp_method) noexcept {
  switch (llhttp_method) {
    case HTTP_GET:
      return method::get;
    case HTTP_HEAD:
      return method::head;
    case HTTP_POST:
      return method::post;
    case HTTP_OPTIONS:
      return method::options;
    default:
      return method::other;
  }
}

}  // namespace

/// llhttp's events. It stops at a value other than 0 and says so by an error; parser::refusal_ has
/// the reason.
struct callbacks {
  static parser& self(llhttp_t* at) noexcept { return static_cast<parser&>(*at); }

  static int target(llhttp_t* at, const char* from, std::size_t length) noexcept {
    parser& p = self(at);
    p.path_ = p.part_of(from, length);
    return 0;
  }

  static int name(llhttp_t* at, const char* from, std::size_t length) noexcept {
    parser& p = self(at);
    if (p.trailers_) return 0;
    p.field_ = field_of({from, length});
    if (p.field_ == parser::field::host) p.note(parser::host, parser::bad_host);
    if (p.field_ == parser::field::transfer_encoding) p.note(parser::coded, parser::other_coding);
    return 0;
  }

  static int value(llhttp_t* at, const char* from, std::size_t length) noexcept {
    parser& p = self(at);
    if (p.trailers_ || p.field_ == parser::field::other) return 0;
    const std::string_view text = trimmed({from, length});
    switch (p.field_) {
      case parser::field::host:
        if (!is_host_again(text)) p.note(parser::bad_host);
        break;
      case parser::field::expect:
        p.note(is_lower_case_of(text, "100-continue") ? parser::expects_continue
                                                      : parser::expects_other);
        break;
      case parser::field::content_type:  // the first of several
        if (p.content_type_.length == 0) p.content_type_ = p.part_of(from, text.size());
        break;
      case parser::field::transfer_encoding:
        if (!is_lower_case_of(text, "chunked")) p.note(parser::other_coding);
        break;
      case parser::field::other:
        break;
    }
    return 0;
  }

  static int headers_end(llhttp_t* at) noexcept {
    parser& p = self(at);
    if (const status why = p.judge(); why != status::ok) return p.fail(why);
    p.upgrade = 0;  // an offer that we do not take: the request is an ordinary one
    p.keep_alive_ = llhttp_should_keep_alive(at) != 0;
    p.phase_ = parser::phase::body;
    return 0;
  }

  static int body(llhttp_t* at, const char* from, std::size_t length) {
    return self(at).take_body(from, length);
  }

  static int chunk_header(llhttp_t* at) noexcept {
    parser& p = self(at);
    if (p.content_length > p.limits_->body_bytes_max - p.body_.length)
      return p.fail(status::payload_too_large);
    const std::size_t body = p.body_.length + p.content_length;
    if (p.body_.length <= memory_budget::body_bytes_tight && !p.memory_->budget().admits_body(body))
      return p.fail(status::service_unavailable);
    if (p.content_length > 0) return 0;
    p.trailers_ = true;
    p.lines_ = {};
    return HPE_PAUSED;
  }

  /// Unused, but not endless.
  static int chunk_extension(llhttp_t* at, const char* /*from*/, std::size_t length) noexcept {
    parser& p = self(at);
    p.trailing_bytes_ += length;
    return p.trailing_bytes_ <= p.limits_->header_bytes_max
               ? 0
               : p.fail(status::header_fields_too_large);
  }

  static int end(llhttp_t* at) noexcept {
    parser& p = self(at);
    p.complete_ = true;
    // What a trailer says of the connection is not for us; llhttp would take it to heart.
    if (p.keep_alive_) p.flags &= static_cast<std::uint16_t>(~F_CONNECTION_CLOSE);
    return HPE_PAUSED;
  }

  static parser::field field_of(std::string_view name) noexcept {
    using enum parser::field;
    switch (name.size()) {
      case 4:
        return is_lower_case_of(name, "host") ? host : other;
      case 6:
        return is_lower_case_of(name, "expect") ? expect : other;
      case 12:
        return is_lower_case_of(name, "content-type") ? content_type : other;
      case 17:
        return is_lower_case_of(name, "transfer-encoding") ? transfer_encoding : other;
      default:
        return other;
    }
  }

  static const llhttp_settings_t* settings() noexcept {
    static const llhttp_settings_t all = [] {
      llhttp_settings_t s;
      llhttp_settings_init(&s);
      s.on_url = &target;
      s.on_header_field = &name;
      s.on_header_value = &value;
      s.on_headers_complete = &headers_end;
      s.on_body = &body;
      s.on_chunk_header = &chunk_header;
      s.on_chunk_extension_name = &chunk_extension;
      s.on_chunk_extension_value = &chunk_extension;
      s.on_message_complete = &end;
      return s;
    }();
    return &all;
  }
};

parser::parser(const http_limits& limits, memory_account& memory) noexcept
    : llhttp_t{}, limits_(&limits), memory_(&memory) {
  llhttp_init(this, HTTP_REQUEST, callbacks::settings());
  // Any version, for us to judge: 1.2 is answered as 1.1, 2.0 told what it is.
  lenient_flags = LENIENT_VERSION;
}

parser::result parser::feed(std::string_view input) {
  std::string_view rest = input;
  const outcome what = phase_ == phase::body ? read_body(rest) : read_head(rest);
  return {what, input.size() - rest.size()};
}

void parser::release() noexcept {
  if (gathering_) {
    memory_->set_anyway(memory::bodies, 0);
    put_away(std::move(gathered_), memory_->budget());
  }
  path_ = query_ = content_type_ = body_ = {};
  trailing_bytes_ = 0;
  lines_ = {};
  phase_ = phase::idle;
  seen_ = 0;
  gathering_ = trailers_ = keep_alive_ = complete_ = false;
}

/// From the end of a request to the end of the next one, or as far as the input goes.
parser::outcome parser::read_head(std::string_view& rest) {
  if (phase_ == phase::idle) {
    if (half_empty_line_ || !is_token(rest.front())) [[unlikely]] {
      if (!skip_empty_lines(rest)) return refuse(status::bad_request);
      if (rest.empty()) return outcome::incomplete;
    }
    phase_ = phase::header;
  }
  const std::size_t room = limits_->header_bytes_max - gathered_.size();
  const bool new_line = lines_.first_line() == 0;
  const auto [what, size] = lines_.scan(rest.substr(0, room));
  if (what != line_scan::outcome::complete) return keep(rest, what, new_line);
  if (!gathering_) {
    base_ = rest.data();
    return run(rest);
  }
  if (!make_room(size)) return refuse(status::service_unavailable);
  gathered_.append(rest.substr(0, size));
  rest.remove_prefix(size);
  base_ = gathered_.data();
  std::string_view head = gathered_.view();
  const outcome read = run(head);
  return read == outcome::incomplete ? read_body(rest) : read;
}

parser::outcome parser::read_body(std::string_view& rest) {
  return trailers_ ? read_trailers(rest) : run(rest);
}

parser::outcome parser::read_trailers(std::string_view& rest) {
  const std::size_t room = limits_->header_bytes_max - trailing_bytes_;
  const auto [what, used] = lines_.scan(rest.substr(0, room));
  if (what == line_scan::outcome::malformed) return refuse(status::bad_request);
  const std::size_t size =
      what == line_scan::outcome::complete ? used : std::min(rest.size(), room);
  trailing_bytes_ += size;
  std::string_view lines = rest.substr(0, size);
  rest.remove_prefix(size);
  const outcome read = run(lines);
  if (read == outcome::incomplete && size == room) return refuse(status::header_fields_too_large);
  return read;
}

/// The head is not whole yet, or will not be. Its first line is judged as soon as it has come: what
/// speaks another protocol may send no more.
parser::outcome parser::keep(std::string_view& rest, line_scan::outcome what, bool new_line) {
  gathering_ = true;
  const std::size_t room = limits_->header_bytes_max - gathered_.size();
  const bool full = rest.size() >= room;
  const std::string_view piece = rest.substr(0, room);
  if (!make_room(piece.size())) return refuse(status::service_unavailable);
  gathered_.append(piece);
  rest = {};
  const std::size_t line = lines_.first_line();
  if (new_line && line > 0) {
    const status why = judge_request_line({gathered_.data(), line});
    if (why != status::ok) return refuse(why);
  }
  if (what == line_scan::outcome::malformed) return refuse(status::bad_request);
  if (!full) return outcome::incomplete;
  return refuse(line == 0 ? status::uri_too_long : status::header_fields_too_large);
}

/// Has llhttp read all that is there, up to the end of a request.
parser::outcome parser::run(std::string_view& rest) {
  const llhttp_errno_t error = llhttp_execute(this, rest.data(), rest.size());
  if (error != HPE_PAUSED) return has_stopped(error, rest);
  rest.remove_prefix(static_cast<std::size_t>(llhttp_get_error_pos(this) - rest.data()));
  llhttp_resume(this);
  if (!complete_) return read_trailers(rest);
  describe();
  return outcome::request;
}

/// llhttp has, elsewhere than at a request's end.
parser::outcome parser::has_stopped(llhttp_errno_t error, std::string_view& rest) {
  // Behind a whole head llhttp waits for more of it: an HTTP/2 preface.
  const bool wants_body = error == HPE_OK && phase_ == phase::body;
  if (wants_body) {
    rest = {};
    return gather() ? outcome::incomplete : refuse(status::service_unavailable);
  }
  if (phase_ == phase::header && refusal_ == status::bad_request) refusal_ = judge_failure();
  return outcome::refused;
}

parser::outcome parser::refuse(status why) noexcept {
  refusal_ = why;
  return outcome::refused;
}

int parser::fail(status why) noexcept {
  refusal_ = why;
  return -1;
}

/// Empty lines before a request, which RFC 9112 asks to ignore. False: no request begins behind
/// them.
bool parser::skip_empty_lines(std::string_view& rest) noexcept {
  while (!rest.empty() && rest.front() == (half_empty_line_ ? '\n' : '\r')) {
    half_empty_line_ = !half_empty_line_;
    rest.remove_prefix(1);
  }
  return rest.empty() || (!half_empty_line_ && is_token(rest.front()));
}

/// llhttp or judge() objects to a whole head: by its first line if the fault is there.
status parser::judge_failure() const noexcept {
  const status why = judge_request_line({base_, lines_.first_line()});
  return why == status::ok ? status::bad_request : why;
}

/// The head is whole and llhttp has read it: what else there is to object to; else ok.
status parser::judge() noexcept {
  if (!has_plain_request_line()) return judge_failure();
  if (!split_target()) return status::bad_request;
  if (seen_ != host || http_minor == 0) [[unlikely]] {
    if (const status why = judge_fields(); why != status::ok) return why;
  }
  if ((flags & F_CONTENT_LENGTH) != 0 && content_length > limits_->body_bytes_max)
    return status::payload_too_large;
  if ((flags & F_CONTENT_LENGTH) != 0 && !memory_->budget().admits_body(content_length))
    return status::service_unavailable;
  return status::ok;
}

/// A method that is known, two single spaces, and HTTP/1: llhttp takes more.
bool parser::has_plain_request_line() const noexcept {
  const std::size_t target_end = lines_.first_line() - behind_target;
  return (known_methods >> llhttp_t::method & 1) != 0 && http_major == 1 &&
         path_.begin + path_.length == target_end && base_[path_.begin - 2] != ' ' &&
         std::memcmp(base_ + target_end, " HTTP/", 6) == 0;
}

status parser::judge_fields() noexcept {
  if ((seen_ & coded) != 0) {
    // RFC 9112, 6.1 and 6.3. llhttp has refused chunks that are named twice or not last, and, but
    // where nothing at all is named, a length beside them.
    if ((flags & F_CHUNKED) == 0 || (flags & F_CONTENT_LENGTH) != 0 || http_minor == 0)
      return status::bad_request;
    if ((seen_ & other_coding) != 0) return status::not_implemented;
  }
  // RFC 9112, 3.2: one Host in HTTP/1.1, and never more.
  if ((seen_ & bad_host) != 0 || ((seen_ & host) == 0 && http_minor > 0))
    return status::bad_request;
  if (http_minor == 0) {
    seen_ = 0;  // RFC 9110, 10.1.1: it cannot mean what it expects
  }
  return (seen_ & expects_other) != 0 ? status::expectation_failed : status::ok;
}

/// Into path and query.
bool parser::split_target() noexcept {
  if (base_[path_.begin] != '/') [[unlikely]] {
    if (!skip_authority()) return false;
  }
  const std::string_view target = view(path_);
  std::size_t mark = 0;
  while (mark < target.size() && target[mark] != '?' && target[mark] != '#') ++mark;
  if (mark < target.size()) {
    if (target.find('#', mark) != std::string_view::npos) return false;  // RFC 9112, 3.2: not sent
    query_ = part_of(&target[mark] + 1, target.size() - mark - 1);
    path_.length = narrow(mark);
  }
  return true;
}

/// Takes scheme and host off "http://host/path?query". False: they are wrong, or it is another
/// form for which the method is.
bool parser::skip_authority() noexcept {
  const std::string_view target = view(path_);
  if (target == "*") return llhttp_t::method == HTTP_OPTIONS;
  const std::size_t scheme_end = target.find("://");
  if (scheme_end == std::string_view::npos) return false;
  const std::size_t begin = scheme_end + 3;
  const std::size_t end = std::min(target.find_first_of("/?#", begin), target.size());
  path_ = part_of(target.data() + end, target.size() - end);
  return end > begin && is_host(target.substr(begin, end - begin));
}

/// llhttp counts down to the body's end.
std::span<std::byte> parser::room() {
  const bool is_known = phase_ == phase::body && (flags & F_CONTENT_LENGTH) != 0;
  if (!is_known || !gathering_ || content_length < body_bytes_direct) return {};
  if (gathered_.room().empty() && !make_room(1)) return {};
  const std::span<std::byte> behind = gathered_.room();
  return behind.first(std::min<std::size_t>(behind.size(), content_length));
}

/// Whether a piece of the body lies where room() was.
bool parser::is_gathered(const char* at, std::size_t length) noexcept {
  const std::span<std::byte> behind = gathered_.room();
  return at == reinterpret_cast<const char*>(behind.data()) && length <= behind.size();
}

/// Adds a piece to the body: in place if it lies behind what came before, else by gathering.
int parser::take_body(const char* at, std::size_t length) {
  if (!gathering_) {
    if (body_.length == 0) body_ = part_of(at, 0);
    if (base_ + body_.begin + body_.length == at) {
      body_.length += narrow(length);
      return 0;
    }
    if (!gather()) return fail(status::service_unavailable);
  }
  if (body_.length == 0) body_.begin = narrow(gathered_.size());
  if (is_gathered(at, length)) {
    gathered_.advance(length);
  } else {
    if (!make_room(length)) return fail(status::service_unavailable);
    gathered_.append({at, length});
  }
  base_ = gathered_.data();
  body_.length += narrow(length);
  return 0;
}

/// What gathered_ is to hold: so many bytes more, and the rest of the body (of a chunk) behind
/// them, if that is not too much to make room for at once. llhttp counts down to its end.
std::size_t parser::room_for(std::size_t bytes) const noexcept {
  const std::size_t needed = gathered_.size() + bytes;
  const std::size_t ahead = phase_ == phase::body ? content_length : 0;
  return buffer_bytes(std::max(needed, std::min(needed + ahead, buffer_bytes(body_bytes_ahead))));
}

/// False: there is no memory for it (--memory-max).
bool parser::make_room(std::size_t bytes) {
  if (gathered_.capacity() - gathered_.size() >= bytes) return true;
  const std::size_t room = room_for(bytes);
  if (!memory_->set(memory::bodies, room)) return false;
  byte_buffer larger = take_buffer(room, memory_->budget());
  larger.append(gathered_.view());
  put_away(std::exchange(gathered_, std::move(larger)), memory_->budget());
  return true;
}

/// Copies the parts so far out of the input. False: as above.
bool parser::gather() {
  if (gathering_) return true;
  if (!make_room(path_.length + query_.length + content_type_.length + body_.length)) return false;
  gather_parts();
  return true;
}

/// It lies in the input whole, so that it is no larger than a receive.
void parser::hold() {
  if (!gathering_) {
    const std::size_t size = path_.length + query_.length + content_type_.length + body_.length;
    memory_->set_anyway(memory::bodies, buffer_bytes(size));
    gathered_ = take_buffer(size, memory_->budget());
    gather_parts();
  }
  describe();
}

void parser::gather_parts() {
  gathering_ = true;
  for (part* one : {&path_, &query_, &content_type_, &body_}) {
    const std::uint32_t begin = narrow(gathered_.size());
    gathered_.append({base_ + one->begin, one->length});
    one->begin = begin;
  }
  base_ = gathered_.data();
}

void parser::describe() noexcept {
  request_.verb = method_of(llhttp_t::method);
  request_.path = path_.length == 0 ? std::string_view("/") : view(path_);
  request_.query = view(query_);
  request_.content_type = view(content_type_);
  request_.body = view(body_);
  request_.length_known = (flags & (F_CONTENT_LENGTH | F_CHUNKED)) != 0;
}

}  // namespace bwos::server::h1

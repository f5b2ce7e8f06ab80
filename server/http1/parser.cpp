// SPDX-License-Identifier: Apache-2.0
#include "http1/parser.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace bwos::server::http1 {
namespace {

constexpr std::array<std::string_view, 4> field_names{"", "host", "expect", "content-type"};
constexpr std::string_view continue_text = "100-continue";
constexpr std::uint8_t mismatch = std::numeric_limits<std::uint8_t>::max();

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

/// `matched` bytes of `text` (lower case) came before; how many with `piece`, or `mismatch`.
std::uint8_t match(std::string_view text, std::uint8_t matched, std::string_view piece) noexcept {
  if (matched == mismatch || piece.size() > text.size() - matched) return mismatch;
  for (const char c : piece) {
    if (lower(c) != text[matched]) return mismatch;
    ++matched;
  }
  return matched;
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The absolute form of a target ("http://host/path?query") without scheme and authority.
std::string_view without_authority(std::string_view target) noexcept {
  const auto scheme = target.find("://");
  if (scheme == std::string_view::npos || scheme > target.find_first_of("/?")) return target;
  const auto path = target.find_first_of("/?", scheme + 3);
  return path == std::string_view::npos ? std::string_view("/") : target.substr(path);
}

method method_of(std::uint8_t llhttp_method) noexcept {
  switch (llhttp_method) {
    case HTTP_GET:
      return method::get;
    case HTTP_HEAD:
      return method::head;
    case HTTP_POST:
      return method::post;
    default:
      return method::other;
  }
}

}  // namespace

/// llhttp's events. It stops at a value other than 0 and says so by an error; parser::failure_ has
/// the reason.
struct callbacks {
  static parser& self(llhttp_t* at) noexcept { return static_cast<parser&>(*at); }

  static int begin(llhttp_t* at) noexcept {
    self(at).phase_ = parser::phase::header;
    return 0;
  }

  static int target(llhttp_t* at, const char* from, std::size_t length) {
    parser& p = self(at);
    if (const int error = p.count_header(from + length)) return error;
    return p.take(p.target_, from, length);
  }

  static int name(llhttp_t* at, const char* from, std::size_t length) noexcept {
    parser& p = self(at);
    if (p.phase_ == parser::phase::body) return trailing(at, from, length);
    if (length == 0) return 0;  // a name that ended with the input before
    if (p.name_matched_ == 0) {
      switch (lower(*from)) {
        case 'h':
          p.field_ = parser::field::host;
          break;
        case 'e':
          p.field_ = parser::field::expect;
          break;
        case 'c':
          p.field_ = parser::field::content_type;
          break;
        default:
          p.field_ = parser::field::other;
          break;
      }
    }
    p.name_matched_ =
        match(field_names[static_cast<std::size_t>(p.field_)], p.name_matched_, {from, length});
    return 0;
  }

  static int name_end(llhttp_t* at) noexcept {
    parser& p = self(at);
    if (p.phase_ == parser::phase::body) return 0;
    const bool whole = p.name_matched_ == field_names[static_cast<std::size_t>(p.field_)].size();
    if (!whole) p.field_ = parser::field::other;
    p.name_matched_ = 0;
    if (p.field_ == parser::field::host && p.hosts_ < 2) ++p.hosts_;
    // The first of several counts. A second would also break the order of the parts in gathered_.
    if (p.field_ == parser::field::content_type && p.content_type_.length > 0)
      p.field_ = parser::field::other;
    return 0;
  }

  static int value(llhttp_t* at, const char* from, std::size_t length) {
    parser& p = self(at);
    if (p.phase_ == parser::phase::body) return trailing(at, from, length);
    if (const int error = p.count_header(from + length)) return error;
    if (p.field_ == parser::field::content_type) return p.take(p.content_type_, from, length);
    if (p.field_ == parser::field::expect) {
      p.expect_matched_ = match(continue_text, p.expect_matched_, {from, length});
    }
    return 0;
  }

  static int headers_end(llhttp_t* at) noexcept {
    parser& p = self(at);
    // A CONNECT asks for a tunnel: what follows it would not be HTTP.
    if (p.http_major != 1 || p.http_minor > 1 || p.llhttp_t::method == HTTP_CONNECT) {
      return p.fail(parser::outcome::malformed);
    }
    // RFC 9112, 3.2: one Host in HTTP/1.1, and never more.
    if (p.hosts_ > 1 || (p.hosts_ == 0 && p.http_minor == 1))
      return p.fail(parser::outcome::malformed);
    if ((p.flags & F_CONTENT_LENGTH) != 0 && p.content_length > p.limits_.body_bytes_max) {
      return p.fail(parser::outcome::body_too_large);
    }
    p.upgrade = 0;  // an offer that we do not take: the request is an ordinary one
    p.keep_alive_ = llhttp_should_keep_alive(at) != 0;
    if (p.http_minor == 0) p.expect_matched_ = 0;
    p.phase_ = parser::phase::body;
    return 0;
  }

  static int body(llhttp_t* at, const char* from, std::size_t length) {
    parser& p = self(at);
    if (length > p.limits_.body_bytes_max - p.body_.length)
      return p.fail(parser::outcome::body_too_large);
    return p.take(p.body_, from, length);
  }

  static int chunk_header(llhttp_t* at) noexcept {
    parser& p = self(at);
    const bool fits = p.content_length <= p.limits_.body_bytes_max - p.body_.length;
    return fits ? 0 : p.fail(parser::outcome::body_too_large);
  }

  /// Trailers and chunk extensions: unused, but not endless.
  static int trailing(llhttp_t* at, const char* /*from*/, std::size_t length) noexcept {
    parser& p = self(at);
    p.trailing_bytes_ += length;
    return p.trailing_bytes_ <= p.limits_.header_bytes_max
               ? 0
               : p.fail(parser::outcome::header_too_large);
  }

  static int end(llhttp_t* at) noexcept {
    self(at).complete_ = true;
    return HPE_PAUSED;
  }

  static const llhttp_settings_t* settings() noexcept {
    static const llhttp_settings_t all = [] {
      llhttp_settings_t s;
      llhttp_settings_init(&s);
      s.on_message_begin = &begin;
      s.on_url = &target;
      s.on_header_field = &name;
      s.on_header_field_complete = &name_end;
      s.on_header_value = &value;
      s.on_headers_complete = &headers_end;
      s.on_body = &body;
      s.on_chunk_header = &chunk_header;
      s.on_chunk_extension_name = &trailing;
      s.on_chunk_extension_value = &trailing;
      s.on_message_complete = &end;
      return s;
    }();
    return &all;
  }
};

parser::parser(const http_limits& limits) noexcept : llhttp_t{}, limits_(limits) {
  llhttp_init(this, HTTP_REQUEST, callbacks::settings());
}

parser::result parser::feed(std::string_view input) {
  input_ = input.data();
  if (!gathering_) base_ = input_;
  const llhttp_errno_t error = llhttp_execute(this, input.data(), input.size());
  if (error == HPE_OK) {
    if (phase_ == phase::idle) return {outcome::incomplete, input.size()};
    if (phase_ == phase::header) {
      header_bytes_ += input.size();
      if (header_bytes_ > limits_.header_bytes_max)
        return {outcome::header_too_large, input.size()};
    }
    gather();
    return {outcome::incomplete, input.size()};
  }
  if (!complete_) return {failure_, input.size()};
  describe();
  const auto consumed = static_cast<std::size_t>(llhttp_get_error_pos(this) - input_);
  llhttp_resume(this);
  return {outcome::request, consumed};
}

void parser::release() noexcept {
  if (gathering_) std::string().swap(gathered_);
  target_ = content_type_ = body_ = {};
  header_bytes_ = trailing_bytes_ = 0;
  phase_ = phase::idle;
  field_ = field::other;
  name_matched_ = hosts_ = expect_matched_ = 0;
  gathering_ = keep_alive_ = complete_ = false;
}

int parser::fail(outcome why) noexcept {
  failure_ = why;
  return -1;
}

int parser::count_header(const char* end) noexcept {
  const std::size_t so_far = header_bytes_ + static_cast<std::size_t>(end - input_);
  return so_far <= limits_.header_bytes_max ? 0 : fail(outcome::header_too_large);
}

/// Adds a piece to a part: in place if it lies behind what came before, else by gathering.
int parser::take(part& to, const char* at, std::size_t length) {
  if (!gathering_) {
    if (to.length == 0) to.begin = static_cast<std::size_t>(at - base_);
    if (base_ + to.begin + to.length == at) {
      to.length += length;
      return 0;
    }
    gather();
  }
  if (to.length == 0) to.begin = gathered_.size();
  gathered_.append(at, length);
  base_ = gathered_.data();
  to.length += length;
  return 0;
}

/// Copies the parts so far out of the input.
void parser::gather() {
  if (gathering_) return;
  gathering_ = true;
  std::size_t end = 0;
  for (part* one : {&target_, &content_type_, &body_}) {
    gathered_.append(base_ + one->begin, one->length);
    one->begin = end;
    end += one->length;
  }
  base_ = gathered_.data();
}

void parser::describe() noexcept {
  std::string_view target = view(target_);
  if (target.empty() || target.front() != '/') target = without_authority(target);
  const auto mark = target.find('?');
  request_.verb = method_of(llhttp_t::method);
  request_.path = mark == 0 ? std::string_view("/") : target.substr(0, mark);
  request_.query = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  request_.content_type = trimmed(view(content_type_));
  request_.body = view(body_);
}

}  // namespace bwos::server::http1

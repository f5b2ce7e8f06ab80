// SPDX-License-Identifier: Apache-2.0
#include "response_parser.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>

namespace bwos::load {
namespace {

constexpr std::string_view end_of_head = "\r\n\r\n";

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

response_parser::result response_parser::feed(std::string_view& bytes) {
  if (in_body_) return take_body(bytes);
  if (partial_head_.empty()) {
    const std::size_t end = bytes.find(end_of_head);
    if (end != bytes.npos) {
      if (!parse_head(bytes.substr(0, end))) return result::malformed;
      bytes.remove_prefix(end + end_of_head.size());
      return take_body(bytes);
    }
    partial_head_ = bytes;
  } else {
    const std::size_t before = partial_head_.size();
    partial_head_ += bytes;
    // The end may straddle the two reads: look again at the last 3 bytes of the first.
    const std::size_t end =
        partial_head_.find(end_of_head, before - std::min<std::size_t>(before, 3));
    if (end != std::string::npos) {
      bytes.remove_prefix(end + end_of_head.size() - before);
      const bool good = parse_head(std::string_view(partial_head_).substr(0, end));
      partial_head_.clear();
      return good ? take_body(bytes) : result::malformed;
    }
  }
  bytes = {};
  return partial_head_.size() > head_bytes_max ? result::malformed : result::incomplete;
}

response_parser::result response_parser::take_body(std::string_view& bytes) {
  const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, bytes.size()));
  bytes.remove_prefix(taken);
  body_left_ -= taken;
  in_body_ = body_left_ > 0;
  return in_body_ ? result::incomplete : result::complete;
}

bool response_parser::parse_head(std::string_view head) {
  answer_ = {};
  std::size_t line_end = head.find("\r\n");
  const std::string_view status_line = head.substr(0, line_end);
  if (!status_line.starts_with("HTTP/1.") || status_line.size() < 12) return false;
  if (!parse_number(status_line.substr(9, 3), answer_.status)) return false;
  bool has_length = false;
  while (line_end != head.npos) {
    head.remove_prefix(line_end + 2);
    line_end = head.find("\r\n");
    const std::string_view line = head.substr(0, line_end);
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return false;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (equal_ignoring_case(name, "content-length")) {
      has_length = parse_number(value, answer_.body_bytes);
      if (!has_length) return false;
    } else if (equal_ignoring_case(name, "connection")) {
      answer_.closes = equal_ignoring_case(value, "close");
    }
  }
  body_left_ = answer_.body_bytes;
  return has_length;
}

}  // namespace bwos::load

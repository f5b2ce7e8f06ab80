// SPDX-License-Identifier: Apache-2.0
// What handlers see of a request and say in a response, whatever the transport. All text is a view:
// into the receive buffer or the connection's own for a request; into the request, a literal or the
// caller's text for a response.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bwos::server {

/// `other`: one that is known, and that no route takes.
enum class method : std::uint8_t { get, head, post, options, other };

/// As a request has it, but for `other`.
constexpr std::string_view name_of(method verb) noexcept {
  switch (verb) {
    case method::get:
      return "GET";
    case method::head:
      return "HEAD";
    case method::post:
      return "POST";
    case method::options:
      return "OPTIONS";
    case method::other:
      break;
  }
  return "other";
}

struct request {
  method verb = method::other;
  std::string_view path{};
  std::string_view query{};
  std::string_view content_type{};
  std::string_view body{};
  bool length_known = false;  ///< It said how long its body is, or that chunks tell.
};

enum class status : std::uint8_t {
  ok,
  bad_request,
  not_found,
  method_not_allowed,
  request_timeout,
  length_required,
  payload_too_large,
  uri_too_long,
  expectation_failed,
  header_fields_too_large,
  internal_error,
  not_implemented,
  service_unavailable,
  version_not_supported,
};
inline constexpr std::size_t status_count = 14;

/// For counters: below status_count.
constexpr std::size_t number_of(status code) noexcept {
  return static_cast<std::size_t>(code);
}

struct status_text {
  std::uint16_t code;
  std::string_view reason;
  std::string_view body;  ///< What an error says to a human.
};

inline constexpr std::array<status_text, status_count> status_texts{{
    {200, "OK", ""},
    {400, "Bad Request", "bad request\n"},
    {404, "Not Found", "not found\n"},
    {405, "Method Not Allowed", "method not allowed\n"},
    {408, "Request Timeout", "request timeout\n"},
    {411, "Length Required", "length required\n"},
    {413, "Payload Too Large", "payload too large\n"},
    {414, "URI Too Long", "URI too long\n"},
    {417, "Expectation Failed", "expectation failed\n"},
    {431, "Request Header Fields Too Large", "request header fields too large\n"},
    {500, "Internal Server Error", "internal server error\n"},
    {501, "Not Implemented", "not implemented\n"},
    {503, "Service Unavailable", "service unavailable\n"},
    {505, "HTTP Version Not Supported", "HTTP version not supported\n"},
}};

constexpr const status_text& text_of(status code) noexcept {
  return status_texts[number_of(code)];
}

inline constexpr std::string_view plain_text = "text/plain; charset=utf-8";

struct response {
  status code = status::ok;
  std::string_view content_type = plain_text;
  std::string_view body{};
  std::string_view header{};  ///< A line more, such as "Allow: GET, HEAD".
};

/// Every method that any route takes: what OPTIONS says of the server, and 405 without a route.
inline constexpr std::string_view allow_any = "Allow: GET, HEAD, POST, OPTIONS";

/// Of 503. A guess: room comes as soon as anybody leaves.
inline constexpr std::string_view retry_soon = "Retry-After: 1";

constexpr response error_response(status code) noexcept {
  return {.code = code,
          .content_type = plain_text,
          .body = text_of(code).body,
          .header = code == status::method_not_allowed    ? allow_any
                    : code == status::service_unavailable ? retry_soon
                                                          : std::string_view()};
}

/// To a connection, or a request, more than there is room for.
constexpr response busy_response() noexcept {
  return error_response(status::service_unavailable);
}

}  // namespace bwos::server

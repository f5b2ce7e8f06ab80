// SPDX-License-Identifier: Apache-2.0
#include "http/router.hpp"

#include <utility>

#include "base/throw_log.hpp"

namespace bwos::server {
namespace {

bool takes(const route& one, method verb) noexcept {
  return one.get ? verb == method::get || verb == method::head : verb == method::post;
}

std::string_view allow_line(const route& one) noexcept {
  return one.get ? "Allow: GET, HEAD, OPTIONS" : "Allow: POST, OPTIONS";
}

/// What a path, or with `allow_any` the server, takes. 200 and not 204, which goes without a
/// length.
constexpr response options_response(std::string_view allow) noexcept {
  return {.code = status::ok, .header = allow};
}

}  // namespace

router::router(std::vector<route> routes) : routes_(std::move(routes)) {
  routes_.push_back({.path = "other", .brief = true, .answer = {}});
}

response router::handle(std::size_t number, const request& what, std::string& scratch) const {
  if (number == other()) {
    if (what.verb == method::options && what.path == "*") return options_response(allow_any);
    return error_response(status::not_found);
  }
  const route& asked = routes_[number];
  if (takes(asked, what.verb)) return asked.answer(what, scratch);
  if (what.verb == method::options) return options_response(allow_line(asked));
  response refusal = error_response(status::method_not_allowed);
  refusal.header = allow_line(asked);
  return refusal;
}

response router::respond(std::size_t number, const request& what, std::string& scratch) const {
  try {
    return handle(number, what, scratch);
  } catch (...) {
    log_thrown(routes_[number].path);
    return error_response(status::internal_error);
  }
}

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#include "app/routes.hpp"

#include "app/routes/echo.hpp"
#include "app/routes/health.hpp"
#include "app/routes/help.hpp"
#include "app/routes/plaintext.hpp"
#include "app/routes/work.hpp"
#include "base/throw_log.hpp"

namespace bwos::server {
namespace {

response answer_metrics(const service& server, std::string& scratch) {
  scratch.clear();
  server.write_metrics(scratch);
  return {.code = status::ok,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = scratch};
}

response answer_healthz(const service& server, std::string& scratch) {
  scratch.clear();
  server.describe_stall(scratch);
  return handlers::healthz(scratch);
}

bool allowed(const route_entry& entry, method verb) noexcept {
  return entry.get ? verb == method::get || verb == method::head : verb == method::post;
}

std::string_view allow_line(const route_entry& entry) noexcept {
  return entry.get ? "Allow: GET, HEAD, OPTIONS" : "Allow: POST, OPTIONS";
}

/// What a path, or with `allow_any` the server, takes. 200 and not 204, which goes without a
/// length.
constexpr response options_response(std::string_view allow) noexcept {
  return {.code = status::ok, .header = allow};
}

response handle(route where, const request& what, const service& server, std::string& scratch) {
  if (where == route::other || (where == route::work && server.work_us_max == 0)) {
    if (what.verb == method::options && what.path == "*") return options_response(allow_any);
    return error_response(status::not_found);
  }
  const route_entry& entry = routes[static_cast<std::size_t>(where)];
  if (!allowed(entry, what.verb)) {
    if (what.verb == method::options) return options_response(allow_line(entry));
    response refusal = error_response(status::method_not_allowed);
    refusal.header = allow_line(entry);
    return refusal;
  }
  switch (where) {
    case route::plaintext:
      return handlers::plaintext();
    case route::echo:
      // Not an empty body: a peer that does not say may have meant to send one.
      return what.length_known ? handlers::echo(what) : error_response(status::length_required);
    case route::help:
      return handlers::help(server.work_us_max > 0, scratch);
    case route::work:
      return handlers::work(what.query, server.work_us_max, scratch);
    case route::healthz:
      return answer_healthz(server, scratch);
    case route::readyz:
      return handlers::readyz(server.is_draining());
    case route::metrics:
      return answer_metrics(server, scratch);
    case route::other:
      break;
  }
  return error_response(status::not_found);
}

}  // namespace

response respond(route where, const request& what, const service& server, std::string& scratch) {
  try {
    return handle(where, what, server, scratch);
  } catch (...) {
    log_thrown(routes[static_cast<std::size_t>(where)].path);
    return error_response(status::internal_error);
  }
}

}  // namespace bwos::server

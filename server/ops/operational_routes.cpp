// SPDX-License-Identifier: Apache-2.0
#include "ops/operational_routes.hpp"

namespace bwos::server {
namespace {

response healthz(std::string_view stall) noexcept {
  return {.code = stall.empty() ? status::ok : status::service_unavailable,
          .content_type = plain_text,
          .body = stall.empty() ? "ok\n" : stall};
}

response readyz(bool draining) noexcept {
  return {.code = draining ? status::service_unavailable : status::ok,
          .content_type = plain_text,
          .body = draining ? "draining\n" : "ready\n"};
}

}  // namespace

std::vector<route> operational_routes(const operations& of) {
  std::vector<route> made;
  made.push_back({.path = "/healthz",
                  .brief = true,
                  .vital = true,
                  .answer = [describe = of.describe_stall](const request&, std::string& scratch) {
                    scratch.clear();
                    describe(scratch);
                    return healthz(scratch);
                  }});
  made.push_back({.path = "/readyz",
                  .brief = true,
                  .vital = true,
                  .answer = [&drain = of.drain](const request&, std::string&) {
                    return readyz(drain.is_draining());
                  }});
  made.push_back({.path = "/metrics",
                  .vital = true,
                  .answer = [write = of.write_metrics](const request&, std::string& scratch) {
                    scratch.clear();
                    write(scratch);
                    return response{.code = status::ok,
                                    .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                    .body = scratch};
                  }});
  return made;
}

}  // namespace bwos::server

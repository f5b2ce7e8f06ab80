// SPDX-License-Identifier: Apache-2.0
#include "app/routes.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "tests/http/demo_site.hpp"

namespace bwos::server {
namespace {

struct routing : testing::Test {
  response ask(method verb, std::string_view path, std::string_view query = {}) {
    return ask(site, verb, path, query);
  }
  response ask(const test::demo_site& of, method verb, std::string_view path,
               std::string_view query = {}) {
    return of.routes.respond(of.routes.find(path),
                             {.verb = verb,
                              .path = path,
                              .query = query,
                              .content_type = "a/b",
                              .body = "body",
                              .length_known = true},
                             scratch);
  }
  response ask(const request& what) {
    return site.routes.respond(site.routes.find(what.path), what, scratch);
  }
  /// All but other().
  [[nodiscard]] std::vector<route> paths() const {
    std::vector<route> all;
    for (std::size_t i = 0; i < site.routes.other(); ++i) all.push_back(site.routes[i]);
    return all;
  }
  test::demo_site site;
  std::string scratch;
};

TEST_F(routing, finds_every_path_and_nothing_else) {
  EXPECT_EQ(site.routes.count(), test::demo_site::kinds.routes);
  for (std::size_t i = 0; i < site.routes.other(); ++i) {
    EXPECT_EQ(site.routes.find(site.routes[i].path), i);
    EXPECT_EQ(site.routes.find(site.routes[i].path + "x"), site.routes.other());
  }
  for (const char* path : {"", "*", "//", "/plaintexT", "/echo/", "other"})
    EXPECT_EQ(site.routes.find(path), site.routes.other()) << path;
}

TEST_F(routing, answers_head_wherever_get) {
  for (const route& entry : paths()) {
    const auto code = [&](method verb) { return ask(verb, entry.path, "us=1").code; };
    EXPECT_EQ(code(method::get), entry.get ? status::ok : status::method_not_allowed) << entry.path;
    EXPECT_EQ(code(method::head), code(method::get)) << entry.path;
    EXPECT_EQ(code(method::post), entry.get ? status::method_not_allowed : status::ok)
        << entry.path;
    EXPECT_EQ(code(method::other), status::method_not_allowed) << entry.path;
    EXPECT_EQ(ask(method::other, entry.path).header,
              entry.get ? "Allow: GET, HEAD, OPTIONS" : "Allow: POST, OPTIONS")
        << entry.path;
  }
}

TEST_F(routing, tells_what_a_path_takes_and_what_the_server) {
  for (const route& entry : paths()) {
    const response told = ask(method::options, entry.path);
    EXPECT_EQ(told.code, status::ok) << entry.path;
    EXPECT_EQ(told.body, "");
    EXPECT_EQ(told.header, ask(method::other, entry.path).header) << entry.path;
  }
  EXPECT_EQ(ask(method::options, "*").code, status::ok);
  EXPECT_EQ(ask(method::options, "*").header, "Allow: GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(ask(method::options, "/nowhere").code, status::not_found);
}

TEST_F(routing, echoes_only_what_says_its_length) {
  const request silent{.verb = method::post, .path = "/echo"};
  EXPECT_EQ(ask(silent).code, status::length_required);
  EXPECT_EQ(ask(request{.verb = method::post, .path = "/plaintext"}).code,
            status::method_not_allowed);
}

TEST_F(routing, answers_plaintext_with_13_bytes) {
  EXPECT_EQ(ask(method::get, "/plaintext").body, "Hello, World!");
  EXPECT_EQ(ask(method::get, "/plaintext").body.size(), 13U);
}

TEST_F(routing, echoes_body_and_content_type) {
  const response echoed = ask(method::post, "/echo");
  EXPECT_EQ(echoed.body, "body");
  EXPECT_EQ(echoed.content_type, "a/b");
  EXPECT_EQ(ask(request{.verb = method::post, .path = "/echo", .body = "x", .length_known = true})
                .content_type,
            "application/octet-stream");
}

TEST_F(routing, knows_no_other_path) {
  for (const method verb :
       {method::get, method::head, method::post, method::options, method::other}) {
    EXPECT_EQ(ask(verb, "/nowhere").code, status::not_found);
  }
}

TEST_F(routing, is_ready_until_it_drains) {
  EXPECT_EQ(ask(method::get, "/readyz").code, status::ok);
  site.drain.begin();
  EXPECT_EQ(ask(method::get, "/readyz").code, status::service_unavailable);
  EXPECT_EQ(ask(method::get, "/healthz").code, status::ok);
}

TEST_F(routing, is_healthy_until_a_worker_stalls) {
  std::string stall;
  site.describe_stall = [&](std::string& to) { to += stall; };
  scratch = "of an earlier request";
  EXPECT_EQ(ask(method::get, "/healthz").body, "ok\n");
  stall = "worker 1\n";
  EXPECT_EQ(ask(method::get, "/healthz").code, status::service_unavailable);
  EXPECT_EQ(ask(method::get, "/healthz").body, "worker 1\n");
  stall.clear();
  EXPECT_EQ(ask(method::get, "/healthz").code, status::ok);
}

TEST_F(routing, shows_metrics_in_prometheus_format) {
  EXPECT_EQ(ask(method::get, "/metrics").body, "metrics");
  EXPECT_TRUE(ask(method::get, "/metrics").content_type.starts_with("text/plain; version=0.0.4"));
}

std::int64_t cpu_us() {
  std::timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * 1'000'000 + used.tv_nsec / 1000;
}

TEST_F(routing, burns_at_least_the_cpu_time_asked_for) {
  const std::int64_t before = cpu_us();
  EXPECT_EQ(ask(method::get, "/work", "us=3000").body, "burned 3000 us\n");
  EXPECT_GE(cpu_us() - before, 2999);
}

TEST_F(routing, caps_work_and_turns_it_off) {
  const test::demo_site little(50);
  EXPECT_EQ(ask(little, method::get, "/work", "us=3000").body, "burned 50 us\n");
  EXPECT_EQ(ask(little, method::get, "/work", "us=99999999999999999999999").body, "burned 50 us\n");
  EXPECT_EQ(ask(little, method::get, "/work", "x=1&us=7&us=9").body, "burned 7 us\n");
  const test::demo_site none(0);
  EXPECT_EQ(ask(none, method::get, "/work", "us=1").code, status::not_found);
  EXPECT_EQ(ask(none, method::post, "/work", "us=1").code, status::not_found);
}

TEST_F(routing, helps_with_what_there_is) {
  for (const bool has_work : {true, false}) {
    const test::demo_site of(has_work ? 50 : 0);
    const std::string said(ask(of, method::get, "/").body);
    for (const route& entry : paths()) {
      if (entry.path == "/") continue;
      const bool listed = said.find(entry.path) != std::string::npos;
      EXPECT_EQ(listed, entry.path != "/work" || has_work) << entry.path << " in " << said;
    }
  }
}

TEST_F(routing, refuses_work_without_a_number) {
  for (const char* query : {"", "us", "us=", "us=x", "us=-1", "us=1x", "us=1.5", "us= 1", "xus=1",
                            "us=99999999999999999999x"}) {
    EXPECT_EQ(ask(method::get, "/work", query).code, status::bad_request) << query;
  }
}

}  // namespace
}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#include "app/routes.hpp"

#include "app/routes/echo.hpp"
#include "app/routes/help.hpp"
#include "app/routes/plaintext.hpp"
#include "app/routes/work.hpp"

namespace bwos::server {

std::vector<route> demo_routes(std::uint64_t work_us_max) {
  std::vector<route> made;
  made.push_back({.path = "/plaintext", .brief = true, .answer = [](const request&, std::string&) {
                    return handlers::plaintext();
                  }});
  made.push_back(
      {.path = "/echo",
       .get = false,
       .brief = true,
       .answer = [](const request& what, std::string&) { return handlers::echo(what); }});
  made.push_back({.path = "/",
                  .brief = true,
                  .answer = [has_work = work_us_max > 0](const request&, std::string& scratch) {
                    return handlers::help(has_work, scratch);
                  }});
  if (work_us_max == 0) return made;
  made.push_back({.path = "/work", .answer = [work_us_max](const request& what, std::string& to) {
                    return handlers::work(what.query, work_us_max, to);
                  }});
  return made;
}

}  // namespace bwos::server

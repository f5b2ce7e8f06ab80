// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.hpp"

namespace bwos::server {

/// What answers the requests for one path.
struct route {
  std::string path;
  bool get = true;  ///< Takes GET and HEAD; else POST.
  bool brief =
      false;  ///< Takes no longer than copying the body: the clock need not be read after each.
  bool vital = false;  ///< Answered whatever the load.
  /// Any thread, several at once. Text that it has to make goes into `scratch`, which the response
  /// then refers to; it may throw.
  std::function<response(const request& what, std::string& scratch)> answer{};
};

/// The routes of a server, by their numbers. Made before the first connection, then read by any
/// thread.
class router {
 public:
  /// Of no two with the same path. Throws std::bad_alloc.
  explicit router(std::vector<route> routes);

  /// Numbers are below this. The last one, other(), stands for every path that has no route.
  [[nodiscard]] std::size_t count() const noexcept { return routes_.size(); }
  [[nodiscard]] std::size_t other() const noexcept { return routes_.size() - 1; }
  [[nodiscard]] const route& operator[](std::size_t number) const noexcept {
    return routes_[number];
  }

  /// The number of a path's route.
  [[nodiscard]] std::size_t find(std::string_view path) const noexcept {
    std::size_t i = 0;
    while (i < other() && routes_[i].path != path) ++i;
    return i;
  }

  /// The response to a request whose path has route `number`: its handler's, or what a method says
  /// that it does not take. What the handler throws, std::bad_alloc too, is logged and becomes a
  /// 500. `scratch`: see route::answer.
  [[nodiscard]] response respond(std::size_t number, const request& what,
                                 std::string& scratch) const;

 private:
  [[nodiscard]] response handle(std::size_t number, const request& what,
                                std::string& scratch) const;

  std::vector<route> routes_;
};

}  // namespace bwos::server

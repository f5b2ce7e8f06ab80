// SPDX-License-Identifier: Apache-2.0
// The methods of a server by their paths, and how each is run.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "native/call.hpp"
#include "native/handler_run.hpp"
#include "rpc/context.hpp"

namespace bwos::server::native {

struct method {
  /// Makes the coroutine that parses the request of a call, runs the handler, and leaves status and
  /// reply with the call. Throws std::bad_alloc.
  handler_run (*make)(call& of, const method& self);
  void (*handler)();  ///< An rpc::unary_handler of the types that `make` knows.
};

namespace detail {

template <class Request, class Reply>
handler_run run_unary(call& of, rpc::unary_handler<Request, Reply> handler) {
  Request request;
  Reply reply;
  const std::string_view bytes = of.message();
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    of.end_handler({rpc::code::internal, "Unable to parse request"});
    co_return;
  }
  of.forget_message();
  rpc::status result = co_await handler(of, request, reply);
  if (result.ok()) {
    const std::size_t size = reply.ByteSizeLong();
    reply.SerializeWithCachedSizesToArray(of.prepare_reply(size));
  }
  of.end_handler(std::move(result));
}

}  // namespace detail

/// Filled before the first connection, then read by any thread.
class method_table {
 public:
  template <class Request, class Reply>
  void unary(std::string_view path, rpc::unary_handler<Request, Reply> handler) {
    using typed = rpc::unary_handler<Request, Reply>;
    methods_[std::string(path)] = {.make =
                                       [](call& of, const method& self) {
                                         return detail::run_unary<Request, Reply>(
                                             of, reinterpret_cast<typed>(self.handler));
                                       },
                                   .handler = reinterpret_cast<void (*)()>(handler)};
  }

  [[nodiscard]] bool empty() const noexcept { return methods_.empty(); }

  /// Null: there is none.
  [[nodiscard]] const method* find(std::string_view path) const noexcept {
    const auto found = methods_.find(path);
    return found == methods_.end() ? nullptr : &found->second;
  }

 private:
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, method, hash, std::equal_to<>> methods_;
};

}  // namespace bwos::server::native

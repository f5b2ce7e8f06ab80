// SPDX-License-Identifier: Apache-2.0
// The methods of a server by their paths, and how each is run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grpc/call.hpp"
#include "grpc/handler_run.hpp"
#include "grpc/handler_turn.hpp"
#include "grpc/handlers.hpp"

namespace bwos::server::rpc {

struct method {
  /// Makes the coroutine that parses the request of a call, runs the handler, and leaves status and
  /// reply with the call. Throws std::bad_alloc.
  handler_run (*make)(call& of, const method& self) = nullptr;
  std::shared_ptr<const void> handler{};  ///< Of the kind and types that `make` knows.
  std::string_view path{};                ///< Lies in the table.
  bool reads_stream = false;
  bool writes_stream = false;
  bool is_lasting = false;  ///< See rpc::is_lasting().
  rpc::method_options options{};
  mutable mean_time took{};  ///< By a unary handler, until it suspends or ends.
};

namespace detail {

template <class Request, class Reply>
handler_run run_unary(call& of, const rpc::unary_handler<Request, Reply>& handler) {
  Request request;
  Reply reply;
  if (!of.read_message(request)) co_return;
  const bool is_wanted = co_await handler_turn(of);
  if (!is_wanted) {
    of.end_handler({rpc::code::cancelled, {}});
    co_return;
  }
  rpc::status result = co_await handler(of, request, reply);
  if (result.ok()) {
    const std::size_t size = reply.ByteSizeLong();
    reply.SerializeWithCachedSizesToArray(of.prepare_reply(size));
    of.pack_reply();
  }
  of.end_handler(std::move(result));
}

/// By what its handler says, unless a message of it is_bad().
inline void end_stream(call& of, rpc::status result) {
  if (of.messages().is_bad()) result = of.messages().why_bad();
  of.end_handler(std::move(result));
}

template <class Request, class Reply>
handler_run run_server_stream(call& of, const rpc::server_stream_handler<Request, Reply>& handler) {
  Request request;
  if (!of.read_message(request)) co_return;
  rpc::writer<Reply> replies(of.messages());
  end_stream(of, co_await handler(of, request, replies));
}

template <class Request, class Reply>
handler_run run_client_stream(call& of, const rpc::client_stream_handler<Request, Reply>& handler) {
  rpc::reader<Request> requests(of.messages());
  Reply reply;
  rpc::status result = co_await handler(of, requests, reply);
  if (result.ok()) of.messages().write_last(reply);
  end_stream(of, std::move(result));
}

template <class Request, class Reply>
handler_run run_both_streams(call& of, const rpc::both_stream_handler<Request, Reply>& handler) {
  rpc::reader<Request> requests(of.messages());
  rpc::writer<Reply> replies(of.messages());
  end_stream(of, co_await handler(of, requests, replies));
}

}  // namespace detail

/// Filled before the first connection, then read by any thread.
class method_table : public rpc::method_adder<method_table> {
 public:
  [[nodiscard]] bool empty() const noexcept { return methods_.empty(); }

  /// Null: there is none.
  [[nodiscard]] const method* find(std::string_view path) const noexcept {
    const auto found = methods_.find(path);
    return found == methods_.end() ? nullptr : &found->second;
  }

 private:
  friend class rpc::method_adder<method_table>;

  template <class Request, class Reply>
  void unary_(std::string_view path, rpc::unary_handler<Request, Reply> handler,
              const rpc::method_options& options) {
    add<&detail::run_unary<Request, Reply>>(path, std::move(handler), false, false, options);
  }
  template <class Request, class Reply>
  void server_stream_(std::string_view path, rpc::server_stream_handler<Request, Reply> handler,
                      const rpc::method_options& options) {
    add<&detail::run_server_stream<Request, Reply>>(path, std::move(handler), false, true, options);
  }
  template <class Request, class Reply>
  void client_stream_(std::string_view path, rpc::client_stream_handler<Request, Reply> handler,
                      const rpc::method_options& options) {
    add<&detail::run_client_stream<Request, Reply>>(path, std::move(handler), true, false, options);
  }
  template <class Request, class Reply>
  void both_streams_(std::string_view path, rpc::both_stream_handler<Request, Reply> handler,
                     const rpc::method_options& options) {
    add<&detail::run_both_streams<Request, Reply>>(path, std::move(handler), true, true, options);
  }
  template <auto Run, class Handler>
  void add(std::string_view path, Handler handler, bool reads_stream, bool writes_stream,
           const rpc::method_options& options) {
    auto& [name, added] = *methods_.try_emplace(std::string(path)).first;
    added.path = name;
    added.make = [](call& of, const method& self) {
      return Run(of, *static_cast<const Handler*>(self.handler.get()));
    };
    added.handler = std::make_shared<const Handler>(std::move(handler));
    added.reads_stream = reads_stream;
    added.writes_stream = writes_stream;
    added.is_lasting = rpc::is_lasting(path);
    added.options = options;
  }

  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, method, hash, std::equal_to<>> methods_;
};

}  // namespace bwos::server::rpc

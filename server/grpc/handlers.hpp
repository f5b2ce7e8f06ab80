// SPDX-License-Identifier: Apache-2.0
// What answers calls: a coroutine for each kind of method; and how a transport is given them.
#pragma once

#include <algorithm>
#include <bwos/task.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc/context.hpp"
#include "grpc/messages.hpp"
#include "grpc/method_options.hpp"
#include "grpc/paths.hpp"
#include "grpc/status.hpp"

namespace bwos::server::rpc {

/// A unary method: a coroutine over protobuf messages, which live until it has ended. It starts on
/// the thread that has read the request; one that never suspends ends there too. What it throws is
/// handler_threw(). Called by any thread, several at once. The function lives as long as what it
/// was added to; frames that are destroyed unfinished, when the threads have been joined, may
/// outlive it: no destructor of theirs may need it.
template <class Request, class Reply>
using unary_handler =
    std::function<task<status>(context& call, const Request& request, Reply& reply)>;

/// The streaming kinds, likewise. One that takes a stream starts when its header is here. It goes
/// on wherever a worker is, and may end before it has read everything: then the caller is told to
/// send no more. A single request is the handler's own: one that lasts may empty it.
template <class Request, class Reply>
using server_stream_handler =
    std::function<task<status>(context& call, Request& request, writer<Reply>& replies)>;
template <class Request, class Reply>
using client_stream_handler =
    std::function<task<status>(context& call, reader<Request>& requests, Reply& reply)>;
template <class Request, class Reply>
using both_stream_handler =
    std::function<task<status>(context& call, reader<Request>& requests, writer<Reply>& replies)>;

/// Base of what methods are added to: before the first connection. A coroutine's name goes as it
/// is; a handler with a state of its own (what returns the task of such a coroutine) names its
/// kind: `to.unary(path, rpc::unary_handler<Request, Reply>(...))`. `Self` has the same members
/// with an underscore behind their names. All may throw std::bad_alloc.
template <class Self>
class method_adder {
 public:
  template <class Request, class Reply>
  void unary(std::string_view path, unary_handler<Request, Reply> handler,
             const method_options& options = {}) {
    self(path).unary_(path, std::move(handler), options);
  }
  template <class Request, class Reply>
  void unary(std::string_view path, task<status> (*handler)(context&, const Request&, Reply&),
             const method_options& options = {}) {
    unary(path, unary_handler<Request, Reply>(handler), options);
  }
  template <class Request, class Reply>
  void server_stream(std::string_view path, server_stream_handler<Request, Reply> handler,
                     const method_options& options = {}) {
    self(path).server_stream_(path, std::move(handler), options);
  }
  template <class Request, class Reply>
  void server_stream(std::string_view path,
                     task<status> (*handler)(context&, Request&, writer<Reply>&),
                     const method_options& options = {}) {
    server_stream(path, server_stream_handler<Request, Reply>(handler), options);
  }
  template <class Request, class Reply>
  void client_stream(std::string_view path, client_stream_handler<Request, Reply> handler,
                     const method_options& options = {}) {
    self(path).client_stream_(path, std::move(handler), options);
  }
  template <class Request, class Reply>
  void client_stream(std::string_view path,
                     task<status> (*handler)(context&, reader<Request>&, Reply&),
                     const method_options& options = {}) {
    client_stream(path, client_stream_handler<Request, Reply>(handler), options);
  }
  template <class Request, class Reply>
  void both_streams(std::string_view path, both_stream_handler<Request, Reply> handler,
                    const method_options& options = {}) {
    self(path).both_streams_(path, std::move(handler), options);
  }
  template <class Request, class Reply>
  void both_streams(std::string_view path,
                    task<status> (*handler)(context&, reader<Request>&, writer<Reply>&),
                    const method_options& options = {}) {
    both_streams(path, both_stream_handler<Request, Reply>(handler), options);
  }

  /// Those of the methods, each once, in their order.
  [[nodiscard]] const std::vector<std::string>& services() const noexcept { return services_; }

 private:
  friend Self;

  method_adder() = default;
  ~method_adder() = default;
  method_adder(method_adder&&) = default;
  method_adder& operator=(method_adder&&) = default;

  Self& self(std::string_view path) {
    const std::string_view name = service_of(path);
    if (std::ranges::find(services_, name) == services_.end()) services_.emplace_back(name);
    return static_cast<Self&>(*this);
  }

  std::vector<std::string> services_;
};

}  // namespace bwos::server::rpc

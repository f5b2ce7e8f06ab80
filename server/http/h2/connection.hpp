// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "http/h2/endpoint.hpp"
#include "net/connection.hpp"

namespace bwos::server::h2 {

/// An HTTP/2 connection: with `http` of its routes, too. `first`: what was received before it was
/// known to be HTTP/2. Throws std::bad_alloc.
[[nodiscard]] std::unique_ptr<connection> connect(socket& on, const common& of,
                                                  const h1::common* http = nullptr,
                                                  std::string first = {});

/// HTTP/2 connections whose streams are calls. Those above the port's limit are closed without a
/// word: clients of gRPC take SETTINGS for a connection that has come about; after a GOAWAY,
/// whatever its code, gRPC's core and grpc-go connect again at once, hundreds of times a second.
/// One that does not come about they try again after their backoff, and calls fail with UNAVAILABLE
/// meanwhile; so they take HTTP/1.1's 503, too.
class factory final : public connection_factory {
 public:
  /// `of` must outlive it.
  explicit factory(const common& of) noexcept
      : connection_factory(of.workers, of.metrics), common_(of) {}

  [[nodiscard]] std::unique_ptr<connection> connect(socket& accepted) const override {
    return h2::connect(accepted, common_);
  }

 private:
  const common& common_;
};

}  // namespace bwos::server::h2

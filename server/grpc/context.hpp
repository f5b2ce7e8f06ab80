// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bwos::server::rpc {

/// Where clients look for what a status carries beside its code and message.
inline constexpr std::string_view status_details = "grpc-status-details-bin";

/// What a handler sees of its call, whatever the transport. Lives until the handler has ended. All
/// members: any thread, but those of one call one at a time, except is_cancelled().
class context {
 public:
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  /// Nobody waits for the answer any more: the caller gave up, its connection was lost, or the
  /// deadline has passed. A handler that takes long looks now and then, and ends.
  [[nodiscard]] virtual bool is_cancelled() const noexcept = 0;
  /// time_point::max(): none.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point deadline() const = 0;
  /// What the caller sent under a name (lower case), in its order; of one that ends in "-bin" the
  /// bytes themselves.
  [[nodiscard]] virtual std::vector<std::string> metadata(std::string_view name) const = 0;
  /// The names of all that the caller sent, each once. What is the protocol's is not among them.
  [[nodiscard]] virtual std::vector<std::string> metadata_names() const = 0;

  /// For the caller, before the first message; of a name that ends in "-bin" any bytes. False:
  /// no metadata, or too much of it (grpc/metadata.hpp), or a message has been written. Throws
  /// std::bad_alloc.
  virtual bool add_initial_metadata(std::string_view name, std::string_view value) = 0;
  /// For the caller, with the status. Likewise; status_details may be added as well: the bytes of a
  /// google.rpc.Status.
  virtual bool add_trailing_metadata(std::string_view name, std::string_view value) = 0;
  /// Before the first message: replies are compressed (deflate, or else gzip) where the caller
  /// accepts that and it makes them smaller.
  virtual void compress_replies() = 0;
  /// The handler keeps so many bytes by itself now, of what the caller sent or for it, beside the
  /// message that it was given last. They count against --memory-max, natively against
  /// --h2-request-bytes-max, too, until the handler has ended. False: that is more than there is,
  /// and what counted before counts yet; it forgets some, or ends with code::resource_exhausted.
  /// gRPC C++ counts nothing.
  [[nodiscard]] virtual bool keep(std::size_t bytes) noexcept = 0;

 protected:
  context() = default;
  ~context() = default;
};

}  // namespace bwos::server::rpc

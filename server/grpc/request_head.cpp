// SPDX-License-Identifier: Apache-2.0
#include "grpc/request_head.hpp"

#include "base/is_text.hpp"
#include "grpc/fields.hpp"

namespace bwos::server::rpc {
namespace {

/// Fields that are the protocol's, not the caller's metadata.
bool is_metadata(std::string_view name) noexcept {
  return !name.starts_with(':') && !name.starts_with("grpc-") && !is_text(name, "te") &&
         !is_text(name, "content-length");
}

}  // namespace

void request_head::read(std::string_view name, std::string_view value, clock::time_point now) {
  if (is_text(name, ":method")) {
    is_post = is_text(value, "POST");
  } else if (is_text(name, "content-type")) {
    is_grpc = is_grpc_content_type(value);
    has_bad_format = is_grpc && !is_protobuf(value);
  } else if (is_text(name, "grpc-timeout")) {
    const auto timeout = parse_timeout(value);
    has_bad_timeout = !timeout;
    if (timeout) deadline = now + std::chrono::duration_cast<clock::duration>(*timeout);
  } else if (is_text(name, "grpc-encoding")) {
    const bool is_gzip = is_text(value, "gzip");
    const bool is_known = is_gzip || is_text(value, "deflate");
    if (is_known) sent = is_gzip ? encoding::gzip : encoding::deflate;
    if (!is_known) has_bad_encoding = !is_text(value, "identity");
  } else if (is_text(name, "grpc-accept-encoding")) {
    accepted = accepts(value, "deflate") ? encoding::deflate
               : accepts(value, "gzip")  ? encoding::gzip
                                         : encoding::identity;
  } else if (is_metadata(name)) {
    metadata.emplace_back(name, value);
  }
}

verdict request_head::judge(bool too_large, bool hosts_differ) const noexcept {
  using enum rpc::code;
  if (too_large) return {.what = resource_exhausted, .why = "received metadata size exceeds limit"};
  if (hosts_differ) return {.http_status = "400"};
  if (!is_post) return {.http_status = "405"};
  if (!is_grpc) return {.http_status = "415"};
  if (called == nullptr) return {.what = unimplemented};
  if (has_bad_format) return {.what = unimplemented, .why = "messages are in protobuf alone"};
  if (has_bad_timeout) return {.what = internal, .why = "malformed grpc-timeout"};
  if (has_bad_encoding) return {.what = unimplemented, .why = "unknown grpc-encoding"};
  return {};
}

}  // namespace bwos::server::rpc

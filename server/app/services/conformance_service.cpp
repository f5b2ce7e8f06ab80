// SPDX-License-Identifier: Apache-2.0
#include "app/services/conformance_service.hpp"

#include <conformance.pb.h>

#include <algorithm>
#include <bwos/timer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "grpc/fields.hpp"

namespace bwos::server::handlers {
namespace {

using google::protobuf::Any;
using google::protobuf::RepeatedPtrField;
using request_info = conformance::ConformancePayload::RequestInfo;
using clock = std::chrono::steady_clock;
using add_metadata = bool (rpc::context::*)(std::string_view name, std::string_view value);

bool is_binary(std::string_view name) noexcept {
  return name.ends_with("-bin");
}

/// The requests of a call, in the order of their coming, and what else was seen of it.
class observed {
 public:
  explicit observed(rpc::context& call) noexcept : call_(call) {}

  /// OK, or: they are too many to be remembered.
  template <class Request>
  [[nodiscard]] rpc::status add(const Request& request) {
    bytes_ += request.ByteSizeLong();  // what is kept of those taken counts, too: few are
    if (++count_ > conformance_requests_max || bytes_ > conformance_request_bytes_max ||
        !call_.keep(bytes_)) {
      return {rpc::code::resource_exhausted, "too many requests to remember"};
    }
    requests_.Add()->PackFrom(request);
    return {};
  }
  /// Those since the last take(): they are forgotten.
  [[nodiscard]] request_info take() {
    request_info all;
    all.mutable_requests()->Swap(&requests_);
    requests_.Clear();
    return all;
  }
  /// With the metadata and the time that is left.
  [[nodiscard]] request_info take_all() {
    request_info all = take();
    for (const std::string& name : call_.metadata_names()) {
      conformance::Header& header = *all.add_request_headers();
      header.set_name(name);
      for (const std::string& value : call_.metadata(name)) {
        header.add_value(is_binary(name) ? rpc::encode_base64(value) : value);
      }
    }
    const auto deadline = call_.deadline();
    if (deadline != clock::time_point::max()) {
      const auto left = std::max(deadline - clock::now(), clock::duration::zero());
      all.set_timeout_ms(std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
    }
    return all;
  }

 private:
  rpc::context& call_;
  RepeatedPtrField<Any> requests_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

/// False: something is no metadata.
bool add(rpc::context& call, add_metadata to,
         const RepeatedPtrField<conformance::Header>& headers) {
  for (const conformance::Header& header : headers) {
    std::string name = header.name();
    for (char& each : name) {  // HTTP/2 has lower case alone
      if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
    }
    for (const std::string& value : header.value()) {
      const auto bytes = is_binary(name) ? rpc::decode_base64(value) : value;
      if (!bytes || !(call.*to)(name, *bytes)) return false;
    }
  }
  return true;
}

/// What a call begins with: its metadata is added. Not OK: the definition cannot be followed.
template <class Definition>
rpc::status begin(rpc::context& call, const Definition& wanted) {
  if (!add(call, &rpc::context::add_initial_metadata, wanted.response_headers()) ||
      !add(call, &rpc::context::add_trailing_metadata, wanted.response_trailers())) {
    return {rpc::code::invalid_argument, "no metadata"};
  }
  if (std::chrono::milliseconds(wanted.response_delay_ms()) > conformance_delay_max) {
    return {rpc::code::invalid_argument, "too long a delay"};
  }
  if (wanted.response_delay_ms() > 0 && !sleep_until::is_possible_here()) {
    return {rpc::code::unimplemented, "this executor has no timers for handlers"};
  }
  return {};
}

/// The status that was asked for; it carries its details, if there are any and they fit.
rpc::status status_of(rpc::context& call, const conformance::Error& wanted) {
  constexpr int last = static_cast<int>(rpc::code::unauthenticated);
  const bool is_known = wanted.code() > 0 && wanted.code() <= last;
  rpc::status result{is_known ? static_cast<rpc::code>(wanted.code()) : rpc::code::unknown,
                     wanted.message()};
  if (wanted.details().empty()) return result;
  conformance::StatusDetails details;
  details.set_code(static_cast<int>(result.what));
  details.set_message(result.message);
  *details.mutable_details() = wanted.details();
  call.add_trailing_metadata(rpc::status_details, details.SerializeAsString());
  return result;
}

rpc::status status_of(rpc::context& call, conformance::Error wanted, const request_info& seen) {
  wanted.add_details()->PackFrom(seen);
  return status_of(call, wanted);
}

/// Waits before a reply. Ends early if nobody waits for that any more.
task<void> pause(const rpc::context& call, std::uint32_t ms) {
  constexpr std::chrono::milliseconds look{50};
  const auto end = clock::now() + std::chrono::milliseconds(ms);
  for (auto now = clock::now(); now < end && !call.is_cancelled(); now = clock::now()) {
    co_await sleep_until(std::min(end, now + look));
  }
}

/// The answer of a call with one reply.
task<rpc::status> answer(rpc::context& call, const conformance::UnaryResponseDefinition& wanted,
                         observed& seen, conformance::ConformancePayload& payload) {
  if (rpc::status bad = begin(call, wanted); !bad.ok()) co_return bad;
  request_info info = seen.take_all();
  co_await pause(call, wanted.response_delay_ms());
  if (wanted.has_error()) co_return status_of(call, wanted.error(), info);
  payload.set_data(wanted.response_data());
  *payload.mutable_request_info() = std::move(info);
  co_return rpc::status{};
}

template <class Request, class Reply>
task<rpc::status> answer_unary(rpc::context& call, const Request& request, Reply& reply) {
  observed seen(call);
  if (rpc::status bad = seen.add(request); !bad.ok()) co_return bad;
  co_return co_await answer(call, request.response_definition(), seen, *reply.mutable_payload());
}

/// The replies of a streaming call, one after the other.
class replies_of {
 public:
  replies_of(rpc::context& call, observed& seen) noexcept : call_(call), seen_(seen) {}

  /// The next. It says what was seen: all of it before the first, and then only if `each` does.
  /// False: there are no more.
  [[nodiscard]] bool next(const conformance::StreamResponseDefinition& wanted, bool each,
                          conformance::ConformancePayload& payload) {
    payload.Clear();
    if (count_ == wanted.response_data_size()) return false;
    payload.set_data(wanted.response_data(count_));
    if (count_ == 0) {
      *payload.mutable_request_info() = seen_.take_all();
    } else if (each) {
      *payload.mutable_request_info() = seen_.take();
    }
    ++count_;
    return true;
  }
  /// Behind them.
  [[nodiscard]] rpc::status end(const conformance::StreamResponseDefinition& wanted) {
    if (!wanted.has_error()) return {};
    if (count_ > 0) return status_of(call_, wanted.error());
    return status_of(call_, wanted.error(), seen_.take_all());
  }

 private:
  rpc::context& call_;
  observed& seen_;
  int count_ = 0;
};

}  // namespace

task<rpc::status> conformance_unary(rpc::context& call, const conformance::UnaryRequest& request,
                                    conformance::UnaryResponse& reply) {
  return answer_unary(call, request, reply);
}

task<rpc::status> conformance_idempotent_unary(rpc::context& call,
                                               const conformance::IdempotentUnaryRequest& request,
                                               conformance::IdempotentUnaryResponse& reply) {
  return answer_unary(call, request, reply);
}

task<rpc::status> conformance_server_stream(
    rpc::context& call, conformance::ServerStreamRequest& request,
    rpc::writer<conformance::ServerStreamResponse>& replies) {
  observed seen(call);
  if (rpc::status bad = seen.add(request); !bad.ok()) co_return bad;
  const conformance::StreamResponseDefinition& wanted = request.response_definition();
  if (rpc::status bad = begin(call, wanted); !bad.ok()) co_return bad;
  replies_of answers(call, seen);
  conformance::ServerStreamResponse reply;
  while (answers.next(wanted, false, *reply.mutable_payload())) {
    co_await pause(call, wanted.response_delay_ms());
    if (!co_await replies.write(reply)) co_return rpc::status{};
  }
  co_return answers.end(wanted);
}

task<rpc::status> conformance_client_stream(rpc::context& call,
                                            rpc::reader<conformance::ClientStreamRequest>& requests,
                                            conformance::ClientStreamResponse& reply) {
  observed seen(call);
  conformance::UnaryResponseDefinition wanted;
  conformance::ClientStreamRequest request;
  for (bool is_first = true; co_await requests.read(request); is_first = false) {
    if (rpc::status bad = seen.add(request); !bad.ok()) co_return bad;
    if (is_first) wanted = request.response_definition();
  }
  co_return co_await answer(call, wanted, seen, *reply.mutable_payload());
}

task<rpc::status> conformance_bidi_stream(rpc::context& call,
                                          rpc::reader<conformance::BidiStreamRequest>& requests,
                                          rpc::writer<conformance::BidiStreamResponse>& replies) {
  observed seen(call);
  replies_of answers(call, seen);
  conformance::StreamResponseDefinition wanted;
  bool is_full_duplex = false;
  conformance::BidiStreamRequest request;
  conformance::BidiStreamResponse reply;
  for (bool is_first = true; co_await requests.read(request); is_first = false) {
    if (rpc::status bad = seen.add(request); !bad.ok()) co_return bad;
    if (is_first) {
      is_full_duplex = request.full_duplex();
      wanted = request.response_definition();
      if (rpc::status bad = begin(call, wanted); !bad.ok()) co_return bad;
    }
    if (!is_full_duplex) continue;
    if (!answers.next(wanted, true, *reply.mutable_payload())) break;
    co_await pause(call, wanted.response_delay_ms());
    if (!co_await replies.write(reply)) co_return rpc::status{};
  }
  while (answers.next(wanted, false, *reply.mutable_payload())) {
    co_await pause(call, wanted.response_delay_ms());
    if (!co_await replies.write(reply)) co_return rpc::status{};
  }
  co_return answers.end(wanted);
}

}  // namespace bwos::server::handlers

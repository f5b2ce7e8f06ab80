// SPDX-License-Identifier: Apache-2.0
// One gRPC call on HTTP/2 (gRPC's PROTOCOL-HTTP2.md), from its stream's header to its status: what
// the fields ask for, the message put together from DATA frames, the answer.
//
// Threads. Its connection's runner does everything, but while a handler runs that has suspended:
// then the thread that runs the handler owns message(), the reply and the result, and gives them
// back through the inbox; the runner meanwhile may only cancel it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counters.hpp"
#include "base/mean_time.hpp"
#include "base/thread_memory.hpp"
#include "grpc/batch_turn.hpp"
#include "grpc/call_state.hpp"
#include "grpc/compression.hpp"
#include "grpc/context.hpp"
#include "grpc/framing.hpp"
#include "grpc/handler_run.hpp"
#include "grpc/message_pipe.hpp"
#include "grpc/metadata.hpp"
#include "grpc/receive_budget.hpp"
#include "grpc/request_head.hpp"
#include "http/h2/session.hpp"
#include "http/h2/streams.hpp"

namespace bwos::server::rpc {

class call;
class calls;

/// What a handler adds to an answer. Its own until the answer begins (the fields of its header) or
/// it has ended (all of it).
struct additions {
  std::vector<std::pair<std::string, std::string>> initial;
  std::vector<std::pair<std::string, std::string>> trailing;
  sent_metadata initial_room;
  sent_metadata trailing_room;
  encoding compressed = encoding::identity;
  bool begun = false;               // a message was written
  std::vector<h2::field> header;    // what is sent, for as long as the stream lives
  std::vector<h2::field> trailers;  // likewise
};

/// What `calls` notes about a call. `call` itself leaves it alone.
struct calls_entry {
  call* newer = nullptr;
  call* older = nullptr;
  std::uint64_t batch = 0;  // in which its header ended, or as yet it was opened
  bool ready = false;       // stands in the list of those to run
  bool timed = false;       // stands among the deadlines
  bool counted = false;     // against its method's calls_max
};

class call final : public h2::stream,
                   public rpc::context,
                   public h2::handed_on_stream,
                   public calls_entry,
                   public in_thread_memory {
 public:
  using clock = std::chrono::steady_clock;

  explicit call(calls& in) noexcept;
  ~call() = default;

  // For handlers.
  [[nodiscard]] bool is_cancelled() const noexcept override;
  [[nodiscard]] clock::time_point deadline() const noexcept override { return head_.deadline; }
  [[nodiscard]] std::vector<std::string> metadata(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string> metadata_names() const override;
  bool add_initial_metadata(std::string_view name, std::string_view value) override;
  bool add_trailing_metadata(std::string_view name, std::string_view value) override;
  void compress_replies() override;
  [[nodiscard]] bool keep(std::size_t bytes) noexcept override;

  // For the coroutine around the handler.
  /// Its only message, which is gone then. False: it could not be read, and so the call ends.
  [[nodiscard]] bool read_message(google::protobuf::MessageLite& into);
  /// Where its handler begins: told before its coroutine starts.
  [[nodiscard]] place begins() const noexcept { return place_; }
  /// Its handler begins when `turn` is invoked, which see.
  void hand_on(continuation& turn, lane_entry& entry) noexcept;
  struct timing {
    mean_time& method;  ///< Outlives the call.
    metrics::ticks most;
  };
  [[nodiscard]] timing timed_by() const noexcept;
  /// Its connection's, whose runner runs its handler.
  [[nodiscard]] bool turn_is_over() noexcept;
  /// Room for a reply of so many bytes.
  [[nodiscard]] std::uint8_t* prepare_reply(std::size_t size);
  /// What prepare_reply() was filled with is compressed, if that is wanted and makes it smaller.
  void pack_reply();
  /// Of a streaming call.
  [[nodiscard]] message_pipe& messages() noexcept { return *pipe_; }
  void end_handler(rpc::status result) noexcept { result_ = std::move(result); }
  void handler_threw() noexcept;  ///< Within its catch block.
  void handler_ended() noexcept;
  void handler_discarded() noexcept;

  // For its message_pipe.
  [[nodiscard]] bool read(google::protobuf::MessageLite& into, std::string_view bytes,
                          bool compressed, rpc::status& why_not);
  [[nodiscard]] encoding reply_encoding() const noexcept {
    return additions_ ? additions_->compressed : encoding::identity;
  }
  void begin_reply() noexcept {
    if (additions_) additions_->begun = true;
  }
  void push() noexcept;
  void post(coroutine_waiter& waiting) noexcept;
  [[nodiscard]] memory_account& memory() noexcept;
  [[nodiscard]] static rpc::status no_room();

  // For its calls.
  [[nodiscard]] const call_state& state() const noexcept { return state_; }
  /// Once its header is good.
  [[nodiscard]] const method& called() const noexcept { return *head_.called; }
  /// It has messages(): from its header on, or where only its answer is a stream, from its handler.
  [[nodiscard]] bool is_streaming() const noexcept { return pipe_ != nullptr; }
  void own_message();
  [[nodiscard]] bool make_handler();
  [[nodiscard]] bool start_unary(place where) noexcept;
  void start_stream() noexcept;
  void pass_on(const message_pipe::left& left, std::string& written);
  [[nodiscard]] metrics::grpc take_back() noexcept;
  void answer();
  void fail(rpc::code what, std::string_view message);
  void fail_for_memory();  ///< --memory-max.
  void reset(h2::error why);
  void cancel() noexcept;
  void on_closed(h2::error why) override;
  void give_back_memory() noexcept;
  void outlive_calls() noexcept;
  [[nodiscard]] bool is_settled() const noexcept;
  [[nodiscard]] bool waits_for_rest() const noexcept;
  /// The message that comes: when its first byte came, or the header's end.
  [[nodiscard]] clock::time_point reads_since() const noexcept { return reads_since_; }

 private:
  void on_field(std::string_view name, std::string_view value) override;
  void on_header(bool too_large) override;
  bool repeat_header() override;
  void remember_header() override;
  void on_data(std::span<const std::byte> bytes, bool last) override;
  void on_end() override;
  void on_sent(std::size_t bytes) override;
  std::span<const h2::field> trailers() override;

  [[nodiscard]] bool take_prefix(std::span<const std::byte>& bytes);
  void take_message(std::span<const std::byte>& bytes, bool last);
  void bring(std::span<const std::byte> bytes);
  [[nodiscard]] bool has_message() const noexcept;
  void forget_message() noexcept;
  [[nodiscard]] bool parse(google::protobuf::MessageLite& into, std::string_view bytes,
                           rpc::status& why_not);
  [[nodiscard]] rpc::status expand(std::string_view bytes, std::string& to);
  [[nodiscard]] bool charge(std::size_t bytes) noexcept;
  void give_back_charges() noexcept;
  void make_room();
  void took_message();
  void took(std::size_t bytes);
  [[nodiscard]] std::size_t message_bytes_max() const noexcept;
  [[nodiscard]] additions& added();
  void begin_answer();
  void finish_answer();
  void answer_without_messages();
  std::span<const h2::field> header();
  [[nodiscard]] bool prepare_message();
  void end_answer() noexcept;
  void refuse(std::string_view http_status);
  void note_end(std::string_view protocol, unsigned status) noexcept;

  [[nodiscard]] h2::session& session() const noexcept;

  calls* calls_;  // null: it is gone, and what is left of the call is its coroutine's
  call_state state_;
  place place_ = place::here;
  request_head head_;
  handler_run run_;
  rpc::status status_;     // answered with
  rpc::status result_;     // the handler's
  std::string_view view_;  // the message: in message_, or in what is being fed (borrowed)
  std::string message_;
  /// Its prefix and message: the session sends them from here.
  std::basic_string<char, std::char_traits<char>, thread_allocator<char>> reply_;
  std::string encoded_message_;  // grpc-message
  std::unique_ptr<additions> additions_;
  /// For the access log, until its end is noted; null where there is none.
  struct noted {
    std::string path;
    clock::time_point since;
    std::uint64_t bytes = 0;  // of replies, on their way
  };
  std::unique_ptr<noted> noted_;
  std::unique_ptr<message_pipe> pipe_;   // of a streaming call that runs
  std::array<h2::field, 2> trailers_{};  // what trailers() gives
  prefix_reader prefix_;                 // of the message
  message_prefix expected_;              // what that says, once it is whole
  std::uint32_t missing_ = 0;            // of the message, in a stream
  request_advance advance_;
  request_charge charge_;  // for what it keeps of its request
  request_charge kept_;    // for what its handler says that it keeps
  clock::time_point reads_since_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace bwos::server::rpc

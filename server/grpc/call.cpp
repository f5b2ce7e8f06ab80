// SPDX-License-Identifier: Apache-2.0
#include "grpc/call.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <new>

#include "base/is_text.hpp"
#include "base/throw_log.hpp"
#include "grpc/calls.hpp"
#include "grpc/fields.hpp"
#include "grpc/methods.hpp"
#include "grpc/status_message.hpp"

namespace bwos::server::rpc {
namespace {

using h2::field;

constexpr field ok_status{":status", "200"};
constexpr field content_type{"content-type", "application/grpc"};
constexpr std::array<field, 2> reply_header{ok_status, content_type};

/// The decimals of the codes. Not within text_of(), where GCC 12 copies them at each call.
constexpr std::array<std::string_view, 17> code_texts{
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};
/// For as long as the program runs.
constexpr std::string_view text_of(rpc::code what) noexcept {
  return code_texts[static_cast<std::size_t>(what)];
}

/// What the fields of a message may take beside their bytes.
struct field_space {
  std::size_t bytes = 0;
  std::size_t objects = 0;  ///< On the heap.
};

/// Each is an entry in a list that doubles, and an object where it has a length or is a group. So
/// protobuf keeps those that it does not know, which is where few bytes become most.
field_space space_of_fields(std::string_view message) {
  constexpr std::size_t entry = 32;
  constexpr std::size_t object = 48;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  field_space space;
  bool good = true;
  while (good) {  // ends: each turn takes a field, or finds none that can be read
    const std::uint32_t tag = in.ReadTag();
    if (tag == 0) break;
    const std::uint32_t type = tag & 7;
    std::uint64_t number = 0;
    std::uint32_t size = 0;
    if (type != 4) space.bytes += entry;  // but for the end of a group
    if (type == 2 || type == 3) {         // a length, or a group
      space.bytes += object;
      ++space.objects;
    }
    if (type == 0) good = in.ReadVarint64(&number);
    if (type == 1) good = in.Skip(8);
    if (type == 2) good = in.ReadVarint32(&size) && in.Skip(static_cast<int>(size));
    if (type == 5) good = in.Skip(4);
  }
  return space;
}

std::string_view text_in(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

rpc::status call::no_room() {
  return {
      rpc::code::resource_exhausted,
      "the requests of this connection (--h2-request-bytes-max), or of all (--memory-max), take "
      "too much memory"};
}

call::call(calls& in) noexcept : handed_on_stream(in), calls_(&in) {}

h2::session& call::session() const noexcept {
  return calls_->at().session();
}

// What the runner and the handler's thread share.

bool call::is_cancelled() const noexcept {
  // [call.cancelled] relaxed: a hint to end early; nothing is read on its strength. Partner:
  // [call.cancel].
  return cancelled_.load(std::memory_order_relaxed);
}

void call::cancel() noexcept {
  // [call.cancel] relaxed: it publishes nothing but itself. Partner: [call.cancelled].
  cancelled_.store(true, std::memory_order_relaxed);
  if (!pipe_ || !state_.is_running()) return;
  if (coroutine_waiter* const waits = pipe_->cancel()) post(*waits);
}

memory_account& call::memory() noexcept {
  return calls_->at().memory();
}

/// A handler that waited goes on, on a worker.
void call::post(coroutine_waiter& waiting) noexcept {
  calls_->at().of().workers.post(waiting);
}

std::vector<std::string> call::metadata(std::string_view name) const {
  std::vector<std::string> found;
  for (const auto& [key, value] : head_.metadata) {
    if (key != name) continue;
    if (!name.ends_with("-bin")) {
      found.push_back(value);
      continue;
    }
    for (std::string_view rest = value;;) {  // ends: at the last comma
      const std::size_t comma = rest.find(',');
      if (auto bytes = decode_base64(rest.substr(0, comma))) found.push_back(std::move(*bytes));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return found;
}

std::vector<std::string> call::metadata_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : head_.metadata) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

void call::forget_message() noexcept {
  view_ = {};
  std::string().swap(message_);
}

void call::hand_on(continuation& turn, lane_entry& entry) noexcept {
  executor& workers = calls_->at().of().workers;
  if (place_ == place::lane) {
    workers.post_long(turn, entry);
  } else {
    workers.post(turn);
  }
}

call::timing call::timed_by() const noexcept {
  return {head_.called->took, calls_->turn().counted_most()};
}

bool call::turn_is_over() noexcept {
  return calls_->turn().is_over();
}

std::uint8_t* call::prepare_reply(std::size_t size) {
  reply_.resize(message_prefix::bytes + size);
  message_prefix{.flag = 0, .size = static_cast<std::uint32_t>(size)}.write(reply_.data());
  return reinterpret_cast<std::uint8_t*>(reply_.data() + message_prefix::bytes);
}

void call::pack_reply() {
  const encoding how = reply_encoding();
  if (how == encoding::identity) return;
  std::string packed(message_prefix::bytes, '\0');
  deflate(how, std::string_view(reply_).substr(message_prefix::bytes), packed);
  if (packed.size() >= reply_.size()) return;
  const std::size_t size = packed.size() - message_prefix::bytes;
  message_prefix{.flag = 1, .size = static_cast<std::uint32_t>(size)}.write(packed.data());
  decltype(reply_)(packed).swap(reply_);  // an assignment would keep the room of the larger one
}

additions& call::added() {
  if (!additions_) additions_ = std::make_unique<additions>();
  return *additions_;
}

bool call::add_initial_metadata(std::string_view name, std::string_view value) {
  if (!rpc::is_custom_metadata(name, value) || added().begun) return false;
  if (!added().initial_room.take(name, value)) return false;
  const bool binary = name.ends_with("-bin");
  added().initial.emplace_back(name, binary ? encode_base64(value) : std::string(value));
  return true;
}

bool call::add_trailing_metadata(std::string_view name, std::string_view value) {
  if (name != status_details && !rpc::is_custom_metadata(name, value)) return false;
  if (!added().trailing_room.take(name, value)) return false;
  const bool binary = name.ends_with("-bin");
  added().trailing.emplace_back(name, binary ? encode_base64(value) : std::string(value));
  return true;
}

void call::compress_replies() {
  if (head_.accepted == encoding::identity || added().begun) return;
  added().compressed = head_.accepted;
}

// The memory of its request.

bool call::keep(std::size_t bytes) noexcept {
  return kept_.set(bytes, calls_->budget());
}

std::size_t call::message_bytes_max() const noexcept {
  return std::min(calls_->served().limits.message_bytes_max,
                  head_.called->options.request_bytes_max);
}

/// False: its connection keeps too much already.
bool call::charge(std::size_t bytes) noexcept {
  return charge_.set(bytes, calls_->budget());
}

/// The message is not whole: the peer may send what is missing, within the budget.
void call::make_room() {
  if (!request_advance::is_needed(expected_.size, session().held())) return;
  if (pipe_ && pipe_->has_unread()) return;  // its handler's turn
  const std::size_t more = held();
  if (!advance_.add(more, calls_->budget())) return reset(h2::error::refused_stream);
  session().consume(*this, more);
}

/// Its bytes as they came are no longer kept, or will be no longer soon: the peer may send as many
/// again.
void call::took_message() {
  advance_.give_back(calls_->budget());
  session().consume(*this, held());
}

/// Of a stream: so much of what came first.
void call::took(std::size_t bytes) {
  session().consume(*this, advance_.pay_back(bytes, calls_->budget()));
}

/// Before it is freed.
void call::give_back_memory() noexcept {
  advance_.give_back(calls_->budget());
  give_back_charges();
}

/// Its handler keeps nothing any more: it has ended, or has never begun.
void call::give_back_charges() noexcept {
  charge_.give_back(calls_->budget());
  kept_.give_back(calls_->budget());
  if (pipe_) pipe_->give_back_charge();
}

/// The message grows within its bounds, and is charged as it does. Not OK: how the call ends.
rpc::status call::expand(std::string_view bytes, std::string& to) {
  const std::size_t bytes_max = message_bytes_max();
  const std::uint64_t ratio_max = calls_->served().limits.inflate_ratio_max;
  const auto fits = [this](std::size_t size) { return charge(size); };
  switch (inflate(head_.sent, bytes, {bytes_max, ratio_max, fits}, to)) {
    case inflated::whole:
      return {};
    case inflated::broken:
      return {rpc::code::internal, "message does not decompress"};
    case inflated::too_large:
      return {rpc::code::resource_exhausted, "Received message larger than max (" +
                                                 std::to_string(bytes_max) + ") when decompressed"};
    case inflated::too_dense:
      return {rpc::code::resource_exhausted,
              "message decompresses to more than " + std::to_string(ratio_max) + " times its size"};
    case inflated::refused:
      break;
  }
  return no_room();
}

/// It is charged for what it may become, before it does, and then for what it has become: protobuf
/// makes much of little fields, and keeps the memory of a message that `into` held before.
bool call::parse(google::protobuf::MessageLite& into, std::string_view bytes,
                 rpc::status& why_not) {
  const bool was_charged = charge_.bytes() > 0;
  const field_space fields = space_of_fields(bytes);
  if (!charge(bytes.size() + fields.bytes)) {
    why_not = no_room();
    return false;
  }
  const bool is_charged = was_charged || charge_.bytes() > 0;
  if (!into.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    why_not = rpc::not_readable();
    return false;
  }
  if (!is_charged) return true;
  const auto* const full = dynamic_cast<const google::protobuf::Message*>(&into);
  const std::size_t size = full != nullptr ? full->SpaceUsedLong() : 0;
  constexpr std::size_t of_object = 16;  // which the C library takes, and protobuf does not count
  if (charge(std::max(size + fields.objects * of_object, bytes.size()))) return true;
  why_not = no_room();
  return false;
}

/// Of a stream, by its handler.
bool call::read(google::protobuf::MessageLite& into, std::string_view bytes, bool compressed,
                rpc::status& why_not) {
  if (!compressed) return parse(into, bytes, why_not);
  std::string expanded;
  why_not = expand(bytes, expanded);
  return why_not.ok() && parse(into, expanded, why_not);
}

bool call::read_message(google::protobuf::MessageLite& into) {
  const bool good = parse(into, view_, result_);
  forget_message();
  return good;
}

void call::handler_ended() noexcept {
  if (!pipe_ || pipe_->end()) push();
}

/// By a handler that is not the runner's.
void call::push() noexcept {
  calls_->at().give_back(*this);
}

/// When the threads have been joined: its handler will never go on.
void call::handler_discarded() noexcept {
  run_.release();
  state_.enter(call_state::handler::ended);
  state_.enter(call_state::stream::closed);
  if (calls_ != nullptr) {
    calls_->discarded(*this);
  } else {
    delete this;
  }
}

void call::handler_threw() noexcept {
  try {
    end_handler(rpc::handler_threw());
  } catch (const std::bad_alloc&) {
    end_handler({rpc::code::unknown, {}});
  }
  log_thrown(head_.called->path);
}

void handler_run::promise_type::unhandled_exception() noexcept {
  call_.handler_threw();
}

void handler_run::promise_type::finish() noexcept {
  call& of = call_;
  if (finisher_arrives() == phase::suspended) of.handler_ended();
}

void handler_run::promise_type::discard(root_link& self) noexcept {
  auto& promise = static_cast<promise_type&>(self);
  call& of = promise.call_;
  std::coroutine_handle<promise_type>::from_promise(promise).destroy();
  of.handler_discarded();
}

// The request.

void call::on_field(std::string_view name, std::string_view value) {
  if (!is_text(name, ":path")) {
    const std::size_t before = head_.metadata.size();
    head_.read(name, value, calls_->now());
    if (head_.metadata.size() > before) session().keep_field(*this, name, value);
    return;
  }
  head_.called = calls_->find(value);
  if (calls_->at().of().log != nullptr) [[unlikely]] {
    noted_ = std::make_unique<noted>(
        noted{std::string(value.substr(0, value.find('?'))), calls_->now()});
  }
}

void call::on_header(bool too_large) {
  state_.enter(call_state::stream::request);
  calls_->note_header(*this);
  reads_since_ = calls_->now();
  const verdict found = head_.judge(too_large, session().hosts_differ());
  if (!found.http_status.empty()) return refuse(found.http_status);
  if (found.what != rpc::code::ok) return fail(found.what, found.why);
  if (!calls_->at().may_keep_header()) return fail_for_memory();
  if (!calls_->admits(*this)) {
    return fail(rpc::code::resource_exhausted, "too many calls of this method on one connection");
  }
  if (!head_.called->reads_stream) return;
  pipe_ = std::make_unique<message_pipe>(*this);
  calls_->complete(*this);
}

bool call::repeat_header() {
  const request_head* const known = calls_->known_head();
  if (known == nullptr) return false;
  head_ = *known;
  if (head_.deadline != clock::time_point::max())
    head_.deadline += calls_->now() - calls_->known_at();
  for (const auto& [name, value] : head_.metadata) session().keep_field(*this, name, value);
  return true;
}

void call::remember_header() {
  if (!state_.is_answered()) calls_->remember(head_);
}

void call::on_data(std::span<const std::byte> bytes, bool last) {
  if (pipe_ && head_.called->reads_stream) {
    bring(bytes);
    bytes = {};
  }
  while (!state_.is_answered() && !bytes.empty()) {  // ends: each turn takes some, or answers
    if (has_message()) return fail(rpc::code::unimplemented, "more than one message");
    if (!prefix_.is_whole() && !take_prefix(bytes)) break;
    take_message(bytes, last);
  }
  if (state_.is_answered()) {
    session().consume(*this, held());
  } else if (!calls_->at().may_keep(0)) {  // what it holds of this, and what others do
    fail_for_memory();
  } else if (!has_message()) {
    make_room();
  }
}

/// Messages of a stream, on to its handler.
void call::bring(std::span<const std::byte> bytes) {
  while (!state_.is_answered() && !bytes.empty()) {  // ends: each turn takes some, or answers
    std::span<const std::byte> prefix;
    if (!prefix_.is_whole()) {
      if (!prefix_.has_begun()) reads_since_ = calls_->now();
      if (!take_prefix(bytes)) return;
      prefix = prefix_.bytes();
      missing_ = expected_.size;
    }
    const auto body = bytes.first(std::min<std::size_t>(missing_, bytes.size()));
    bytes = bytes.subspan(body.size());
    missing_ -= static_cast<std::uint32_t>(body.size());
    if (missing_ == 0) {
      prefix_.clear();
      expected_ = {};
    }
    if (pipe_->bring(prefix, body, missing_ == 0)) calls_->complete(*this);
  }
}

void call::fail_for_memory() {
  fail(rpc::code::resource_exhausted, "the server has no memory for it now (--memory-max)");
}

/// False: it is not whole yet, or wrong.
bool call::take_prefix(std::span<const std::byte>& bytes) {
  if (!prefix_.take(bytes)) return false;
  expected_ = prefix_.get();
  const std::size_t bytes_max = message_bytes_max();
  if (expected_.flag > 1) {
    fail(rpc::code::internal, "bad frame flags");
  } else if (expected_.flag == 1 && head_.sent == encoding::identity) {
    fail(rpc::code::internal, "compressed message without grpc-encoding");
  } else if (expected_.size > bytes_max) {
    fail(rpc::code::resource_exhausted, "Received message larger than max (" +
                                            std::to_string(expected_.size) + " vs. " +
                                            std::to_string(bytes_max) + ")");
  } else if (!calls_->at().memory().budget().admits_body(expected_.size)) {
    fail_for_memory();
  }
  return !state_.is_answered();
}

void call::take_message(std::span<const std::byte>& bytes, bool last) {
  const std::size_t missing = expected_.size - message_.size();
  if (last && message_.empty() && bytes.size() == missing) {
    // All of it in one piece, and the request ends with it: it is run before this piece goes,
    // unless its frame has more bytes than that.
    view_ = text_in(bytes);
    calls_->borrow_for(*this);
  } else {
    message_.append(text_in(bytes.first(std::min(missing, bytes.size()))));
    view_ = message_;
  }
  bytes = bytes.subspan(std::min(missing, bytes.size()));
}

/// Its only message, whole; never of a stream, where there may always be another.
bool call::has_message() const noexcept {
  return prefix_.is_whole() && view_.size() == expected_.size;
}

/// What was borrowed becomes its own.
void call::own_message() {
  if (view_.data() == message_.data()) return;
  message_.assign(view_);
  view_ = message_;
}

void call::on_end() {
  if (state_.is_answered()) return;
  if (pipe_ && head_.called->reads_stream) {
    if (prefix_.has_begun()) return fail(rpc::code::internal, "incomplete message");
    if (pipe_->bring_end()) calls_->complete(*this);
    return;
  }
  if (!has_message()) {
    if (prefix_.has_begun()) return fail(rpc::code::internal, "incomplete message");
    const rpc::status none = rpc::no_message();
    return fail(none.what, none.message);
  }
  calls_->borrow_no_more(*this);  // it is run in this batch
  calls_->complete(*this);
}

void call::on_closed(h2::error why) {
  const bool answered = state_.is_answered();
  state_.enter(call_state::stream::closed);
  if (why != h2::error::none || !answered) cancel();
  calls_->borrow_no_more(*this);
  const bool refused = why == h2::error::refused_stream;
  note_end("gRPC", static_cast<unsigned>(refused ? rpc::code::unavailable : rpc::code::cancelled));
  calls_->release(*this);
}

void call::on_sent(std::size_t bytes) {
  if (pipe_ && pipe_->sent(bytes)) calls_->complete(*this);
}

/// The only message is whole: it is expanded, and charged. False: it could not be, and the call was
/// answered.
bool call::prepare_message() {
  rpc::status result;
  if (expected_.flag == 1) {
    std::string expanded;
    result = expand(view_, expanded);
    message_ = std::move(expanded);
    view_ = message_;
  } else if (!charge(view_.size())) {
    result = no_room();
  }
  if (!result.ok()) fail(result.what, result.message);
  return result.ok();
}

// Its handler, for its calls.

/// False: its message could not be prepared, and the call was answered.
bool call::make_handler() {
  if (!pipe_) {
    took_message();  // what it becomes is charged from here on
    if (!prepare_message()) return false;
  }
  if (called().writes_stream && !pipe_) pipe_ = std::make_unique<message_pipe>(*this);
  if (pipe_) additions_ = std::make_unique<additions>();
  run_ = called().make(*this, called());  // may throw
  return true;
}

/// True: it has ended.
bool call::start_unary(place where) noexcept {
  state_.enter(call_state::handler::running);
  place_ = where;
  return run_.start();
}

void call::start_stream() noexcept {
  state_.enter(call_state::handler::running);
  const bool has_ended = pipe_->run_here([&] { return run_.start(); });
  if (has_ended) (void)pipe_->run_here([&] { return pipe_->end(); });
}

/// Of a stream that is wanted: what its handler has left, of which `written` is to be sent.
void call::pass_on(const message_pipe::left& left, std::string& written) {
  took(left.read);
  if (!written.empty()) {
    if (!calls_->at().may_answer(written.size())) return fail_for_memory();
    begin_answer();
    if (noted_) noted_->bytes += written.size();
    session().append(*this, written);
  }
  if (left.ended) {
    finish_answer();
  } else if (left.read > 0 && !pipe_->has_unread()) {
    make_room();
  }
}

/// Its handler has ended. How the call counts.
metrics::grpc call::take_back() noexcept {
  run_ = {};
  give_back_charges();
  state_.enter(call_state::handler::ended);
  if (!state_.is_wanted()) return metrics::grpc::cancelled;
  status_ = std::move(result_);
  return status_.ok() ? metrics::grpc::ok : metrics::grpc::failed;
}

/// When the threads have been joined, and its calls go: what runs yet is discarded.
void call::outlive_calls() noexcept {
  if (!state_.is_running()) {
    delete this;
    return;
  }
  calls_ = nullptr;
  coroutine_waiter* const waits = pipe_ ? pipe_->take_waiter() : nullptr;
  if (waits != nullptr) waits->finish(continuation::disposition::discard);
}

/// Of a lasting method, whose handler has nothing to tell.
bool call::is_settled() const noexcept {
  return state_.is_wanted() && state_.is_running() && called().is_lasting && pipe_->is_settled();
}

/// While its handler runs: of a message that has begun, and of no other that is to be read first.
bool call::waits_for_rest() const noexcept {
  return missing_ > 0 && !pipe_->has_unread();
}

// The answer.

/// It gets, or has got, its last frame: nothing else may answer it.
void call::end_answer() noexcept {
  state_.enter(call_state::stream::answered);
  calls_->answered(*this);
  if (state_.is_running()) return;  // its message is the handler's
  forget_message();
  give_back_charges();
  took_message();
}

std::span<const field> call::trailers() {
  if (!status_.message.empty()) {
    encoded_message_ = percent_encode(rpc::shortened(status_.message));
  }
  trailers_ = {field{"grpc-status", text_of(status_.what)}, {"grpc-message", encoded_message_}};
  const std::size_t count = encoded_message_.empty() ? 1 : 2;
  if (state_.is_running() || !additions_) return std::span(trailers_).first(count);
  std::vector<field>& all = additions_->trailers;
  all.assign(trailers_.begin(), trailers_.begin() + static_cast<std::ptrdiff_t>(count));
  for (const auto& [name, value] : additions_->trailing) all.emplace_back(name, value);
  return all;
}

/// Of an answer with messages. The handler adds to it no more.
std::span<const field> call::header() {
  if (!additions_) return reply_header;
  std::vector<field>& all = additions_->header;
  all.assign(reply_header.begin(), reply_header.end());
  if (additions_->compressed != encoding::identity) {
    all.emplace_back("grpc-encoding", name_of(additions_->compressed));
  }
  for (const auto& [name, value] : additions_->initial) all.emplace_back(name, value);
  return all;
}

void call::begin_answer() {
  if (state_.has_begun_answer()) return;
  state_.enter(call_state::stream::answer);
  session().begin(*this, header());
}

/// To the access log, once: what comes behind it was not its end.
void call::note_end(std::string_view protocol, unsigned status) noexcept {
  if (!noted_) [[likely]]
    return;
  const auto took = clock::now() - noted_->since;
  calls_->at().of().log->note(
      {.socket = calls_->at().socket(),
       .protocol = protocol,
       .method = head_.is_post ? "POST" : "other",
       .path = noted_->path,
       .status = status,
       .bytes = noted_->bytes,
       .duration = std::chrono::duration_cast<std::chrono::microseconds>(took)});
  noted_.reset();
}

/// Behind the messages of a stream.
void call::finish_answer() {
  if (!state_.has_begun_answer()) return answer_without_messages();
  note_end("gRPC", static_cast<unsigned>(status_.what));
  end_answer();
  session().finish(*this);
}

/// Trailers-only: one HEADERS frame, whatever of the request has come.
void call::fail(rpc::code what, std::string_view message) {
  status_ = {what, std::string(message)};
  if (!state_.has_begun_answer()) {
    answer_without_messages();
  } else {
    note_end("gRPC", static_cast<unsigned>(what));
    end_answer();
    session().cut(*this);
  }
  if (state_.is_running()) cancel();
}

void call::reset(h2::error why) {
  end_answer();
  session().reset(*this, why);
}

/// By status_, and if that is good, reply_.
void call::answer() {
  if (!status_.ok()) return answer_without_messages();
  if (!calls_->at().may_answer(reply_.size())) {
    decltype(reply_)().swap(reply_);
    return fail_for_memory();
  }
  if (noted_) noted_->bytes = reply_.size();
  note_end("gRPC", 0);
  end_answer();
  session().answer_from(*this, header(), reply_);
}

/// Trailers-only, but where there is metadata for a header of its own: clients take all of one
/// HEADERS frame for trailers.
void call::answer_without_messages() {
  note_end("gRPC", static_cast<unsigned>(status_.what));
  if (!state_.is_running() && additions_ && !additions_->initial.empty()) {
    begin_answer();
    end_answer();
    return session().finish(*this);
  }
  end_answer();
  encoded_message_ = percent_encode(rpc::shortened(status_.message));
  std::array<field, 5> fields{ok_status, content_type, field{"grpc-status", text_of(status_.what)}};
  std::size_t count = 3;
  if (!encoded_message_.empty()) fields[count++] = {"grpc-message", encoded_message_};
  if (head_.has_bad_encoding) fields[count++] = {"grpc-accept-encoding", encodings};
  if (state_.is_running() || !additions_) {
    return session().answer(*this, std::span(fields).first(count));
  }
  std::vector<field>& all = additions_->header;
  all.assign(fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(count));
  for (const auto& [name, value] : additions_->trailing) all.emplace_back(name, value);
  session().answer(*this, all);
}

/// No gRPC at all: the status is HTTP's.
void call::refuse(std::string_view http_status) {
  note_end("HTTP/2", static_cast<unsigned>(std::stoul(std::string(http_status))));
  end_answer();
  const std::array<field, 2> fields{field{":status", http_status}, field{"allow", "POST"}};
  session().answer(*this, std::span(fields).first(http_status == "405" ? 2 : 1));
}

}  // namespace bwos::server::rpc

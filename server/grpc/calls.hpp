// SPDX-License-Identifier: Apache-2.0
// The calls of one connection: when which is run, for how long, and what they may keep.
//
// One runner at a time: whoever runs the connection. Other threads only end calls whose handlers
// had suspended, through the connection's inbox.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grpc/batch_turn.hpp"
#include "grpc/call.hpp"
#include "grpc/limits.hpp"
#include "grpc/methods.hpp"
#include "grpc/receive_budget.hpp"
#include "grpc/request_head.hpp"
#include "http/h2/endpoint.hpp"
#include "net/queue_age.hpp"

namespace bwos::server::rpc {

/// The methods that a port serves, and how. Outlives its connections.
class served_methods final : public h2::call_factory {
 public:
  /// Both must outlive it, and `queue_age`: of calls; null: they may wait as they must.
  served_methods(const method_table& of, const call_limits& limits,
                 const queue_age_bound* queue_age = nullptr) noexcept
      : methods(of), limits(limits), queue_age(queue_age) {}

  [[nodiscard]] bool is_call(std::string_view content_type) const noexcept override;
  [[nodiscard]] std::unique_ptr<h2::stream_kind> make_calls(h2::endpoint& of) const override;

  const method_table& methods;
  const call_limits& limits;
  const queue_age_bound* const queue_age;
};

class calls final : public h2::stream_kind {
 public:
  calls(const served_methods& served, h2::endpoint& of);
  ~calls() override;

  [[nodiscard]] h2::stream& open() override;
  void begin_turn() noexcept override { turn_.begin(has_ready()); }
  void begin_batch(clock::time_point now) noexcept override {
    ++batch_;
    now_ = now;
  }
  void run(clock::time_point now) override;
  [[nodiscard]] h2::rest left() const noexcept override {
    return has_ready() ? h2::rest::some : h2::rest::nothing;
  }
  void run_pulled(clock::time_point now) override { run(now); }
  [[nodiscard]] bool has_pulled() noexcept override { return has_ready() && !turn_.is_over(); }
  void renew(clock::time_point now) noexcept override { renewed_ = now; }
  void settle(clock::time_point now) override;
  void let_go_of_input() override;
  void take(inbox_entry& ended) override;
  void bury(inbox_entry& ended) noexcept override;
  void forget(inbox_entry& ended) noexcept override;
  void sweep(clock::time_point now) override;
  [[nodiscard]] clock::time_point deadline() const noexcept override {
    return deadlines_.empty() ? clock::time_point::max() : deadlines_.begin()->first;
  }
  bool end_lasting() override;
  void give_back_memory() noexcept override {
    known_head_ = {};
    known_number_.reset();
  }
  void lost() noexcept override;

  // For its calls.
  [[nodiscard]] const served_methods& served() const noexcept { return served_; }
  [[nodiscard]] h2::endpoint& at() const noexcept { return at_; }
  [[nodiscard]] receive_budget& budget() noexcept { return budget_; }
  [[nodiscard]] batch_turn& turn() noexcept { return turn_; }
  /// Of the batch.
  [[nodiscard]] clock::time_point now() const noexcept { return now_; }
  void note_header(call& which) const noexcept { which.batch = batch_; }
  /// Null: there is none of this path.
  [[nodiscard]] const method* find(std::string_view path) noexcept {
    if (found_ == nullptr || found_->path != path) found_ = served_.methods.find(path);
    return found_;
  }
  /// Of the header that comes, as it has come before; null: it is not known. A timeout of its began
  /// at known_at().
  [[nodiscard]] const request_head* known_head() const noexcept {
    return known_number_ == session_.header_number() ? &known_head_ : nullptr;
  }
  [[nodiscard]] clock::time_point known_at() const noexcept { return known_at_; }
  void remember(const request_head& head) {
    known_head_ = request_head(head);  // assigned as it is, it would keep the memory of larger ones
    known_at_ = now_;
    known_number_ = session_.header_number();
  }
  [[nodiscard]] bool admits(call& which);
  void complete(call& which);
  /// Its message lies in what is being fed.
  void borrow_for(call& which) noexcept { borrower_ = &which; }
  void borrow_no_more(const call& which) noexcept {
    if (borrower_ == &which) borrower_ = nullptr;
  }
  void answered(call& which) noexcept;
  void release(call& which) noexcept;
  void discarded(call& which) noexcept;

 private:
  [[nodiscard]] bool has_ready() const noexcept {
    return ready_at_ < ready_now_.size() || !ready_.empty();
  }
  [[nodiscard]] bool is_shed(const call& which, clock::time_point now) const noexcept;
  void run(call& which, clock::time_point now, bool is_last);
  void go_on(call& which);
  void look_at(call& which, bool from_inbox);
  void sweep(call& which, clock::time_point now);
  void ended(call& which);
  void count_end(call& which) noexcept;
  void expire_calls(clock::time_point now);
  void count(metrics::grpc what) const { common_.metrics.here().count(what); }

  const served_methods& served_;
  h2::endpoint& at_;
  h2::session& session_;
  const h2::common& common_;
  batch_turn turn_;
  call* newest_ = nullptr;         // of all calls
  call* borrower_ = nullptr;       // whose message lies in what is being fed
  std::vector<call*> ready_;       // complete, in order; or whose handler may go on
  std::vector<call*> ready_now_;   // those that run() is at, or has left for the next turn
  std::size_t ready_at_ = 0;       // the first of them
  const method* found_ = nullptr;  // last: peers call one method time and again
  request_head known_head_;        // that came twice
  std::optional<std::uint64_t> known_number_;  // of its header
  clock::time_point known_at_;
  std::string written_;  // by a handler, on its way to the session
  std::set<std::pair<clock::time_point, call*>> deadlines_;  // of those that outlive their batch
  receive_budget budget_;
  std::vector<std::pair<const method*, std::size_t>>
      bounded_;  // methods with a calls_max: its calls
  std::uint64_t batch_ = 0;
  clock::time_point now_;      // of the batch
  clock::time_point renewed_;  // when calls or requests had to wait last, and nobody read
};

}  // namespace bwos::server::rpc

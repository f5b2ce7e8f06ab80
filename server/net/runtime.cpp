// SPDX-License-Identifier: Apache-2.0
#include "net/runtime.hpp"

#include "net/stream_port.hpp"

namespace bwos::server {
namespace {

class pool_runtime final : public runtime {
 public:
  explicit pool_runtime(const options& settings) : pool_(settings), executor_(pool_) {}

  [[nodiscard]] executor& workers() noexcept override { return executor_; }
  [[nodiscard]] std::unique_ptr<port> listen(const std::string& address, int backlog) override {
    return std::make_unique<stream_port>(pool_, address, backlog);
  }
  [[nodiscard]] std::unique_ptr<port> listen(inherited_socket socket) override {
    return std::make_unique<stream_port>(pool_, socket);
  }
  [[nodiscard]] runtime_facts facts() const override {
    const pool_statistics now = pool_.statistics();
    return {
        .executor = "bwos",
        .reactor = {.kind = now.reactor, .note = now.reactor_note, .refused = now.reactor_refused}};
  }
  [[nodiscard]] const pool* workers_of_ours() const noexcept override { return &pool_; }
  void stop() override {
    pool_.stop();
    pool_.join();
  }

 private:
  pool pool_;
  pool_executor executor_;
};

}  // namespace

std::unique_ptr<runtime> make_pool_runtime(const options& settings) {
  return std::make_unique<pool_runtime>(settings);
}

}  // namespace bwos::server

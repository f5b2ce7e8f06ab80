// SPDX-License-Identifier: Apache-2.0
#include "baselines/asio_io_context/runtime.hpp"

#include "baselines/asio_io_context/executor.hpp"
#include "baselines/asio_io_context/listener.hpp"

namespace bwos::server::asio_sockets {
namespace {

class io_context_runtime final : public runtime {
 public:
  io_context_runtime(unsigned workers, bool has_lane) : executor_(workers, has_lane) {}

  [[nodiscard]] executor& workers() noexcept override { return executor_; }
  [[nodiscard]] std::unique_ptr<port> listen(const std::string& address, int backlog) override {
    return std::make_unique<socket_listener>(executor_, address, backlog);
  }
  [[nodiscard]] std::unique_ptr<port> listen(inherited_socket socket) override {
    return std::make_unique<socket_listener>(executor_, socket);
  }
  [[nodiscard]] runtime_facts facts() const override {
    return {.executor = "asio-io-context",
            .reactor = {.kind = reactor_kind::epoll, .note = "Asio's own"},
            .asio_lane_run = executor_.lane_run()};
  }
  void stop() override { executor_.stop(); }

 private:
  io_context_executor executor_;
};

}  // namespace

std::unique_ptr<runtime> make_runtime(unsigned workers, bool has_lane) {
  return std::make_unique<io_context_runtime>(workers, has_lane);
}

}  // namespace bwos::server::asio_sockets

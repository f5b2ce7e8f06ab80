// SPDX-License-Identifier: Apache-2.0
#include "baselines/asio_io_context/runtime.hpp"

#include "baselines/asio_io_context/executor.hpp"
#include "baselines/asio_io_context/listener.hpp"

namespace bwos::server::asio_sockets {
namespace {

class io_context_runtime final : public runtime {
 public:
  explicit io_context_runtime(const config& settings)
      : executor_(settings.workers, settings.asio_lane) {}

  [[nodiscard]] executor& workers() noexcept override { return executor_; }
  [[nodiscard]] std::unique_ptr<http_listener> listen(const std::string& address,
                                                      int backlog) override {
    return std::make_unique<socket_listener>(executor_, address, backlog);
  }
  [[nodiscard]] std::unique_ptr<http_listener> listen(inherited_socket socket) override {
    return std::make_unique<socket_listener>(executor_, socket);
  }
  [[nodiscard]] runtime_facts facts() const override {
    return {.kind = executor_kind::asio_io_context,
            .reactor = {.kind = reactor_kind::epoll, .note = "Asio's own"},
            .asio_lane_run = executor_.lane_run()};
  }
  void stop() override { executor_.stop(); }

 private:
  io_context_executor executor_;
};

}  // namespace

std::unique_ptr<runtime> make_runtime(const config& settings) {
  return std::make_unique<io_context_runtime>(settings);
}

}  // namespace bwos::server::asio_sockets

// SPDX-License-Identifier: Apache-2.0
#include "net/runtime.hpp"

#include <stdexcept>

#include "baselines/asio_io_context/runtime.hpp"
#include "baselines/asio_pool/runtime.hpp"
#include "http/stream_listener.hpp"

namespace bwos::server {
namespace {

class bwos_runtime final : public runtime {
 public:
  explicit bwos_runtime(const options& settings) : pool_(settings), executor_(pool_) {}

  [[nodiscard]] executor& workers() noexcept override { return executor_; }
  [[nodiscard]] std::unique_ptr<http_listener> listen(const std::string& address,
                                                      int backlog) override {
    return std::make_unique<stream_listener>(pool_, address, backlog);
  }
  [[nodiscard]] std::unique_ptr<http_listener> listen(inherited_socket socket) override {
    return std::make_unique<stream_listener>(pool_, socket);
  }
  [[nodiscard]] runtime_facts facts() const override {
    const pool_statistics now = pool_.statistics();
    return {
        .kind = executor_kind::bwos,
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

void http_listener::start_grpc(const native::shared& /*shared*/, std::size_t /*max*/) {
  throw std::logic_error("this executor has no native gRPC");
}

std::unique_ptr<runtime> make_runtime(const config& settings) {
  switch (settings.executor) {
    case executor_kind::bwos:
      return std::make_unique<bwos_runtime>(settings.pool_options());
    case executor_kind::asio_pool:
      return make_asio_pool_runtime(settings.pool_options());
    case executor_kind::asio_io_context:
      return asio_sockets::make_runtime(settings);
  }
  throw std::invalid_argument("no such executor");
}

std::string_view name_of(executor_kind kind) noexcept {
  switch (kind) {
    case executor_kind::bwos:
      return "bwos";
    case executor_kind::asio_pool:
      return "asio-pool";
    case executor_kind::asio_io_context:
      return "asio-io-context";
  }
  return "bwos";
}

}  // namespace bwos::server

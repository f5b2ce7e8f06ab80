// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <bwos/stream.hpp>
#include <stdexcept>
#include <utility>

#include "asio_sockets/io_context_runtime.hpp"

namespace bwos::server {
namespace {

/// Sockets on reactors of ours.
class stream_listener final : public http_listener {
 public:
  template <class Where>
  stream_listener(Where& where, const std::string& address, int backlog)
      : sockets_(where, address, backlog) {}

  [[nodiscard]] std::string address() const override { return sockets_.address(); }
  void start(const http1::context& shared, std::size_t connections_max) override {
    sockets_.start(
        [&shared](stream peer) { return http1::serve(std::move(peer), shared); }, connections_max,
        [&shared](stream peer) { return http1::refuse(std::move(peer), shared); }, refusals_max);
  }
  void close() noexcept override { sockets_.close(); }
  [[nodiscard]] bool closed() const noexcept override { return sockets_.closed(); }
  void interrupt_connections() noexcept override { sockets_.interrupt_connections(); }
  [[nodiscard]] std::size_t connections() const noexcept override { return sockets_.connections(); }
  [[nodiscard]] std::size_t accepted() const noexcept override { return sockets_.accepted(); }
  [[nodiscard]] std::size_t refused() const noexcept override { return sockets_.refused(); }

 private:
  listener sockets_;
};

class bwos_runtime final : public runtime {
 public:
  explicit bwos_runtime(const options& settings) : pool_(settings), executor_(pool_) {}

  [[nodiscard]] executor& workers() noexcept override { return executor_; }
  [[nodiscard]] std::unique_ptr<http_listener> listen(const std::string& address,
                                                      int backlog) override {
    return std::make_unique<stream_listener>(pool_, address, backlog);
  }
  [[nodiscard]] runtime_facts facts() const override {
    const pool_statistics now = pool_.statistics();
    return {.kind = executor_kind::bwos,
            .reactor = now.reactor,
            .reactor_note = now.reactor_note,
            .reactor_refused = now.reactor_refused};
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

std::unique_ptr<runtime> make_runtime(const config& settings) {
  if (settings.executor == executor_kind::asio_io_context)
    return asio_sockets::make_runtime(settings);
  if (settings.executor != executor_kind::bwos)
    throw std::invalid_argument("that --executor is not there yet");
  return std::make_unique<bwos_runtime>(settings.pool_options());
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

// SPDX-License-Identifier: Apache-2.0
#include "ops/exposition.hpp"

#include <array>
#include <charconv>

namespace bwos::server::metrics {
namespace {

constexpr std::string_view made_room_help =
    "Idle connections ended for others: --connections-max, --memory-max.";

template <class Number>
void add_number(std::string& to, Number value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  to.append(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

/// Opens a metric: everything of one name has to stand together behind its HELP and TYPE.
void open(std::string& to, std::string_view name, std::string_view type, std::string_view help) {
  to.append("# HELP ").append(name).append(" ").append(help).append("\n");
  to.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

/// `labels` is empty or `a="b",c="d"`; no value of ours needs escaping.
template <class Number>
void sample(std::string& to, std::string_view name, std::string_view labels, Number value) {
  to.append(name);
  if (!labels.empty()) to.append("{").append(labels).append("}");
  to.append(" ");
  add_number(to, value);
  to.append("\n");
}

template <class Number>
void single(std::string& to, std::string_view name, std::string_view type, std::string_view help,
            Number value) {
  open(to, name, type, help);
  sample(to, name, "", value);
}

void write_requests(std::string& to, const totals& http, const router& routes) {
  constexpr std::string_view name = "bwos_http_requests_total";
  open(to, name, "counter", "Requests answered, by route and status.");
  std::string labels;
  for (std::size_t where = 0; where < routes.count(); ++where) {
    for (std::size_t code = 0; code < status_count; ++code) {
      const std::uint64_t value = http.requests[where][code];
      // What never happened is left out, but a route's 200s, so that rates begin at 0.
      if (value == 0 && (code != 0 || where == routes.other())) continue;
      labels.assign("route=\"").append(routes[where].path).append("\",status=\"");
      add_number(labels, status_texts[code].code);
      labels.append("\"");
      sample(to, name, labels, value);
    }
  }
}

void write_durations(std::string& to, const totals& http) {
  constexpr std::string_view name = "bwos_http_request_duration_seconds";
  open(to, name, "histogram",
       "Time from when a worker took up a batch of requests to the write of their answers.");
  const std::string bucket = std::string(name) + "_bucket";
  std::string labels;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < duration_bounds_us.size(); ++i) {
    below += http.durations[i];
    labels.assign("le=\"");
    add_number(labels, duration_bounds_us[i] / 1e6);
    labels.append("\"");
    sample(to, bucket, labels, below);
  }
  below += http.durations.back();
  sample(to, bucket, "le=\"+Inf\"", below);
  sample(to, std::string(name) + "_sum", "", http.duration_us_sum / 1e6);
  sample(to, std::string(name) + "_count", "", below);
}

void write_http(std::string& to, const snapshot& what) {
  write_requests(to, what.http, *what.routes);
  write_durations(to, what.http);
  single(to, "bwos_http_received_bytes_total", "counter", "Bytes received.",
         what.http.received_bytes);
  single(to, "bwos_http_sent_bytes_total", "counter", "Bytes that the kernel took.",
         what.http.sent_bytes);
  single(to, "bwos_http_out_of_memory_total", "counter",
         "Connections closed because there was no memory for them.", what.http.out_of_memory);
  constexpr std::string_view timeouts = "bwos_http_timeouts_total";
  open(to, timeouts, "counter", "Connections ended by a timeout, by what they were waiting for.");
  for (std::size_t i = 0; i < timeout_names.size(); ++i) {
    sample(to, timeouts, std::string("kind=\"") + timeout_names[i] + "\"", what.http.timeouts[i]);
  }
  single(to, "bwos_http_shed_total", "counter", "Requests answered 503: --queue-age-max.",
         what.http.shed);
  if (what.queue_age) {
    single(to, "bwos_queue_age_seconds", "gauge", "How long what runs now has waited for a worker.",
           static_cast<double>(what.queue_age->count()) / 1e3);
  }
  if (!what.http_listens) return;
  single(to, "bwos_http_connections", "gauge", "Connections open now.", what.connections);
  single(to, "bwos_http_accepted_total", "counter", "Connections accepted.", what.accepted);
  single(to, "bwos_http_refused_total", "counter", "Connections refused: --connections-max.",
         what.refused);
  single(to, "bwos_http_made_room_total", "counter", made_room_help, what.made_room);
}

void write_memory(std::string& to, const memory_budget::totals& all) {
  constexpr std::string_view name = "bwos_memory_bytes";
  open(to, name, "gauge", "Memory that peers make the server keep now, by what for.");
  for (std::size_t i = 0; i < memory_names.size(); ++i) {
    const std::int64_t bytes = std::max<std::int64_t>(all.bytes[i], 0);
    sample(to, name, std::string("kind=\"") + memory_names[i] + "\"",
           static_cast<std::uint64_t>(bytes));
  }
  single(to, "bwos_memory_max_bytes", "gauge", "The most that all of it may be: --memory-max.",
         all.bytes_max);
  single(to, "bwos_memory_refused_total", "counter",
         "Requests, calls and connections that needed more than --memory-max leaves.", all.refused);
  single(
      to, "bwos_memory_resets_total", "counter",
      "Connections reset because they kept most where three quarters of --memory-max were taken.",
      all.resets);
}

void write_grpc(std::string& to, const grpc_statistics& grpc) {
  single(to, "bwos_grpc_started_total", "counter", "Calls that reached the server.", grpc.started);
  constexpr std::string_view name = "bwos_grpc_ended_total";
  open(to, name, "counter", "Calls ended, by how.");
  sample(to, name, "result=\"ok\"", grpc.ok);
  sample(to, name, "result=\"failed\"", grpc.failed);
  sample(to, name, "result=\"cancelled\"", grpc.cancelled);
}

void write_native_grpc(std::string& to, const totals& all, std::uint64_t connections) {
  const auto of = [&](grpc what) { return all.grpc[static_cast<std::size_t>(what)]; };
  single(to, "bwos_grpc_connections", "gauge", "Connections open now.", connections);
  single(to, "bwos_grpc_read_batches_total", "counter",
         "Receives that brought bytes, of all HTTP/2.", of(grpc::read_batches));
  single(to, "bwos_grpc_sends_total", "counter", "System calls that sent, of all HTTP/2.",
         of(grpc::sends));
  single(to, "bwos_grpc_slices_total", "counter",
         "Turns of connections that ended with calls left, because they took long.",
         of(grpc::slices));
  single(to, "bwos_grpc_shed_total", "counter", "Calls answered UNAVAILABLE: --queue-age-max.",
         of(grpc::shed));
}

void write_worker_counter(std::string& to, const pool_statistics& pool, std::string_view name,
                          std::string_view help, std::uint64_t worker_statistics::* counter) {
  open(to, name, "counter", help);
  std::string labels;
  for (std::size_t i = 0; i < pool.workers.size(); ++i) {
    labels.assign("worker=\"");
    add_number(labels, i);
    labels.append("\"");
    sample(to, name, labels, pool.workers[i].*counter);
  }
}

void write_pool(std::string& to, const pool_statistics& pool) {
#define BWOS_WRITE(name, meaning) \
  write_worker_counter(to, pool, "bwos_pool_" #name "_total", meaning, &worker_statistics::name);
  BWOS_WORKER_COUNTERS(BWOS_WRITE)
#undef BWOS_WRITE
  single(to, "bwos_pool_inject_depth", "gauge", "continuations in the inject queue now",
         pool.inject_depth);
  single(to, "bwos_pool_lane_depth", "gauge", "continuations in the lane of long work now",
         pool.lane_depth);
  single(to, "bwos_pool_parked", "gauge", "workers parked now", pool.parked);
  single(to, "bwos_pool_searching", "gauge", "workers searching now", pool.searching);
}

}  // namespace

std::string_view name_of(reactor_kind kind) noexcept {
  switch (kind) {
    case reactor_kind::none:
      return "none";
    case reactor_kind::automatic:
      return "auto";
    case reactor_kind::epoll:
      return "epoll";
    case reactor_kind::io_uring:
      return "io_uring";
  }
  return "none";
}

void write_text(std::string& to, const snapshot& what) {
  constexpr std::string_view info = "bwos_build_info";
  open(to, info, "gauge", "1; what runs is in the labels.");
  std::string labels = "version=\"";
  labels.append(what.version)
      .append("\",executor=\"")
      .append(what.executor)
      .append("\",reactor=\"")
      .append(name_of(what.reactor))
      .append("\"");
  sample(to, info, labels, 1);
  write_http(to, what);
  write_memory(to, what.memory);
  if (what.grpc) write_grpc(to, *what.grpc);
  if (what.grpc_connections) write_native_grpc(to, what.http, *what.grpc_connections);
  if (what.grpc_refused) {
    single(to, "bwos_grpc_refused_total", "counter", "Connections refused: --connections-max.",
           *what.grpc_refused);
    single(to, "bwos_grpc_made_room_total", "counter", made_room_help, what.grpc_made_room);
  }
  if (what.address_refused) {
    single(to, "bwos_connections_per_address_refused_total", "counter",
           "Connections refused: --connections-per-address-max.", *what.address_refused);
  }
  if (what.pool) write_pool(to, *what.pool);
  if (what.asio_lane_run) {
    single(to, "bwos_asio_lane_run_total", "counter", "Requests run by --asio-lane.",
           *what.asio_lane_run);
  }
  if (what.access_log) {
    constexpr std::string_view lines = "bwos_access_log_lines_total";
    open(to, lines, "counter", "Lines of the access log, by what became of them.");
    sample(to, lines, "result=\"written\"", what.access_log->written);
    sample(to, lines, "result=\"dropped\"", what.access_log->dropped);
  }
}

}  // namespace bwos::server::metrics

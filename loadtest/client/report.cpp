// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

namespace bwos::load {
namespace {

[[gnu::format(printf, 2, 3)]] void add(std::string& out, const char* format, ...) {
  std::array<char, 512> text;
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  out.append(text.data(), std::min(static_cast<std::size_t>(size), text.size() - 1));
}

double us(std::int64_t ns) {
  return static_cast<double>(ns) / 1000;
}

double cpu_us_per_request(const outcome& result) {
  return result.sent() == 0 ? 0 : result.client_cpu_s * 1e6 / static_cast<double>(result.sent());
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char each : text) {
    if (static_cast<unsigned char>(each) < 0x20) {
      add(out, "\\u%04x", static_cast<unsigned>(each));
    } else {
      if (each == '"' || each == '\\') out += '\\';
      out += each;
    }
  }
  return out + '"';
}

constexpr std::array<const char*, 3> protocol_names = {"http1", "h2", "grpc"};

void add_percentiles(std::string& out, const histogram& from) {
  add(out, R"("p50": %.3f, "p90": %.3f, "p99": %.3f, "p99.9": %.3f, "max": %.3f, "mean": %.3f)",
      us(from.percentile(50)), us(from.percentile(90)), us(from.percentile(99)),
      us(from.percentile(99.9)), us(from.max()), from.mean() / 1000);
}

void add_class(std::string& out, const options& with, const request_class& which,
               const class_outcome& result) {
  out += "    {\"name\": " + quoted(which.name) + ", \"path\": " + quoted(which.path);
  add(out, R"(, "protocol": "%s", "streams": %u)",
      protocol_names[static_cast<std::size_t>(which.protocol)], which.streams);
  add(out, R"(, "connections": %u, "rate_asked": %.3f, "rate_answered": %.3f)", which.connections,
      which.rate, static_cast<double>(result.answered) / with.duration_s);
  add(out, R"(, "sent": %llu, "answered": %llu, "lost": %llu, "outstanding": %llu)",
      static_cast<unsigned long long>(result.sent),
      static_cast<unsigned long long>(result.answered),
      static_cast<unsigned long long>(result.lost()),
      static_cast<unsigned long long>(result.outstanding));
  out += ",\n     \"errors\": {";
  for (std::size_t i = 0; i < failure_names.size(); ++i) {
    add(out, R"(%s"%s": %llu)", i == 0 ? "" : ", ", failure_names[i],
        static_cast<unsigned long long>(result.failures[i]));
  }
  out += "},\n     \"latency_us\": {";
  add_percentiles(out, result.latency_ns);
  out += "}}";
}

}  // namespace

std::string as_json(const options& with, const outcome& result) {
  std::string out = "{\n";
  add(out, R"(  "arrivals": "%s", "duration_s": %g, "warmup_s": %g, "threads": %u,)",
      with.arrivals == arrival_kind::fixed ? "fixed" : "poisson", with.duration_s, with.warmup_s,
      with.threads);
  add(out, R"( "seed": %llu, "realtime": %d,)", static_cast<unsigned long long>(with.seed),
      with.realtime);
  add(out, "\n  \"sent_in_all\": %llu, \"answered_in_all\": %llu,\n",
      static_cast<unsigned long long>(result.sent_in_all),
      static_cast<unsigned long long>(result.answered_in_all));
  add(out, R"(  "client": {"cpu_s": %.6f, "cpu_us_per_request": %.3f, "lateness_us": {)",
      result.client_cpu_s, cpu_us_per_request(result));
  add_percentiles(out, result.lateness_ns);
  out += "}},\n  \"classes\": [\n";
  for (std::size_t i = 0; i < with.classes.size(); ++i) {
    add_class(out, with, with.classes[i], result.classes[i]);
    out += i + 1 < with.classes.size() ? ",\n" : "\n";
  }
  return out + "  ]\n}\n";
}

std::string as_table(const options& with, const outcome& result) {
  std::string out;
  add(out, "%-12s %6s %10s %10s %8s %8s %9s %9s %9s %9s %9s\n", "class", "conns", "asked/s",
      "answered/s", "errors", "open", "p50 us", "p90", "p99", "p99.9", "max");
  for (std::size_t i = 0; i < with.classes.size(); ++i) {
    const request_class& which = with.classes[i];
    const class_outcome& its = result.classes[i];
    add(out, "%-12.60s %6u %10.0f %10.0f %8llu %8llu %9.1f %9.1f %9.1f %9.1f %9.1f\n",
        which.name.c_str(), which.connections, which.rate,
        static_cast<double>(its.answered) / with.duration_s,
        static_cast<unsigned long long>(its.all_failures()),
        static_cast<unsigned long long>(its.outstanding), us(its.latency_ns.percentile(50)),
        us(its.latency_ns.percentile(90)), us(its.latency_ns.percentile(99)),
        us(its.latency_ns.percentile(99.9)), us(its.latency_ns.max()));
    for (std::size_t kind = 0; kind < failure_names.size(); ++kind) {
      if (its.failures[kind] == 0) continue;
      add(out, "  error %s: %llu\n", failure_names[kind],
          static_cast<unsigned long long>(its.failures[kind]));
    }
  }
  add(out, "client: %.2f us CPU a request; late by p50 %.1f us, p99 %.1f us, at most %.1f us\n",
      cpu_us_per_request(result), us(result.lateness_ns.percentile(50)),
      us(result.lateness_ns.percentile(99)), us(result.lateness_ns.max()));
  return out;
}

}  // namespace bwos::load

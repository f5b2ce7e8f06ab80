// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

namespace bwos::load {
namespace {

template <class Number>
Number number(const std::string& key, const std::string& text, Number least, Number most) {
  Number value{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
  // Written so that a NaN is refused too.
  if (!whole || !(value >= least && value <= most)) {
    throw std::invalid_argument(key + "=" + text + ": must lie in " + std::to_string(least) +
                                " to " + std::to_string(most));
  }
  return value;
}

void set(request_class& out, const std::string& key, const std::string& value) {
  constexpr std::int64_t body_max = 1024 * 1024;
  if (key == "name") {
    out.name = value;
  } else if (key == "connections") {
    out.connections = number<unsigned>(key, value, 1, 60'000);
  } else if (key == "path") {
    out.path = value;
  } else if (key == "rate") {
    out.rate = number<double>(key, value, 0.001, 1e7);
  } else if (key == "burst") {
    out.burst = number<unsigned>(key, value, 1, 1000);
  } else if (key == "post") {
    out.post_bytes = number<std::int64_t>(key, value, 0, body_max);
  } else if (key == "length") {
    out.length_bytes = number<std::int64_t>(key, value, 0, body_max);
  } else {
    throw std::invalid_argument("no key '" + key +
                                "': valid are name, connections, path, rate, burst, post, length");
  }
}

}  // namespace

request_class parse_class(const std::string& text) {
  request_class result;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string pair = text.substr(from, comma - from);
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos) throw std::invalid_argument("'" + pair + "' is not key=value");
    set(result, pair.substr(0, equals), pair.substr(equals + 1));
    from = comma + 1;
  }
  if (result.name.empty()) result.name = result.path;
  if (!result.path.starts_with('/')) throw std::invalid_argument("path must begin with /");
  return result;
}

sockaddr_in parse_target(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (colon == text.npos ||
      ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    throw std::invalid_argument("'" + text + "' is not an IPv4 address and a port");
  }
  address.sin_port = htons(number<std::uint16_t>("port", text.substr(colon + 1), 1, 65535));
  return address;
}

options parse_command_line(int argc, char** argv) {
  options result;
  std::string target = "127.0.0.1:8080";
  std::vector<std::string> classes;
  CLI::App app(
      "Open-loop HTTP/1.1 load: requests leave when they are due, whether or not earlier ones\n"
      "were answered, and latency counts from when they were due. Exits 1 when any request\n"
      "failed or the server cannot be reached, 2 for a bad flag.",
      "bwos-load");
  app.add_option("--target", target, "IPv4 address and port")->capture_default_str();
  app.add_option(
         "--class", classes,
         "name=..,connections=1..60000,path=..,rate=..[,burst=N][,post=BYTES][,length=BYTES];\n"
         "repeat it for several. rate is in requests/s of the whole class, spread evenly over\n"
         "its connections; burst sends as many at once, in one write; post sends a body;\n"
         "length is what every answer's body must have. A path must not contain a comma")
      ->required();
  const std::map<std::string, arrival_kind> kinds{{"fixed", arrival_kind::fixed},
                                                  {"poisson", arrival_kind::poisson}};
  app.add_option("--arrivals", result.arrivals, "fixed or poisson gaps on each connection")
      ->transform(CLI::CheckedTransformer(kinds))
      ->default_str("poisson");
  app.add_option("--duration", result.duration_s, "measured seconds")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  app.add_option("--warmup", result.warmup_s, "seconds of the same load before, not measured")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--drain", result.drain_s, "seconds to wait for late answers at the end")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--threads", result.threads, "each with its share of every class")
      ->check(CLI::Range(1U, 256U))
      ->capture_default_str();
  app.add_option("--seed", result.seed, "of the arrivals")->capture_default_str();
  app.add_option("--realtime", result.realtime, "SCHED_FIFO priority, 1 to 99")
      ->check(CLI::Range(1, 99));
  app.add_option("--json", result.json, "write JSON to this file; - for standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  try {
    result.target = parse_target(target);
    for (const std::string& text : classes) result.classes.push_back(parse_class(text));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "bwos-load: %s\n", error.what());
    std::exit(2);
  }
  return result;
}

}  // namespace bwos::load

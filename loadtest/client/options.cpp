// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <stdexcept>
#include <string_view>

namespace bwos::load {
namespace {

// As it would be typed: 0.001, not 0.001000.
template <class Number>
std::string text_of(Number value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// `named` is what stands before the value where it was given: "--seed ", "rate=".
template <class Number>
Number number(const std::string& named, const std::string& text, Number least, Number most) {
  Number value{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
  // Written so that a NaN is refused too.
  if (!whole || !(value >= least && value <= most)) {
    throw std::invalid_argument(named + (text.empty() ? "''" : text) + ": must lie in " +
                                text_of(least) + " to " + text_of(most));
  }
  return value;
}

// Bytes written as pairs of hexadecimal digits.
std::string bytes_of(const std::string& key, const std::string& text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 2) {
    unsigned value = 0;
    const char* const end = text.data() + std::min(at + 2, text.size());
    const auto read = std::from_chars(text.data() + at, end, value, 16);
    if (read.ec != std::errc{} || read.ptr != text.data() + at + 2) {
      std::string why = key;
      why.append("=").append(text).append(
          ": must be pairs of hexadecimal digits, 0a0462776f73 say");
      throw std::invalid_argument(why);
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

protocol_kind protocol_of(const std::string& text) {
  if (text == "http1") return protocol_kind::http1;
  if (text == "h2") return protocol_kind::h2;
  if (text == "grpc") return protocol_kind::grpc;
  throw std::invalid_argument("protocol=" + text + ": must be http1, h2 or grpc");
}

void set(request_class& out, const std::string& key, const std::string& value) {
  constexpr std::int64_t body_max = 1024 * 1024;
  const std::string named = key + "=";
  if (key == "name") {
    out.name = value;
  } else if (key == "protocol") {
    out.protocol = protocol_of(value);
  } else if (key == "connections") {
    out.connections = number<unsigned>(named, value, 1, 60'000);
  } else if (key == "over") {
    out.over = value;
  } else if (key == "path") {
    out.path = value;
  } else if (key == "rate") {
    out.rate = number<double>(named, value, 0.001, 1e7);
  } else if (key == "burst") {
    out.burst = number<unsigned>(named, value, 1, 1000);
  } else if (key == "streams") {
    out.streams = number<unsigned>(named, value, 1, 100'000);
  } else if (key == "window") {
    out.window_bytes = number<std::uint32_t>(named, value, 1, 0x7fff'ffff);
  } else if (key == "post") {
    out.post_bytes = number<std::int64_t>(named, value, 0, body_max);
  } else if (key == "length") {
    out.length_bytes = number<std::int64_t>(named, value, 0, body_max);
  } else if (key == "message") {
    out.message = bytes_of(key, value);
  } else if (key == "reply") {
    out.reply = bytes_of(key, value);
  } else {
    throw std::invalid_argument(
        "has no key '" + key +
        "': valid are name, protocol, connections, over, path, rate, burst, streams, window, "
        "post, length, message, reply");
  }
}

}  // namespace

request_class parse_class(const std::string& text) {
  request_class result;
  std::set<std::string> given;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string pair = text.substr(from, comma - from);
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos) throw std::invalid_argument("'" + pair + "' is not key=value");
    const std::string key = pair.substr(0, equals);
    if (!given.insert(key).second) {
      throw std::invalid_argument((pair + ": ").append(key).append(" stands twice"));
    }
    set(result, key, pair.substr(equals + 1));
    from = comma + 1;
  }
  const auto refuse = [&](std::initializer_list<const char*> keys, const char* why) {
    for (const char* key : keys) {
      if (given.contains(key)) throw std::invalid_argument(key + std::string(": ") + why);
    }
  };
  if (result.protocol == protocol_kind::http1) {
    refuse({"over", "streams", "window"}, "needs protocol=h2 or protocol=grpc");
  } else if (!given.contains("rate")) {
    result.rate = 0;
    refuse({"over", "burst"}, "needs a rate");
    result.streams = std::max(result.streams, 1U);
  }
  if (result.protocol == protocol_kind::grpc) {
    refuse({"post"}, "gRPC sends message=");
  } else {
    refuse({"message", "reply"}, "needs protocol=grpc");
  }
  if (!result.over.empty()) {
    refuse({"connections", "streams", "window"}, "is said by the class of over=");
  }
  if (result.name.empty()) result.name = result.path;
  if (!result.path.starts_with('/')) throw std::invalid_argument("path must begin with /");
  return result;
}

std::size_t carrier_of(const std::vector<request_class>& classes, std::size_t index) {
  const std::string& name = classes[index].over;
  if (name.empty()) return index;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const request_class& each = classes[i];
    if (each.name != name) continue;
    if (each.over.empty() && each.protocol != protocol_kind::http1 && each.rate > 0) return i;
    throw std::invalid_argument("over=" + name +
                                ": that class needs a rate, connections of its own, and "
                                "protocol=h2 or protocol=grpc");
  }
  throw std::invalid_argument("over=" + name + ": must be the name of another class");
}

sockaddr_in parse_target(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (colon == text.npos ||
      ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    throw std::invalid_argument("'" + text + "' is not an IPv4 address and a port");
  }
  address.sin_port = htons(number<std::uint16_t>("port=", text.substr(colon + 1), 1, 65535));
  return address;
}

namespace {

// The report and `over` go by names.
void refuse_equal_names(const std::vector<request_class>& classes) {
  std::set<std::string> names;
  for (const request_class& each : classes) {
    if (names.insert(each.name).second) continue;
    throw std::invalid_argument("name=" + each.name +
                                ": two have it (without a name it is the path)");
  }
}

template <class Number>
void add_number(CLI::App& app, const std::string& flag, Number& to, Number least, Number most,
                const std::string& type, const std::string& meaning) {
  app.add_option_function<std::string>(
         flag,
         [&to, flag, least, most](const std::string& text) {
           to = number(flag + " ", text, least, most);
         },
         meaning + ", " + text_of(least) + " to " + text_of(most))
      ->type_name(type)
      ->default_str(text_of(to));
}

arrival_kind arrivals_of(const std::string& text) {
  if (text == "fixed") return arrival_kind::fixed;
  if (text == "poisson") return arrival_kind::poisson;
  throw std::invalid_argument("--arrivals " + (text.empty() ? "''" : text) +
                              ": must be fixed or poisson");
}

// CLI11 would take the next word for the value of "--flag=".
void refuse_lacking_values(const CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string flag(word.substr(0, word.size() - 1));
    if (app.get_option_no_throw(flag) != nullptr) {
      throw std::invalid_argument(flag + ": no value behind '='");
    }
  }
}

// What went wrong with a flag, told with the flag before it.
template <class Read>
auto of_flag(const char* flag, const Read& read) {
  try {
    return read();
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(flag) + " " + error.what());
  }
}

}  // namespace

options parse_command_line(int argc, char** argv) {
  options result;
  constexpr std::uint64_t seed_max = 0x7fff'ffff'ffff'ffff;  // what readers of the JSON can hold
  std::string target = "127.0.0.1:8080";
  std::vector<std::string> classes;
  CLI::App app(
      "HTTP/1.1, HTTP/2 (prior knowledge) and unary gRPC load whose every answer is checked.\n"
      "Open loop, where a class has a rate: requests leave when they are due, whether or not\n"
      "earlier ones were answered, and latency counts from when they were due. Closed loop,\n"
      "where a class of HTTP/2 or gRPC has none: each connection keeps `streams` requests in\n"
      "flight. Exits 1 when any request failed or stayed unanswered for --drain seconds after the\n"
      "last (not with --drain 0, which waits for none), when the server cannot be reached or the\n"
      "result not be written; 2 for a bad flag.",
      "bwos-load");
  app.add_option("--target", target, "IPv4 address and port")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  app.add_option(
         "--class", classes,
         "key=value,.. of one kind of requests, which is reported apart; repeat it for several:\n"
         "name=..        in the report; the path where it is missing; each class has another\n"
         "protocol=..    http1 (default), h2 or grpc\n"
         "connections=N  1 to 60000, of its own; default 1\n"
         "over=NAME      none of its own: its requests go over those of that class (h2, grpc)\n"
         "path=..        without a comma; under grpc /package.Service/Method\n"
         "rate=R         requests/s of the whole class, spread evenly over the connections,\n"
         "               0.001 to 1e7; http1: default 1000; h2, grpc: default a closed loop\n"
         "burst=N        1 to 1000 requests are due at once, and leave in one write\n"
         "streams=N      1 to 100000: the most in flight on a connection (h2, grpc); default 1\n"
         "               in a closed loop, with a rate what the server allows; never more\n"
         "window=BYTES   1 to 2147483647: what the server may send before it must wait for us,\n"
         "               on a stream and, above 65535, on a connection; default 1048576\n"
         "post=BYTES     0 to 1048576: sends a body (http1, h2)\n"
         "length=BYTES   0 to 1048576: what every answer's body or message must have\n"
         "message=HEX    what a gRPC call sends; default empty\n"
         "reply=HEX      what every gRPC answer must be\n"
         "as in protocol=grpc,connections=10,streams=100,path=/helloworld.Greeter/SayHello,\n"
         "message=0a0462776f73,reply=0a0a48656c6c6f2062776f73")
      ->required();
  app.add_option_function<std::string>(
         "--arrivals", [&result](const std::string& text) { result.arrivals = arrivals_of(text); },
         "gaps on each connection")
      ->type_name("fixed|poisson")
      ->default_str("poisson");
  add_number(app, "--duration", result.duration_s, 0.01, 86400.0, "SECONDS", "measured");
  add_number(app, "--warmup", result.warmup_s, 0.0, 3600.0, "SECONDS",
             "of the same load before, not measured");
  add_number(app, "--drain", result.drain_s, 0.0, 3600.0, "SECONDS",
             "to wait for late answers at the end (0: those still missing are no failures)");
  add_number(app, "--threads", result.threads, 1U, 256U, "N", "each with its share of every class");
  add_number<std::uint64_t>(app, "--seed", result.seed, 0, seed_max, "N", "of the arrivals");
  app.add_flag("--spin", result.spin,
               "poll instead of sleeping, on a CPU of its own: a server that writes once for each\n"
               "answer would else pay for waking us up each time");
  add_number(app, "--realtime", result.realtime, 0, 99, "N", "SCHED_FIFO priority (0: none)");
  app.add_option("--json", result.json, "write JSON to this file; - for standard output")
      ->type_name("FILE");
  try {
    refuse_lacking_values(app, argc, argv);
    app.parse(argc, argv);
    result.target = of_flag("--target", [&] { return parse_target(target); });
    of_flag("--class", [&] {
      for (const std::string& text : classes) result.classes.push_back(parse_class(text));
      for (std::size_t i = 0; i < classes.size(); ++i) carrier_of(result.classes, i);
      refuse_equal_names(result.classes);
    });
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "bwos-load: %s\n", error.what());
    std::exit(2);
  }
  return result;
}

}  // namespace bwos::load

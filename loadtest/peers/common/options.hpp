// SPDX-License-Identifier: Apache-2.0
// Flags of the peers, and what every peer does before it serves.
#pragma once

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace bwos::peer {

struct options {
  std::string address = "127.0.0.1";  // numeric, IPv4 or IPv6, as inet_ntop writes it
  std::uint16_t port = 0;             // 0: the kernel chooses
  int threads = 1;
  int pin = -1;  // first CPU; thread i goes to pin + i. -1: not pinned
  bool date = false;
};

enum class speaks { http, grpc };

[[noreturn]] inline void usage(const char* program, speaks what) {
  const bool http = what == speaks::http;
  std::fprintf(
      stderr,
      "usage: %s [--address 127.0.0.1] [--port 0..65535] [--threads 1..1024] [--pin 0..1023]%s\n"
      "  serves %s there until SIGTERM\n",
      program, http ? " [--date]" : "",
      http ? "GET /plaintext, GET /work?us=N and POST /echo"
           : "helloworld.Greeter/SayHello and bwos.Work/Burn over gRPC");
  std::exit(2);
}

// As inet_ntop writes it; empty where it is no numeric address.
inline std::string numeric_address(const char* text) {
  std::array<char, sizeof(in6_addr)> bytes;
  std::array<char, INET6_ADDRSTRLEN> written;
  for (const int family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, text, bytes.data()) == 1) {
      return ::inet_ntop(family, bytes.data(), written.data(), written.size());
    }
  }
  return {};
}

inline options parse_options(int argc, char** argv, speaks what = speaks::http) {
  options result;
  const auto wrong = [&](int index, const std::string& must_be) {
    std::fprintf(stderr, "%s '%s': it must be %s\n", argv[index - 1],
                 index < argc ? argv[index] : "", must_be.c_str());
    usage(argv[0], what);
  };
  const auto number = [&](int index, int least, int most) {
    const std::string_view text = index < argc ? argv[index] : "";
    int value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
    if (!whole || value < least || value > most) {
      wrong(index, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--date" && what == speaks::http) {
      result.date = true;
    } else if (flag == "--address") {
      result.address = numeric_address(++i < argc ? argv[i] : "");
      if (result.address.empty()) wrong(i, "a numeric IPv4 or IPv6 address");
    } else if (flag == "--port") {
      result.port = static_cast<std::uint16_t>(number(++i, 0, 65535));
    } else if (flag == "--threads") {
      result.threads = number(++i, 1, 1024);
    } else if (flag == "--pin") {
      result.pin = number(++i, 0, CPU_SETSIZE - 1);
    } else {
      std::fprintf(stderr, "unknown flag '%s'\n", argv[i]);
      usage(argv[0], what);
    }
  }
  return result;
}

// To the CPUs `first` and the `count` - 1 behind it; threads started from here inherit that.
inline void pin_to(int first, int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i) CPU_SET(static_cast<std::size_t>(first + i), &set);
  if (const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set); error != 0) {
    std::fprintf(stderr, "cannot pin to CPU %d: error %d\n", first, error);
    std::exit(1);
  }
}

inline void pin_this_thread(const options& with, int index) {
  if (with.pin >= 0) pin_to(with.pin + index, 1);
}

// 10,000 connections do not fit into the usual soft limit of 1,024.
inline void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

inline bool is_ipv6(const options& with) {
  return with.address.find(':') != std::string::npos;
}

// `127.0.0.1:80` or `[::1]:80`.
inline std::string endpoint(const options& with) {
  const std::string host = is_ipv6(with) ? "[" + with.address + "]" : with.address;
  return host + ":" + std::to_string(with.port);
}

[[noreturn]] inline void cannot_listen(const options& with, const char* why) {
  std::fprintf(stderr, "cannot listen on %s: %s\n", endpoint(with).c_str(), why);
  std::exit(1);
}

// With the port that was chosen.
inline void print_ready(const options& with, speaks what = speaks::http) {
  std::printf("listening %s=%s\n", what == speaks::http ? "http" : "grpc", endpoint(with).c_str());
  std::fflush(stdout);
}

}  // namespace bwos::peer

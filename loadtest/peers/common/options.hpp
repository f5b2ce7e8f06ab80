// SPDX-License-Identifier: Apache-2.0
// Flags of the peers, and what every peer does before it serves.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bwos::peer {

struct options {
  std::uint16_t port = 0;  // 0: the kernel chooses
  int threads = 1;
  int pin = -1;  // first CPU; thread i goes to pin + i. -1: not pinned
  bool date = false;
};

enum class speaks { http, grpc };

[[noreturn]] inline void usage(const char* program, speaks what) {
  const bool http = what == speaks::http;
  std::fprintf(stderr,
               "usage: %s [--port 0..65535] [--threads 1..1024] [--pin 0..1023]%s\n"
               "  serves %s on 127.0.0.1 until SIGTERM\n",
               program, http ? " [--date]" : "",
               http ? "GET /plaintext, GET /work?us=N and POST /echo"
                    : "helloworld.Greeter/SayHello and bwos.Work/Burn over gRPC");
  std::exit(2);
}

inline options parse_options(int argc, char** argv, speaks what = speaks::http) {
  options result;
  const auto number = [&](int index, int least, int most) {
    const std::string_view text = index < argc ? argv[index] : "";
    int value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = end.ec == std::errc{} && end.ptr == text.data() + text.size();
    if (!whole || value < least || value > most) usage(argv[0], what);
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--date" && what == speaks::http) {
      result.date = true;
    } else if (flag == "--port") {
      result.port = static_cast<std::uint16_t>(number(++i, 0, 65535));
    } else if (flag == "--threads") {
      result.threads = number(++i, 1, 1024);
    } else if (flag == "--pin") {
      result.pin = number(++i, 0, CPU_SETSIZE - 1);
    } else {
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

inline void print_ready(unsigned port, speaks what = speaks::http) {
  std::printf("listening %s=127.0.0.1:%u\n", what == speaks::http ? "http" : "grpc", port);
  std::fflush(stdout);
}

}  // namespace bwos::peer

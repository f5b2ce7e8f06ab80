// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrivals.hpp"

namespace bwos::load {

enum class protocol_kind { http1, h2, grpc };

// Requests of one kind, reported apart, on connections of their own or on another class's.
struct request_class {
  std::string name;
  protocol_kind protocol = protocol_kind::http1;
  unsigned connections = 1;
  std::string over;  // the name of the class whose connections it shares; empty: its own
  std::string path = "/plaintext";
  double rate = 1000;    // requests per second, all connections together; 0: a closed loop
  unsigned burst = 1;    // requests that are due at once and leave in one write
  unsigned streams = 0;  // the most in flight on a connection; 0: what the peer allows
  std::uint32_t window_bytes = 1 << 20;  // what the peer may send on a stream unacknowledged
  std::int64_t post_bytes = -1;          // >= 0: POST a body of that length
  std::int64_t length_bytes = -1;        // >= 0: every answer's body must have that length
  std::string message;                   // gRPC: what is sent, without its prefix
  std::optional<std::string> reply;      // gRPC: what every answer must be, without its prefix
};

struct options {
  sockaddr_in target{};
  std::vector<request_class> classes;
  arrival_kind arrivals = arrival_kind::poisson;
  double duration_s = 10;
  double warmup_s = 1;
  double drain_s = 2;  // how long late answers are waited for after the last request
  unsigned threads = 1;
  std::uint64_t seed = 1;
  bool spin = false;  // never sleep for answers: nobody pays for waking us
  int realtime = 0;   // SCHED_FIFO priority; 0: none
  std::string json;   // a file, "-" for standard output, empty for the table
};

// `name=fast,connections=58,path=/plaintext,rate=26000`; throws std::invalid_argument.
request_class parse_class(const std::string& text);

// `127.0.0.1:8080`; throws std::invalid_argument.
sockaddr_in parse_target(const std::string& text);

// The class whose connections the class of that index uses: itself, or the one that `over` names.
// Throws std::invalid_argument where there is none of that name that it can share.
std::size_t carrier_of(const std::vector<request_class>& classes, std::size_t index);

// Reads the command line. A bad one prints why and ends the program with 2.
options parse_command_line(int argc, char** argv);

}  // namespace bwos::load

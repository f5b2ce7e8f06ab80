// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arrivals.hpp"

namespace bwos::load {

// Requests of one kind, on connections of their own, reported apart.
struct request_class {
  std::string name;
  unsigned connections = 1;
  std::string path = "/plaintext";
  double rate = 1000;              // requests per second, all connections of the class together
  unsigned burst = 1;              // requests that are due at once and leave in one write
  std::int64_t post_bytes = -1;    // >= 0: POST a body of that length
  std::int64_t length_bytes = -1;  // >= 0: every answer's body must have that length
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
  int realtime = 0;  // SCHED_FIFO priority; 0: none
  std::string json;  // a file, "-" for standard output, empty for the table
};

// `name=fast,connections=58,path=/plaintext,rate=26000`; throws std::invalid_argument.
request_class parse_class(const std::string& text);

// `127.0.0.1:8080`; throws std::invalid_argument.
sockaddr_in parse_target(const std::string& text);

// Reads the command line. A bad one prints why and ends the program with 2.
options parse_command_line(int argc, char** argv);

}  // namespace bwos::load

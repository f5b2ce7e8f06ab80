// SPDX-License-Identifier: Apache-2.0
// Question: what does a request's head cost to read and to check, in ns a request?
// Expected: llhttp's own time (60 to 75 ns for the short one below) and little beside it. Refuted
// by a short request above 100 ns, or a head of a browser's size that costs more than 1 ns a byte.
#include <benchmark/benchmark.h>

#include <string>
#include <string_view>

#include "http/h1/parser.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace {

using bwos::server::http_limits;
using bwos::server::h1::parser;

const std::string by_wrk = "GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const std::string by_a_browser =
    "GET /plaintext HTTP/1.1\r\nHost: www.example.org:8080\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"
    "Connection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n"
    "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nSec-Fetch-User: ?1\r\nPriority: u=0, i\r\n"
    "\r\n";

/// 16 requests that came together.
void pipelined(benchmark::State& state, const std::string& one) {
  std::string input;
  for (int i = 0; i < 16; ++i) input += one;
  const http_limits limits;
  parser reading(limits, bwos::server::test::unlimited_account());
  for (auto _ : state) {
    std::string_view rest = input;
    while (!rest.empty()) {
      const auto [what, consumed] = reading.feed(rest);
      if (what != parser::outcome::request) return state.SkipWithError("no request");
      benchmark::DoNotOptimize(reading.current().path.data());
      rest.remove_prefix(consumed);
      reading.release();
    }
  }
  state.SetItemsProcessed(state.iterations() * 16);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(input.size()));
}
BENCHMARK_CAPTURE(pipelined, short_get, by_wrk);
BENCHMARK_CAPTURE(pipelined, browser_get, by_a_browser);

}  // namespace

BENCHMARK_MAIN();

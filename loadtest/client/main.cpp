// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>

#include "generator.hpp"
#include "options.hpp"
#include "report.hpp"

namespace {

// Returns the new limit.
rlim_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// Connecting takes seconds, at whose end `socket` would fail. Returns whether they suffice.
bool descriptors_suffice(const bwos::load::options& with) {
  constexpr rlim_t spare = 16;  // guessed: the standard ones, --json, what we inherited
  rlim_t connections = 0;
  for (const bwos::load::request_class& each : with.classes) {
    if (each.over.empty()) connections += each.connections;
  }
  const rlim_t needed = connections + with.threads + spare;  // a thread has an epoll set
  const rlim_t limit = raise_descriptor_limit();
  if (needed <= limit) return true;
  std::fprintf(stderr,
               "bwos-load: --class connections=%llu in all: %llu descriptors are needed, the limit "
               "is %llu: raise the hard one (ulimit -Hn)\n",
               static_cast<unsigned long long>(connections),
               static_cast<unsigned long long>(needed), static_cast<unsigned long long>(limit));
  return false;
}

void complain(const std::string& about, int error) {
  std::fprintf(stderr, "bwos-load: %s: %s\n", about.c_str(), ::strerror(error));
}

// A file is closed: a disk may refuse as late as that.
bool write_to(std::FILE* file, const std::string& name, const std::string& text) {
  errno = 0;
  const bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && good) return true;
  complain(name, errno);
  return false;
}

bool write_result(const bwos::load::options& with, const bwos::load::outcome& result,
                  std::FILE* json) {
  const bool good = json == stdout || write_to(stdout, "standard output", as_table(with, result));
  if (json == nullptr) return good;
  const std::string name = json == stdout ? "standard output" : "--json " + with.json;
  // Of a regular file; others have nothing to cut.
  if (json != stdout && ::ftruncate(::fileno(json), 0) != 0 && errno != EINVAL) {
    complain(name, errno);
    return false;
  }
  return write_to(json, name, as_json(with, result)) && good;
}

}  // namespace

int main(int argc, char** argv) {
  const bwos::load::options with = bwos::load::parse_command_line(argc, argv);
  if (!descriptors_suffice(with)) return 2;
  std::FILE* json = with.json == "-" ? stdout : nullptr;
  if (json == nullptr && !with.json.empty()) {
    // Before the run, as its result would be lost; what is in the file stays until there is
    // another.
    json = std::fopen(with.json.c_str(), "ae");
    if (json == nullptr) {
      complain("--json " + with.json, errno);
      return 2;
    }
  }
  try {
    const bwos::load::outcome result = bwos::load::run(with);
    const bool written = write_result(with, result, json);
    return written && result.failures() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bwos-load: %s\n", error.what());
    return 1;
  }
}

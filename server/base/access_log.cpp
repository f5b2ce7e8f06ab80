// SPDX-License-Identifier: Apache-2.0
#include "base/access_log.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/start_error.hpp"

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

/// Lines wait so long for others, which share a write(2) with them. A guess: at 100,000 a second a
/// buffer of 1 MiB, which is taken when it is half full, does not fill up meanwhile.
constexpr std::chrono::milliseconds batch_time{20};
/// How often a file that takes nothing is asked again, and how often when the log ends.
constexpr std::chrono::milliseconds full_pause{100};
constexpr int last_tries = 5;

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // [access_log.id] relaxed: only has to be unique. Partner: none (a number).
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

template <class Number>
void append_number(std::string& to, Number value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  to.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

void append_padded(std::string& to, int value, std::size_t digits) {
  std::array<char, 9> text;
  for (std::size_t i = digits; i-- > 0; value /= 10) text[i] = static_cast<char>('0' + value % 10);
  to.append(text.data(), digits);
}

/// As the inside of a JSON string.
void append_escaped(std::string& to, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      to.append({'\\', c});
    } else if (byte < 0x20 || byte > 0x7e) {
      to.append("\\u00").append({hex[byte / 16], hex[byte % 16]});
    } else {
      to.push_back(c);
    }
  }
}

void append_time(std::string& to, std::timespec when) {
  std::tm utc{};
  gmtime_r(&when.tv_sec, &utc);
  append_padded(to, utc.tm_year + 1900, 4);
  append_padded(to.append("-"), utc.tm_mon + 1, 2);
  append_padded(to.append("-"), utc.tm_mday, 2);
  append_padded(to.append("T"), utc.tm_hour, 2);
  append_padded(to.append(":"), utc.tm_min, 2);
  append_padded(to.append(":"), utc.tm_sec, 2);
  append_padded(to.append("."), static_cast<int>(when.tv_nsec / 1000), 6);
  to.append("Z");
}

/// "127.0.0.1:1234" or "[::1]:1234" of a connected socket.
std::string_view peer_of(int socket, std::string& text) {
  text.clear();
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return text;
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (peer.ss_family == AF_INET) {
    const auto& of = reinterpret_cast<const sockaddr_in&>(peer);
    ::inet_ntop(AF_INET, &of.sin_addr, host.data(), host.size());
    append_number(text.append(host.data()).append(":"), ntohs(of.sin_port));
  } else if (peer.ss_family == AF_INET6) {
    const auto& of = reinterpret_cast<const sockaddr_in6&>(peer);
    ::inet_ntop(AF_INET6, &of.sin6_addr, host.data(), host.size());
    append_number(text.append("[").append(host.data()).append("]:"), ntohs(of.sin6_port));
  }
  return text;
}

/// Not to wait for whoever reads a FIFO, neither here nor in write(2).
int open_file(const std::string& path) noexcept {
  constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  return path == "-" ? STDOUT_FILENO : ::open(path.c_str(), flags, 0640);
}

/// Whether the last line of a file has no end: a disk was full, or the power went.
bool ends_in_a_cut_line(const std::string& path, off_t size) noexcept {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;  // to be written, not to be read
  char last = '\n';
  const bool cut = ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
  ::close(fd);
  return cut;
}

std::uint64_t lines_in(std::string_view text) noexcept {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

void write_access_line(std::string& to, const access_entry& what, std::string_view peer,
                       std::timespec when) {
  append_time(to.append(R"({"time":")"), when);
  append_escaped(to.append(R"(","peer":")"), peer);
  append_escaped(to.append(R"(","protocol":")"), what.protocol);
  append_escaped(to.append(R"(","method":")"), what.method);
  append_escaped(to.append(R"(","path":")"), what.path.substr(0, access_path_max));
  if (what.path.size() > access_path_max) to.append("...");
  append_number(to.append(R"(","status":)"), what.status);
  append_number(to.append(R"(,"bytes":)"), what.bytes);
  append_number(to.append(R"(,"duration_us":)"), what.duration.count());
  to.append("}\n");
}

/// A thread's.
struct access_log::buffer {
  const std::thread::id owner = std::this_thread::get_id();
  unsigned passed = 0;  // the owner's: answers since the last line
  std::string line;     // likewise
  std::string peer;     // likewise
  std::mutex lock;      // of those below
  std::string lines;
  std::uint64_t dropped = 0;
};

access_log::access_log(const access_log_options& how)
    : id_(next_id()), how_(how), file_(open_file(how.file)) {
  if (file_ < 0) {
    throw start_error("--access-log " + how_.file + ": " + std::generic_category().message(errno) +
                      "; must be a file that can be written, - for stdout, or '' for none");
  }
  look_at_file();
  rest_.reserve(8 * access_path_max);  // more than any line: nothing is allocated when one is cut
  writer_ = std::thread([this] { run(); });
}

access_log::~access_log() {
  {
    const std::lock_guard guard(lock_);
    stop_ = true;
  }
  woken_.notify_one();
  writer_.join();
  if (file_ != STDOUT_FILENO) ::close(file_);
}

access_log::buffer& access_log::here() {
  struct cached {
    std::uint64_t log_id = 0;
    buffer* where = nullptr;
  };
  thread_local cached cache;
  if (cache.log_id != id_) [[unlikely]]
    cache = {id_, &find_or_add()};
  return *cache.where;
}

access_log::buffer& access_log::find_or_add() {
  const std::lock_guard guard(lock_);
  for (const auto& one : buffers_) {
    if (one->owner == std::this_thread::get_id()) return *one;
  }
  return *buffers_.emplace_back(std::make_unique<buffer>());
}

void access_log::note(const access_entry& what) noexcept {
  try {
    buffer& mine = here();
    if (mine.passed++ % how_.sample != 0) return;
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    mine.line.clear();
    write_access_line(mine.line, what, peer_of(what.socket, mine.peer), now);
    bool was_empty = false;
    bool is_half = false;
    {
      const std::lock_guard guard(mine.lock);
      if (mine.lines.size() + mine.line.size() > how_.buffer_bytes_max) {
        ++mine.dropped;
        return;
      }
      was_empty = mine.lines.empty();
      const std::size_t half = how_.buffer_bytes_max / 2;
      is_half = mine.lines.size() < half && mine.lines.size() + mine.line.size() >= half;
      mine.lines.append(mine.line);
    }
    if (was_empty || is_half) wake(is_half);
  } catch (const std::bad_alloc&) {
    const std::lock_guard guard(lock_);
    ++dropped_;
  }
}

void access_log::reopen() noexcept {
  {
    const std::lock_guard guard(lock_);
    reopen_ = true;
  }
  woken_.notify_one();
}

void access_log::write_out(std::chrono::milliseconds patience) noexcept {
  std::unique_lock guard(lock_);
  stop_ = true;
  woken_.notify_all();
  woken_.wait_for(guard, patience, [this] { return has_ended_; });
}

access_log_counts access_log::counts() const {
  const std::lock_guard guard(lock_);
  access_log_counts sum{.written = written_, .dropped = dropped_};
  for (const auto& each : buffers_) {
    const std::lock_guard of_buffer(each->lock);
    sum.dropped += each->dropped;
  }
  return sum;
}

void access_log::wake(bool at_once) noexcept {
  {
    const std::lock_guard guard(lock_);
    has_lines_ = true;
    at_once_ = at_once_ || at_once;
  }
  woken_.notify_one();
}

// The writer.

void access_log::run() {
  std::unique_lock guard(lock_);
  for (bool ends = false; !ends;) {  // when told to
    woken_.wait(guard, [this] { return has_lines_ || reopen_ || stop_; });
    // Whoever comes while it waits shares the write, and who comes later wakes it anew.
    woken_.wait_for(guard, batch_time, [this] { return at_once_ || reopen_ || stop_; });
    has_lines_ = at_once_ = false;
    ends = stop_;
    const bool anew = std::exchange(reopen_, false);
    guard.unlock();
    collect();
    if (anew) open_again();
    guard.lock();
  }
  has_ended_ = true;
  woken_.notify_all();
}

void access_log::look_at_file() noexcept {
  struct stat kind{};
  is_regular_ = ::fstat(file_, &kind) == 0 && S_ISREG(kind.st_mode);
  is_cut_ = is_regular_ && file_ != STDOUT_FILENO && kind.st_size > 0 &&
            ends_in_a_cut_line(how_.file, kind.st_size);
}

/// A buffer's lines at a time: `taken_` and its string take turns.
void access_log::collect() {
  for (std::size_t i = 0;; ++i) {  // ends: at the last thread's
    buffer* each = nullptr;
    {
      const std::lock_guard guard(lock_);
      if (i == buffers_.size()) return;
      each = buffers_[i].get();  // it stays
    }
    taken_.clear();
    {
      const std::lock_guard guard(each->lock);
      taken_.swap(each->lines);
    }
    put(taken_);
  }
}

void access_log::put(std::string_view lines) {
  std::uint64_t whole = 0;
  std::uint64_t lost = 0;
  if (lines.empty() && rest_.empty()) return;
  if (is_cut_) is_cut_ = write_some("\n") == 0;
  if (!rest_.empty()) {
    rest_.erase(0, write_some(rest_));
    whole = rest_.empty() ? 1 : 0;
  }
  if (is_cut_ || !rest_.empty()) {
    lost = lines_in(lines);
  } else {
    const std::size_t taken = write_some(lines);
    const std::string_view left = lines.substr(taken);
    whole += lines_in(lines.substr(0, taken));
    lost = lines_in(left);
    if (taken > 0 && !left.empty() && lines[taken - 1] != '\n') {
      rest_ = left.substr(0, left.find('\n') + 1);  // so that no line is cut in the end
      --lost;
    }
  }
  const std::lock_guard guard(lock_);
  written_ += whole;
  dropped_ += lost;
}

/// As much as the file takes.
std::size_t access_log::write_some(std::string_view text) {
  const std::size_t piece_max = is_regular_ ? std::size_t{1} << 20 : PIPE_BUF;
  std::size_t written = 0;
  while (written < text.size()) {  // ends: nobody reads, and it is hurried
    pollfd room{.fd = file_, .events = POLLOUT, .revents = 0};
    const bool was_stuck = tries_ >= last_tries;
    const bool has_room =
        ::poll(&room, 1, was_stuck ? 0 : static_cast<int>(full_pause.count())) == 1;
    const std::size_t piece = std::min(text.size() - written, piece_max);
    const ssize_t taken = has_room ? ::write(file_, text.data() + written, piece) : 0;
    if (!has_room || (taken < 0 && (errno == EINTR || errno == EAGAIN))) {
      if (was_stuck) break;
      if (has_room) std::this_thread::sleep_for(1ms);  // not so much, then
      if (is_hurried() && ++tries_ >= last_tries) log_error("nobody reads it");
      continue;
    }
    if (taken <= 0) {
      log_error(std::generic_category().message(errno));
      break;
    }
    tries_ = 0;
    written += static_cast<std::size_t>(taken);
  }
  return written;
}

/// The log ends, or another file is wanted.
bool access_log::is_hurried() const {
  const std::lock_guard guard(lock_);
  return stop_ || reopen_;
}

void access_log::open_again() {
  if (file_ == STDOUT_FILENO) return;
  const int opened = open_file(how_.file);
  if (opened < 0) {
    return spdlog::warn("--access-log {}: {}; the file that was open goes on", how_.file,
                        std::generic_category().message(errno));
  }
  ::close(file_);
  file_ = opened;
  look_at_file();
  has_failed_ = false;
  tries_ = 0;
  if (rest_.empty()) return;
  rest_.clear();  // its beginning lies in the other file
  const std::lock_guard guard(lock_);
  ++dropped_;
}

/// Once for each file: the count of those dropped says the rest.
void access_log::log_error(const std::string& what) {
  if (std::exchange(has_failed_, true)) return;
  spdlog::warn("--access-log {}: {}; lines that it does not take are dropped and counted",
               how_.file, what);
}

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
// A line of JSON for each answer, or one of so many. Threads that answer only append to a buffer of
// their own; a thread of the log's writes to the file, so that a slow or full disk stands in
// nobody's way: what a buffer has no room for, or the file does not take, is dropped and counted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace bwos::server {

/// What is said of an answer. Views: for as long as the call that is given them takes.
struct access_entry {
  int socket = -1;  ///< Whose peer it is; one that has gone leaves "peer" empty.
  std::string_view protocol{};
  std::string_view method{};  ///< Empty, as the path, where no request could be read.
  std::string_view path{};
  unsigned status = 0;      ///< HTTP's; of protocol "gRPC" the code of its status.
  std::uint64_t bytes = 0;  ///< Of the answer's body.
  std::chrono::microseconds duration{0};
};

/// Appends {"time":"2001-09-09T01:46:40.000042Z","peer":...} and a line feed. All of it is ASCII:
/// a byte of the texts that is not printable is written as \u00XX, whatever its encoding, and a
/// path's are at most access_path_max.
void write_access_line(std::string& to, const access_entry& what, std::string_view peer,
                       std::timespec when);

/// Longer paths end in "..." behind so many bytes. A guess: beyond lies no path of ours.
inline constexpr std::size_t access_path_max = 1024;

struct access_log_options {
  std::string file{};                      ///< "-": stdout.
  unsigned sample = 1;                     ///< One of so many of each thread's answers.
  std::size_t buffer_bytes_max = 1 << 20;  ///< Of each thread, what waits for the writer.
};

struct access_log_counts {
  std::uint64_t written = 0;  ///< Lines.
  std::uint64_t dropped = 0;
};

class access_log {
 public:
  /// Opens the file, to append to it, and starts the writer. Throws start_error.
  explicit access_log(const access_log_options& how);
  access_log(const access_log&) = delete;
  access_log& operator=(const access_log&) = delete;
  /// Writes what there is; a pipe that nobody reads is not waited for for long. Once nobody calls
  /// note() any more.
  ~access_log();

  /// Any thread.
  void note(const access_entry& what) noexcept;
  /// Any thread: what is noted from now on goes to a file of that name, though the present one has
  /// been renamed. Nothing is lost; where it cannot be opened the present one goes on.
  void reopen() noexcept;
  /// Any thread, where the process ends without the destructor: what has been noted is written,
  /// which is waited for until `patience` is over. Nothing is written afterwards.
  void write_out(std::chrono::milliseconds patience) noexcept;
  /// Any thread.
  [[nodiscard]] access_log_counts counts() const;

 private:
  struct buffer;

  /// The calling thread's. Not inlined, so that no compiler keeps it across a suspension.
  [[gnu::noinline]] buffer& here();
  buffer& find_or_add();
  void wake(bool at_once) noexcept;
  void run();
  void open_again();
  void look_at_file() noexcept;
  void collect();
  void put(std::string_view lines);
  std::size_t write_some(std::string_view text);
  [[nodiscard]] bool is_hurried() const;
  void log_error(const std::string& what);

  const std::uint64_t id_;  // tells a thread that its cached buffer is of another log
  const access_log_options how_;
  mutable std::mutex lock_;  // of all down to dropped_
  std::condition_variable woken_;
  std::vector<std::unique_ptr<buffer>> buffers_;
  bool has_lines_ = false;
  bool at_once_ = false;  // the writer does not wait for more
  bool reopen_ = false;
  bool stop_ = false;
  bool has_ended_ = false;  // the writer
  std::uint64_t written_ = 0;
  std::uint64_t dropped_ = 0;

  // The writer's.
  int file_ = -1;
  bool is_regular_ = false;
  bool is_cut_ = false;  // a line that is not finished any more ends the file
  std::string taken_;
  std::string rest_;  // of a line whose beginning has been written
  int tries_ = 0;     // in vain, since it is hurried
  bool has_failed_ = false;

  std::thread writer_;
};

}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
#include "base/access_log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/start_error.hpp"

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

std::string line_of(const access_entry& what, std::string_view peer = "[::1]:5") {
  std::string line;
  write_access_line(line, what, peer, {.tv_sec = 1'000'000'000, .tv_nsec = 42'999});
  return line;
}

TEST(access_line, has_all_of_the_answer) {
  EXPECT_EQ(line_of({.protocol = "HTTP/1.1",
                     .method = "GET",
                     .path = "/plaintext",
                     .status = 200,
                     .bytes = 13,
                     .duration = 7us}),
            R"({"time":"2001-09-09T01:46:40.000042Z","peer":"[::1]:5","protocol":"HTTP/1.1",)"
            R"("method":"GET","path":"/plaintext","status":200,"bytes":13,"duration_us":7})"
            "\n");
}

TEST(access_line, is_one_line_of_ascii_whatever_the_path) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string line = line_of({.path = all});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  for (const char c : line.substr(0, line.size() - 1)) {
    EXPECT_TRUE(c >= 0x20 && c <= 0x7e) << static_cast<int>(c);
  }
  for (const char* piece : {R"(\u0000\u0001)", R"(\u000a)", R"(!\"#)", R"([\\])", R"(}~\u007f)",
                            R"(\u00e9)", R"(\u00ff","status")"}) {
    EXPECT_NE(line.find(piece), std::string::npos) << piece << " " << line;
  }
}

TEST(access_line, cuts_long_paths) {
  const std::string just(access_path_max, 'a');
  EXPECT_NE(line_of({.path = just}).find('"' + just + '"'), std::string::npos);
  EXPECT_NE(line_of({.path = just + "b"}).find('"' + just + "...\""), std::string::npos);
}

/// A folder of its own, which goes with all that is in it.
class access_log_test : public testing::Test {
 protected:
  access_log_test() {
    std::string name = (std::filesystem::temp_directory_path() / "access_log.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~access_log_test() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name = "log") const { return folder_ / name; }
  static std::vector<std::string> lines_of(const std::string& file) {
    std::ifstream from(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(from, line);) lines.push_back(line);
    return lines;
  }

  std::filesystem::path folder_;
};

TEST_F(access_log_test, ends_with_everything_written) {
  constexpr int each = 5000;
  {
    access_log log({.file = path()});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&log] {
        for (int n = 0; n < each; ++n) log.note({.path = "/a", .status = 200});
      });
    }
    for (std::thread& one : threads) one.join();
  }
  EXPECT_EQ(lines_of(path()).size(), 4U * each);
}

TEST_F(access_log_test, appends_and_lets_others_not_read) {
  std::ofstream(path()) << "before\n";
  {
    access_log({.file = path()}).note({});
  }
  EXPECT_EQ(lines_of(path()).size(), 2U);
  EXPECT_EQ(lines_of(path()).front(), "before");
  {
    const access_log made({.file = path("made")});
  }
  struct stat kind{};
  ASSERT_EQ(::stat(path("made").c_str(), &kind), 0);
  EXPECT_EQ(kind.st_mode & 07U, 0U);
}

TEST_F(access_log_test, samples_one_of_so_many) {
  {
    access_log log({.file = path(), .sample = 10});
    for (int i = 0; i < 95; ++i) log.note({});
  }
  EXPECT_EQ(lines_of(path()).size(), 10U);
}

TEST_F(access_log_test, renamed_while_it_is_written_loses_no_line) {
  constexpr unsigned noted = 20'000;
  {
    access_log log({.file = path()});
    for (unsigned i = 0; i < noted; ++i) {
      log.note({.status = i});
      if (i % 4000 != 3999) continue;
      std::filesystem::rename(path(), path() + std::to_string(i));
      log.reopen();
      while (!std::filesystem::exists(path())) std::this_thread::sleep_for(1ms);
    }
    const access_log_counts now = log.counts();
    EXPECT_EQ(now.dropped, 0U);
  }
  std::vector<std::string> all;
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    ++files;
    for (std::string& line : lines_of(file.path())) all.push_back(std::move(line));
  }
  EXPECT_EQ(files, 6U);
  EXPECT_EQ(all.size(), noted);
  for (std::string& line : all) line = line.substr(line.find("\"status\""));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST_F(access_log_test, what_cannot_be_opened_anew_goes_on_as_it_is) {
  const std::string other = path("moved");
  {
    access_log log({.file = path()});
    std::filesystem::rename(path(), other);
    std::filesystem::create_directory(path());
    log.reopen();
    std::this_thread::sleep_for(100ms);
    log.note({});
  }
  EXPECT_EQ(lines_of(other).size(), 1U);
}

TEST_F(access_log_test, a_full_disk_drops_lines_and_counts_them) {
  access_log log({.file = "/dev/full"});
  for (int i = 0; i < 1000; ++i) log.note({});
  for (int i = 0; i < 5000 && log.counts().dropped < 1000; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(log.counts().dropped, 1000U);
  EXPECT_EQ(log.counts().written, 0U);
}

/// The file's limit of size stands for the disk's: the last write before it is cut off.
TEST_F(access_log_test, a_line_that_the_disk_has_cut_is_finished_once_there_is_room) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  constexpr std::uint64_t noted = 200;
  access_log_counts full;
  {
    access_log log({.file = path()});
    const rlimit small{.rlim_cur = 5000, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto settled = [&log, &full](std::uint64_t lines) {
      for (int i = 0; i < 5000; ++i) {
        full = log.counts();
        if (full.written + full.dropped >= lines) return;
        std::this_thread::sleep_for(1ms);
      }
    };
    for (std::uint64_t i = 0; i < noted; ++i) log.note({.path = "/a"});
    settled(noted - 1);
    EXPECT_GT(full.written, 10U);
    EXPECT_EQ(full.written + full.dropped, noted - 1);  // one of which is half written
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    log.note({.path = "/last"});
    settled(noted + 1);
  }
  EXPECT_EQ(full.written + full.dropped, noted + 1);
  const std::vector<std::string> lines = lines_of(path());
  EXPECT_EQ(lines.size(), full.written);
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("{\"time\"") && line.ends_with("}")) << line;
  }
  EXPECT_NE(lines.back().find("/last"), std::string::npos);
}

TEST_F(access_log_test, behind_a_line_that_was_cut_for_ever_the_next_begins_a_new_one) {
  std::ofstream(path()) << R"({"time":"2001-)";
  access_log_counts counted;
  {
    access_log log({.file = path()});
    log.note({.path = "/a"});
    log.reopen();
    log.note({.path = "/b"});
    for (int i = 0; i < 5000 && log.counts().written < 2; ++i) std::this_thread::sleep_for(1ms);
    counted = log.counts();
  }
  EXPECT_EQ(counted.written, 2U);
  EXPECT_EQ(counted.dropped, 0U);
  const std::vector<std::string> lines = lines_of(path());
  ASSERT_EQ(lines.size(), 3U);
  for (const std::size_t i : {1U, 2U}) EXPECT_TRUE(lines[i].starts_with("{\"time\"")) << lines[i];
}

TEST_F(access_log_test, a_full_disk_with_a_cut_line_is_told_to_open_it_anew) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  access_log_counts counted;
  {
    access_log log({.file = path()});
    const rlimit small{.rlim_cur = 5000, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto settled = [&log, &counted](std::uint64_t lines) {
      for (int i = 0; i < 5000; ++i) {
        counted = log.counts();
        if (counted.written + counted.dropped >= lines) return;
        std::this_thread::sleep_for(1ms);
      }
    };
    for (int i = 0; i < 100; ++i) log.note({});
    settled(99);
    log.reopen();
    settled(100);  // the one that was cut is lost with that
    log.note({});
    settled(101);
    EXPECT_EQ(counted.written + counted.dropped, 101U);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    log.note({.path = "/last"});
    settled(102);
  }
  EXPECT_EQ(counted.written + counted.dropped, 102U);
  const std::vector<std::string> lines = lines_of(path());
  EXPECT_EQ(lines.size(), counted.written + 1);
  EXPECT_TRUE(lines.back().starts_with("{\"time\"") && lines.back().ends_with("}"));
  EXPECT_NE(lines.back().find("/last"), std::string::npos);
}

TEST_F(access_log_test, a_pipe_that_nobody_reads_holds_up_nobody) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  constexpr std::uint64_t noted = 10'000;
  const auto begun = std::chrono::steady_clock::now();
  {
    access_log log({.file = path(), .buffer_bytes_max = 64 << 10});
    for (std::uint64_t i = 0; i < noted; ++i) log.note({});
    const access_log_counts now = log.counts();
    EXPECT_GT(now.dropped, 0U);
    EXPECT_LT(now.dropped, noted);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s);
  ::close(reader);
}

TEST_F(access_log_test, what_cannot_be_opened_is_named) {
  try {
    const access_log none({.file = path("no/where")});
    FAIL();
  } catch (const start_error& error) {
    EXPECT_EQ(std::string(error.what()), "--access-log " + path("no/where") +
                                             ": No such file or directory; must be a file that "
                                             "can be written, - for stdout, or '' for none");
  }
}

}  // namespace
}  // namespace bwos::server

// SPDX-License-Identifier: Apache-2.0
// Question: how do the queues of a pool change, and how often is there a steal, by how much one
// takes? A thread of this program looks at the pool's statistics every 20 us, which the pool keeps
// anyway: nobody pays for it while it does not look. The load are tasks of a microsecond, of which
// each posts up to two, so that queues grow and shrink by chance, up to 256 tasks in all.
//
//   usage: queue_sizes_bench <policy> <choice> <amount> <workers> [FILE.csv]
//
// It prints a line of JSON: how many of all looks at one queue have found it longer, shorter, or as
// long as at the last one, steals for each 1,000 tasks, and the tasks that one took. FILE.csv gets
// a row for each look: microseconds, worker, tasks to steal, steals, tasks stolen.
#include <array>
#include <atomic>
#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "named_bench.hpp"
#include "steal_names.hpp"

namespace bwos::bench {
namespace {

using steady = std::chrono::steady_clock;

void work_for_a_microsecond() {
  const auto until = steady::now() + std::chrono::microseconds(1);
  while (steady::now() < until) continue;
}

/// Numbered tasks: each posts some of those that nobody has posted.
class family {
 public:
  family(pool& on, std::size_t tasks) : pool_(on) {
    for (std::size_t i = 0; i < tasks; ++i) tasks_.emplace_back(*this, i);
  }
  void start() { post(alive_max / 2); }
  [[nodiscard]] std::size_t size() const { return tasks_.size(); }

 private:
  struct task : continuation {
    task(family& its, std::uint64_t number) : continuation(&run), of(its), random(number + 1) {}
    family& of;
    random_source random;
  };
  static constexpr unsigned alive_max = 256;

  static void run(continuation& self, continuation::disposition how) noexcept {
    auto& mine = static_cast<task&>(self);
    if (how != continuation::disposition::run) return;
    work_for_a_microsecond();
    family& all = mine.of;
    const unsigned others = all.alive_.fetch_sub(1, std::memory_order_relaxed) - 1;
    const unsigned drawn = mine.random.below(3);
    all.post(others == 0 ? alive_max / 2 : others < alive_max ? drawn : 0);
  }
  void post(unsigned count) noexcept {
    alive_.fetch_add(count, std::memory_order_relaxed);
    for (; count != 0; --count) {
      const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= tasks_.size()) break;
      pool_.post(tasks_[next]);
    }
    alive_.fetch_sub(count, std::memory_order_relaxed);  // of whom there are no more
  }

  pool& pool_;
  std::deque<task> tasks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<unsigned> alive_{0};  // posted, and not at an end
};

/// What a look at one worker has seen.
struct look {
  double us;
  unsigned worker;
  std::uint64_t stealable;
  std::uint64_t steals;
  std::uint64_t stolen;
};

/// Looks at all workers' queues, on a thread of its own, as long as this lives.
class sampler {
 public:
  explicit sampler(const pool& of) : pool_(of), thread_([this] { run(); }) {}
  ~sampler() { end(); }
  sampler(const sampler&) = delete;
  sampler& operator=(const sampler&) = delete;

  /// All that has been seen; no more is.
  const std::vector<look>& end() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
    return seen_;
  }
  /// Seconds of CPU that the looks have taken. After end().
  [[nodiscard]] double cpu_s() const { return cpu_s_; }

 private:
  void run() {
    const auto began = steady::now();
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const pool_statistics now = pool_.statistics();
      const std::chrono::duration<double, std::micro> at = steady::now() - began;
      for (unsigned i = 0; i < now.workers.size(); ++i) {
        const worker_statistics& of = now.workers[i];
        seen_.push_back(
            {at.count(), i, now.stealable[i], of.steal_hit + of.steal_sighted, of.steal_entries});
      }
    }
    cpu_s_ = seconds(CLOCK_THREAD_CPUTIME_ID);
  }

  const pool& pool_;
  std::atomic<bool> ends_{false};
  std::vector<look> seen_;
  double cpu_s_ = 0;
  std::thread thread_;
};

/// Of the changes between a look and the next one at the same worker.
struct changes {
  std::size_t longer = 0;
  std::size_t shorter = 0;
  std::size_t same = 0;
};
changes changes_in(const std::vector<look>& seen, unsigned workers) {
  changes result;
  for (std::size_t i = workers; i < seen.size(); ++i) {
    const std::uint64_t before = seen[i - workers].stealable;
    ++(seen[i].stealable > before   ? result.longer
       : seen[i].stealable < before ? result.shorter
                                    : result.same);
  }
  return result;
}

bool write(const std::vector<look>& seen, const char* path) {
  std::FILE* const to = std::fopen(path, "w");
  if (to == nullptr) return false;
  std::fputs("us,worker,stealable,steals,stolen\n", to);
  for (const look& each : seen) {
    std::fprintf(to, "%.1f,%u,%llu,%llu,%llu\n", each.us, each.worker,
                 static_cast<unsigned long long>(each.stealable),
                 static_cast<unsigned long long>(each.steals),
                 static_cast<unsigned long long>(each.stolen));
  }
  return std::fclose(to) == 0;
}

int measure(const options& settings, const char* path) {
  pool on(settings);
  family work(on, is_quick() ? 2'000 : 400'000);
  sampler looks(on);
  const double cpu = cpu_seconds();
  const auto began = steady::now();
  work.start();
  on.join();
  const std::chrono::duration<double, std::nano> took = steady::now() - began;
  const double with_looks_s = cpu_seconds() - cpu;
  const std::vector<look>& seen = looks.end();
  const double cpu_ns = std::max(0.0, with_looks_s - looks.cpu_s()) * 1e9;
  if (path != nullptr && !write(seen, path)) {
    std::fprintf(stderr, "cannot write %s\n", path);
    return 1;
  }
  const changes of = changes_in(seen, settings.workers);
  const auto all = static_cast<double>(std::max<std::size_t>(of.longer + of.shorter + of.same, 1));
  double steals = 0;
  double stolen = 0;
  for (const worker_statistics& each : on.statistics().workers) {
    steals += static_cast<double>(each.steal_hit + each.steal_sighted);
    stolen += static_cast<double>(each.steal_entries);
  }
  const auto tasks = static_cast<double>(work.size());
  std::printf(
      "{\"op_ns\": %.3f, \"op_cpu_ns\": %.3f, \"longer_percent\": %.2f, "
      "\"shorter_percent\": %.2f, \"same_percent\": %.2f, \"steals_per_1000\": %.3f, "
      "\"stolen_per_steal\": %.2f}\n",
      took.count() / tasks, cpu_ns / tasks, 100 * static_cast<double>(of.longer) / all,
      100 * static_cast<double>(of.shorter) / all, 100 * static_cast<double>(of.same) / all,
      1000 * steals / tasks, steals == 0 ? 0 : stolen / steals);
  return 0;
}

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos;
  if (count != 5 && count != 6) {
    std::fprintf(stderr, "usage: %s <policy> <choice> <amount> <workers> [FILE.csv]\n",
                 arguments[0]);
    return 2;
  }
  try {
    options settings;
    settings.steal = bench::way_named<steal_kind>(arguments[1]);
    settings.steal_blocks = bench::way_named<steal_choice>(arguments[2]);
    settings.steal_takes = bench::way_named<steal_amount>(arguments[3]);
    settings.workers = static_cast<unsigned>(std::strtoul(arguments[4], nullptr, 10));
    return bench::measure(settings, count == 6 ? arguments[5] : nullptr);
  } catch (const std::exception& why) {
    std::fprintf(stderr, "%s: %s\n", arguments[0], why.what());
    return 2;
  }
}

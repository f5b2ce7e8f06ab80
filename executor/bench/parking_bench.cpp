// SPDX-License-Identifier: Apache-2.0
// Question: what does a post into an idle pool cost, in CPU of the whole process and in the time
// until its poster has the answer, with 2, 64 and 256 workers?
// Expected: the same CPU whatever the number of workers, as one sleeper is woken, finds the task,
// sees that there is no more and sleeps again. Refuted where the ratio to the pool of 2 is not
// within 20 % of 1: then whoever is woken looks through others, or wakes them.
//
// Each post is awaited by its poster, which blocks on a condition variable, and the next comes a
// millisecond later, when all workers sleep again. CPU is getrusage(RUSAGE_SELF), less what as many
// naps of a millisecond cost without a pool; that of the workers alone is shown apart. The sides
// take turns in rounds, so that a machine that changes its speed changes it for all of them; a
// ratio is the median of the rounds' ratios, with a 95 % bootstrap interval of that.
//
//   parking_bench [--reactor none|epoll] [--rounds 10] [--posts 2000] [--quick]
//
// none: workers sleep on futexes; epoll: in epoll sets of 8 workers each.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using steady = std::chrono::steady_clock;
using microseconds = std::chrono::duration<double, std::micro>;

constexpr std::array<unsigned, 3> sides{2, 64, 256};  // the first is what the others are held to
constexpr std::chrono::milliseconds pause{1};
constexpr double tolerance = 0.20;
constexpr double slack = 0.03;  // of the interval's ends, for a target that is just met

struct plan {
  bwos::reactor_kind reactor = bwos::reactor_kind::none;
  unsigned rounds = 10;
  unsigned posts = 2000;
};

struct figures {  // microseconds
  double cpu = 0;
  double workers_cpu = 0;  ///< All of it but the poster's.
  double median = 0;
  double p99 = 0;
  double idle_share = 0;  ///< Of the posts that were looked at: all workers slept.
};

double cpu_us(int who) {
  rusage used{};
  ::getrusage(who, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

/// `share` of the values are at most this; they are sorted.
double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

/// A task that tells the thread which waits for it.
class question : bwos::continuation {
 public:
  question() noexcept : continuation(&run) {}

  /// Posts it and waits until it has run; how long that took.
  double ask(bwos::pool& where) {
    const auto start = steady::now();
    where.post(*this);
    {
      std::unique_lock guard(lock_);
      changed_.wait(guard, [this] { return answered_; });
      answered_ = false;
    }
    return microseconds(steady::now() - start).count();
  }

 private:
  static void run(continuation& self, disposition) noexcept {
    auto& mine = static_cast<question&>(self);
    const std::lock_guard guard(mine.lock_);
    mine.answered_ = true;
    mine.changed_.notify_one();
  }
  std::mutex lock_;
  std::condition_variable changed_;
  bool answered_ = false;
};

/// CPU of a millisecond's sleep.
double measure_nap(const plan& how) {
  const double before = cpu_us(RUSAGE_SELF);
  for (unsigned i = 0; i < how.posts; ++i) std::this_thread::sleep_for(pause);
  return (cpu_us(RUSAGE_SELF) - before) / how.posts;
}

/// One side's turn of a round.
figures measure(const plan& how, unsigned workers, double nap_cpu) {
  bwos::options settings;
  settings.workers = workers;
  settings.reactor = how.reactor;
  bwos::pool where(settings);
  question work;
  const unsigned warm_up = std::min(how.posts, 100U);
  for (unsigned i = 0; i < warm_up; ++i) {
    std::this_thread::sleep_for(pause);
    work.ask(where);
  }
  std::vector<double> round_trips(how.posts);
  unsigned looks = 0;
  unsigned found_idle = 0;
  const double before = cpu_us(RUSAGE_SELF);
  const double poster_before = cpu_us(RUSAGE_THREAD);
  for (unsigned i = 0; i < how.posts; ++i) {
    std::this_thread::sleep_for(pause);
    if (i % 100 == 0) {  // now and then: with many workers a look costs microseconds
      ++looks;
      if (where.statistics().parked == workers) ++found_idle;
    }
    round_trips[i] = work.ask(where);
  }
  const auto posts = static_cast<double>(how.posts);
  figures result;
  const double all = cpu_us(RUSAGE_SELF) - before;
  result.cpu = all / posts - nap_cpu;
  result.workers_cpu = (all - (cpu_us(RUSAGE_THREAD) - poster_before)) / posts;
  std::sort(round_trips.begin(), round_trips.end());
  result.median = quantile(round_trips, 0.5);
  result.p99 = quantile(round_trips, 0.99);
  result.idle_share = static_cast<double>(found_idle) / looks;
  return result;
}

using side_rounds = std::array<std::vector<figures>, sides.size()>;

/// `value` of each of a side's rounds.
std::vector<double> column(const std::vector<figures>& rounds, double figures::* value) {
  std::vector<double> result;
  for (const figures& each : rounds) result.push_back(each.*value);
  return result;
}

struct ratio {
  double median;
  double low;
  double high;
};

/// Of the rounds' ratios to the first side's.
ratio ratio_of(const side_rounds& all, std::size_t side, double figures::* value) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < all[side].size(); ++i) {
    ratios.push_back(all[side][i].*value / (all[0][i].*value));
  }
  constexpr int draws = 4000;
  std::mt19937 random(1);  // NOLINT: the same interval of the same figures
  std::uniform_int_distribution<std::size_t> any(0, ratios.size() - 1);
  std::vector<double> medians;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<double> drawn;
    for (std::size_t i = 0; i < ratios.size(); ++i) drawn.push_back(ratios[any(random)]);
    medians.push_back(median_of(std::move(drawn)));
  }
  std::sort(medians.begin(), medians.end());
  return {.median = median_of(ratios),
          .low = quantile(medians, 0.025),
          .high = quantile(medians, 0.975)};
}

const char* verdict(const ratio& cpu) {
  if (cpu.low > 1 + tolerance || cpu.high < 1 - tolerance) return "MISSED";
  if (cpu.low >= 1 - tolerance - slack && cpu.high <= 1 + tolerance + slack) return "met";
  return "undecided";
}

void report(const plan& how, const side_rounds& all) {
  std::printf("a post into an idle pool, reactor %s; %u rounds of %u posts a side, us a post\n",
              how.reactor == bwos::reactor_kind::none ? "none" : "epoll", how.rounds, how.posts);
  std::printf("%7s %9s %9s %11s %9s %6s   %-26s %s\n", "workers", "CPU", "workers'", "round trip",
              "p99", "idle", "CPU to 2 workers' (95 %)", "same +- 20 %");
  for (std::size_t side = 0; side < sides.size(); ++side) {
    const auto middle = [&](double figures::* value) {
      return median_of(column(all[side], value));
    };
    std::printf("%7u %9.1f %9.1f %11.1f %9.1f %5.0f%%", sides[side], middle(&figures::cpu),
                middle(&figures::workers_cpu), middle(&figures::median), middle(&figures::p99),
                100 * middle(&figures::idle_share));
    if (side != 0) {
      const ratio cpu = ratio_of(all, side, &figures::cpu);
      std::printf("   %5.2f (%5.2f to %5.2f)      %s", cpu.median, cpu.low, cpu.high, verdict(cpu));
    }
    std::printf("\n");
  }
  for (std::size_t side = 1; side < sides.size(); ++side) {
    const ratio workers = ratio_of(all, side, &figures::workers_cpu);
    const ratio time = ratio_of(all, side, &figures::median);
    const ratio tail = ratio_of(all, side, &figures::p99);
    std::printf("%7u workers to 2: workers' CPU %.2f (%.2f to %.2f), ", sides[side], workers.median,
                workers.low, workers.high);
    std::printf("round trip %.2f (%.2f to %.2f), p99 %.2f (%.2f to %.2f)\n", time.median, time.low,
                time.high, tail.median, tail.low, tail.high);
  }
}

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--reactor none|epoll] [--rounds N] [--posts N] [--quick]\n",
               program);
  std::exit(2);
}

unsigned number(const char* text, const char* program) {
  const int value = std::atoi(text);  // NOLINT: what is no number is 0
  if (value < 1) usage(program);
  return static_cast<unsigned>(value);
}

plan parse(int argc, char** argv) {
  plan how;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--quick") {  // few posts, to see that it works
      how.rounds = 2;
      how.posts = 20;
      continue;
    }
    if (++i == argc) usage(argv[0]);
    const std::string_view value = argv[i];
    if (name == "--rounds") {
      how.rounds = number(argv[i], argv[0]);
    } else if (name == "--posts") {
      how.posts = number(argv[i], argv[0]);
    } else if (name == "--reactor" && value == "none") {
      how.reactor = bwos::reactor_kind::none;
    } else if (name == "--reactor" && value == "epoll") {
      how.reactor = bwos::reactor_kind::epoll;
    } else {
      usage(argv[0]);
    }
  }
  return how;
}

}  // namespace

int main(int argc, char** argv) {
  const plan how = parse(argc, argv);
  side_rounds all;
  for (unsigned round = 0; round < how.rounds; ++round) {
    const double nap_cpu = measure_nap(how);
    for (std::size_t turn = 0; turn < sides.size(); ++turn) {
      const std::size_t side = (turn + round) % sides.size();  // none is always the first
      all[side].push_back(measure(how, sides[side], nap_cpu));
    }
  }
  report(how, all);
  return 0;
}

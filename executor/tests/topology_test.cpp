// SPDX-License-Identifier: Apache-2.0
#include "steal/topology.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "seed.hpp"
#include "steal/victims.hpp"

namespace bwos::test {
namespace {

namespace fs = std::filesystem;
using list = std::vector<unsigned>;

/// A folder as sysfs shows it, of a machine of topology/<name>.txt, or one that a test writes.
class tree {
 public:
  tree() {
    std::string name = fs::temp_directory_path() / "bwos-topology-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    root_ = name;
  }
  explicit tree(const std::string& name) : tree() {
    std::ifstream recorded(std::string(BWOS_RECORDED_TOPOLOGY) + "/" + name + ".txt");
    std::string line;
    while (std::getline(recorded, line)) replay(line);
    if (cpus.empty()) throw std::runtime_error("nothing is recorded of " + name);
  }
  ~tree() { fs::remove_all(root_); }
  tree(const tree&) = delete;
  tree& operator=(const tree&) = delete;

  [[nodiscard]] std::string root() const { return root_; }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  void remove(const fs::path& file) const { fs::remove_all(root_ / file); }
  [[nodiscard]] topology read() const { return topology::read(root()); }

  // The recorded lists as sets, for a test that compares by itself.
  std::set<unsigned> cpus;
  std::vector<list> cores, caches, nodes;

 private:
  void replay(const std::string& line) {
    std::istringstream words(line);
    std::string kind, number, text;
    words >> kind;
    if (kind == "#") return;
    if (kind != "core") words >> number;
    words >> text;
    const list members = parse_cpu_list(text);
    if (kind == "core") {
      cores.push_back(members);
      for (const unsigned cpu : members) {
        cpus.insert(cpu);
        write_of(cpu, "topology/thread_siblings_list", text);
        write_cache(cpu, 0, "1", "Data", text);
        write_cache(cpu, 1, "1", "Instruction", text);
        write_cache(cpu, 2, "2", "Unified", text);
      }
    } else if (kind == "cache") {
      caches.push_back(members);
      for (const unsigned cpu : members) write_cache(cpu, 3, number, "Unified", text);
    } else {
      nodes.push_back(members);
      write("node/node" + number + "/cpulist", text);
    }
  }
  void write_of(unsigned cpu, const std::string& file, const std::string& text) const {
    write("cpu/cpu" + std::to_string(cpu) + "/" + file, text);
  }
  void write_cache(unsigned cpu, unsigned index, const std::string& level, const std::string& type,
                   const std::string& text) const {
    const std::string folder = "cache/index" + std::to_string(index) + "/";
    write_of(cpu, folder + "level", level);
    write_of(cpu, folder + "type", type);
    write_of(cpu, folder + "shared_cpu_list", text);
  }

  fs::path root_;
};

bool share(const std::vector<list>& groups, unsigned one, unsigned other) {
  return std::any_of(groups.begin(), groups.end(), [&](const list& group) {
    return std::count(group.begin(), group.end(), one) != 0 &&
           std::count(group.begin(), group.end(), other) != 0;
  });
}

class recorded_machine : public testing::TestWithParam<const char*> {};

TEST_P(recorded_machine, every_two_cpus_are_as_near_as_the_lists_say) {
  const tree machine(GetParam());
  const topology read = machine.read();
  std::array<unsigned, proximity_kinds> seen{};
  for (const unsigned one : machine.cpus) {
    for (const unsigned other : machine.cpus) {
      const proximity expected = share(machine.cores, one, other)    ? proximity::core
                                 : share(machine.caches, one, other) ? proximity::cache
                                 : share(machine.nodes, one, other)  ? proximity::node
                                                                     : proximity::machine;
      ASSERT_EQ(read.between(one, other), expected) << one << " and " << other;
      ++seen[static_cast<unsigned>(expected)];
    }
  }
  EXPECT_NE(seen[0], 0U);
  EXPECT_NE(seen[1], 0U);
  EXPECT_NE(seen[3], 0U);
}

TEST_P(recorded_machine, is_read_once) {
  const tree machine(GetParam());
  const topology read = machine.read();
  machine.remove("cpu");
  machine.remove("node");
  EXPECT_EQ(read.between(0, 1), proximity::cache);
}

INSTANTIATE_TEST_SUITE_P(, recorded_machine, testing::Values("xeon_silver_4108_x2", "epyc_7451_x2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(topology, of_two_sockets_with_smt) {
  const topology read = tree("xeon_silver_4108_x2").read();
  EXPECT_EQ(read.between(3, 19), proximity::core);
  EXPECT_EQ(read.between(3, 3), proximity::core);
  EXPECT_EQ(read.between(3, 4), proximity::cache);
  EXPECT_EQ(read.between(3, 23), proximity::cache);
  EXPECT_EQ(read.between(3, 8), proximity::machine);
  EXPECT_EQ(read.between(3, 31), proximity::machine);
}

TEST(topology, of_several_caches_in_a_node) {
  const topology read = tree("epyc_7451_x2").read();
  EXPECT_EQ(read.between(0, 48), proximity::core);
  EXPECT_EQ(read.between(0, 2), proximity::cache);
  EXPECT_EQ(read.between(0, 3), proximity::node);
  EXPECT_EQ(read.between(0, 53), proximity::node);
  EXPECT_EQ(read.between(0, 6), proximity::machine) << "the same socket, another node";
  EXPECT_EQ(read.between(0, 24), proximity::machine);
}

TEST(topology, without_sysfs_all_are_alike) {
  const tree nothing;
  for (const topology& read : {nothing.read(), topology::read(nothing.root() + "/none"),
                               topology::read("/dev/null"), topology()}) {
    EXPECT_EQ(read.between(0, 1), proximity::machine);
    EXPECT_EQ(read.between(0, ~0U), proximity::machine);
    EXPECT_EQ(read.between(~0U, ~0U), proximity::machine);
  }
}

TEST(topology, what_is_missing_takes_only_its_own_kind_away) {
  const tree machine("epyc_7451_x2");
  machine.remove("node");
  EXPECT_EQ(machine.read().between(0, 2), proximity::cache);
  EXPECT_EQ(machine.read().between(0, 3), proximity::machine);
  for (const unsigned cpu : {0U, 1U, 2U, 48U, 49U, 50U}) {  // a complex
    machine.remove("cpu/cpu" + std::to_string(cpu) + "/cache");
  }
  EXPECT_EQ(machine.read().between(0, 48), proximity::core);
  EXPECT_EQ(machine.read().between(0, 2), proximity::machine);
  EXPECT_EQ(machine.read().between(3, 5), proximity::cache);
  machine.remove("cpu/cpu0/topology");
  EXPECT_EQ(machine.read().between(0, 48), proximity::core) << "48 names 0";
  machine.remove("cpu/cpu48/topology");
  EXPECT_EQ(machine.read().between(0, 48), proximity::machine);
}

TEST(topology, an_offline_cpu_is_far_from_all) {
  const tree machine("xeon_silver_4108_x2");
  machine.remove("cpu/cpu5");  // as the kernel has it: no files of its, and no list names it
  machine.write("cpu/cpu21/topology/thread_siblings_list", "21");
  machine.write("node/node0/cpulist", "0-4,6-7,16-23");
  for (unsigned cpu = 0; cpu < 24; ++cpu) {
    if (cpu == 5 || (cpu >= 8 && cpu < 16)) continue;
    machine.write("cpu/cpu" + std::to_string(cpu) + "/cache/index3/shared_cpu_list",
                  "0-4,6-7,16-23");
  }
  const topology read = machine.read();
  for (unsigned cpu = 0; cpu < 32; ++cpu) {
    if (cpu == 5) continue;
    EXPECT_EQ(read.between(5, cpu), proximity::machine) << cpu;
  }
  EXPECT_EQ(read.between(21, 4), proximity::cache);
}

TEST(topology, rubbish_is_left_out) {
  for (const char* text : {"", "x", "0-", "-1", "1-0", "0,,1", "0-1,", "0;1", "0-99999999", "8192",
                           "99999999999999999999", "0-1 2", "0x1"}) {
    EXPECT_TRUE(parse_cpu_list(text).empty()) << text;
    const tree machine("xeon_silver_4108_x2");
    machine.write("cpu/cpu0/topology/thread_siblings_list", text);
    machine.write("cpu/cpu16/topology/thread_siblings_list", text);
    machine.write("cpu/cpu0/cache/index3/level", "L3");
    machine.write("cpu/cpu0/cache/index2/level", text);
    machine.write("node/node0/cpulist", text);
    machine.write("cpu/cpux/topology/thread_siblings_list", "0-31");
    machine.write("cpu/cpu99999/topology/thread_siblings_list", "0-31");
    const topology read = machine.read();
    EXPECT_EQ(read.between(1, 17), proximity::core) << text;
    EXPECT_EQ(read.between(8, 9), proximity::cache) << text;
  }
}

TEST(topology, a_list_that_does_not_name_its_cpu_is_not_its) {
  const tree machine("xeon_silver_4108_x2");
  machine.write("cpu/cpu0/topology/thread_siblings_list", "1-9");
  EXPECT_EQ(machine.read().between(1, 17), proximity::core);
  EXPECT_EQ(machine.read().between(1, 2), proximity::cache);
}

TEST(topology, the_last_level_counts_whatever_its_index_is_and_no_instruction_cache) {
  const tree machine;
  for (const char* cpu : {"cpu/cpu0/", "cpu/cpu1/", "cpu/cpu2/"}) {
    const std::string folder = cpu;
    machine.write(folder + "cache/index0/level", "3");
    machine.write(folder + "cache/index0/type", "Unified");
    machine.write(folder + "cache/index0/shared_cpu_list", folder == "cpu/cpu2/" ? "2" : "0-1");
    machine.write(folder + "cache/index7/level", "2");
    machine.write(folder + "cache/index7/type", "Unified");
    machine.write(folder + "cache/index7/shared_cpu_list", "0-2");
    machine.write(folder + "cache/index9/level", "4");
    machine.write(folder + "cache/index9/type", "Instruction");
    machine.write(folder + "cache/index9/shared_cpu_list", "0-2");
  }
  EXPECT_EQ(machine.read().between(0, 1), proximity::cache);
  EXPECT_EQ(machine.read().between(0, 2), proximity::machine);
}

TEST(topology, lists_of_the_kernel_are_understood) {
  EXPECT_EQ(parse_cpu_list("0"), (list{0}));
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11"), (list{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("8191"), (list{8191}));
}

TEST(topology, this_machine_can_be_read) {
  const topology here = topology::read();
  const unsigned cpu = current_cpu();
  EXPECT_EQ(here.between(cpu, cpu), proximity::core);
}

/// The order in which a worker on each CPU of a machine goes through the others.
std::vector<unsigned> order_of(nearest_first& tested, unsigned self, unsigned workers,
                               random_source& random) {
  const auto is_parked = [](unsigned) { return false; };
  const auto thief_of = [](unsigned) { return 0; };
  tested.begin(
      other_workers<decltype(is_parked), decltype(thief_of)>{self, workers, is_parked, thief_of},
      random);
  std::vector<unsigned> named;
  for (unsigned next = tested.next(); next != nobody; next = tested.next()) named.push_back(next);
  return named;
}

TEST_P(recorded_machine, victims_come_nearest_first_and_by_chance_within_a_kind) {
  const tree machine(GetParam());
  const auto workers = static_cast<unsigned>(machine.cpus.size());
  worker_places places(machine.read(), workers);
  std::vector<unsigned> cpu_of(machine.cpus.begin(), machine.cpus.end());
  std::reverse(cpu_of.begin(), cpu_of.end());  // so that a worker's index is not its CPU
  for (unsigned i = 0; i < workers; ++i) places.put(i, cpu_of[i]);
  random_source random(seed());
  for (const unsigned self : {0U, 5U, workers - 1}) {
    nearest_first tested(places, workers);
    std::map<proximity, std::set<unsigned>> first_of;
    std::map<proximity, std::set<unsigned>> all_of;
    for (int attempt = 0; attempt < 3000; ++attempt) {
      const std::vector<unsigned> named = order_of(tested, self, workers, random);
      ASSERT_EQ(std::set<unsigned>(named.begin(), named.end()).size(), workers - 1);
      ASSERT_EQ(named.size(), workers - 1);
      proximity last = proximity::core;
      bool any = false;
      for (const unsigned other : named) {
        const proximity here = places.between(self, other);
        ASSERT_GE(here, last) << "further ones come later";
        if (!any || here != last) first_of[here].insert(other);
        all_of[here].insert(other);
        last = here;
        any = true;
      }
    }
    EXPECT_EQ(first_of, all_of);
    EXPECT_EQ(all_of[proximity::core].size(), 1U) << "the SMT sibling";
  }
}

TEST(nearest_first, where_nothing_is_known_is_random) {
  const worker_places places(topology(), 6);
  nearest_first tested(places, 6);
  random_source random(seed());
  std::map<unsigned, unsigned> first;
  for (int i = 0; i < 10'000; ++i) ++first[order_of(tested, 3, 6, random).at(0)];
  EXPECT_EQ(first.size(), 5U);
  for (const auto& [worker, times] : first) EXPECT_NEAR(times, 2000, 300) << worker;
}

TEST(worker_places, are_unknown_until_they_are_put) {
  worker_places places(tree("xeon_silver_4108_x2").read(), 3);
  EXPECT_EQ(places.workers_max(), 3U);
  EXPECT_EQ(places.between(0, 1), proximity::machine);
  places.put(0, 3);
  places.put(1, 19);
  places.put(2, 4);
  EXPECT_EQ(places.between(0, 1), proximity::core);
  EXPECT_EQ(places.between(0, 2), proximity::cache);
}

}  // namespace
}  // namespace bwos::test

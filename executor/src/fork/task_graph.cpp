// SPDX-License-Identifier: Apache-2.0
#include <bwos/sync_wait.hpp>
#include <bwos/task_graph.hpp>
#include <string>
#include <unordered_map>

namespace bwos {

task_graph::node task_graph::add(std::function<void()> work) {
  nodes_.emplace_back(std::move(work));
  return static_cast<node>(nodes_.size() - 1);
}

task_graph::entry& task_graph::at(node which) {
  const auto index = static_cast<std::size_t>(which);
  if (index < nodes_.size()) return nodes_[index];
  throw std::out_of_range("bwos::task_graph: there is no node " + std::to_string(index) +
                          ", there are " + std::to_string(nodes_.size()));
}

void task_graph::precede(node earlier, node later) {
  entry& after = at(later);
  at(earlier).successors.push_back(&after);
  ++after.predecessors;
}

/// Kahn, CACM 5(11), 1962: takes away what has no predecessors left, until nothing is to be taken.
bool task_graph::has_cycle() const {
  std::unordered_map<const entry*, std::size_t> missing;
  std::vector<const entry*> free;
  for (const entry& each : nodes_) {
    missing[&each] = each.predecessors;
    if (each.predecessors == 0) free.push_back(&each);
  }
  std::size_t taken = 0;
  while (!free.empty()) {
    const entry& next = *free.back();
    free.pop_back();
    ++taken;
    for (const entry* const after : next.successors) {
      if (--missing[after] == 0) free.push_back(after);
    }
  }
  return taken != nodes_.size();
}

/// Runs it and goes on with the first of those whose last predecessor it was; the others are
/// forked.
void task_graph::start(entry& which, task_group& group) {
  group.run([&which, &group] {
    for (entry* now = &which; now != nullptr;) {
      now->work();
      entry* next = nullptr;
      for (entry* const after : now->successors) {
        // [graph.arrive] acq_rel: hands on what this one has done; the last to arrive takes over
        // all of it for the successor. Partner: [graph.arrive].
        if (after->missing.fetch_sub(1, acq_rel) != 1) continue;
        if (next == nullptr) {
          next = after;
        } else {
          start(*after, group);
        }
      }
      now = next;
    }
  });
}

void task_graph::run(pool& where) {
  if (has_cycle()) {
    throw std::invalid_argument("bwos::task_graph::run: a task precedes itself");
  }
  for (entry& each : nodes_) {
    // [graph.reset] relaxed: nothing runs yet. Partner: none (one thread).
    each.missing.store(each.predecessors, relaxed);
  }
  // On a worker, so that they are forked, and not posted one by one.
  sync_wait(where, [&] {
    task_group group(where);
    for (entry& each : nodes_) {
      if (each.predecessors == 0) start(each, group);
    }
    group.wait();
  });
}

}  // namespace bwos

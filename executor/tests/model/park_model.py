#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at every state that the parking protocol can reach: is work ever left while somebody sleeps who could take it?

The protocol is that of executor/src/scheduler/idle_set.hpp, counted form: workers of a group share one word (parked P,
claimed C, searchers S) and one eventfd in semaphore mode, whose tokens any of them may read. Work lies in the inject
queue and in the workers' own queues, where thieves see only the blocks of a published range
(executor/include/bwos/queue/fifo_queue.hpp, I7). In the model each put into an own queue goes into a new block.

Steps are sequentially consistent, but for one thing: with --look buffered, a worker's stores into its queue may wait in
its store buffer, as they do on x86, until its next read-modify-write.

A state is at rest when nothing can happen in it but what may never happen: a task ends or posts, an outside thread
posts, an event arrives. The model objects to
  stranded  a state at rest in which a worker sleeps though there is work that it could take;
  stuck     a state at rest in which a claim or a search is still counted: posters would count on it for ever;
  counts    a state in which P + C is not the number of workers between announce and leave, or S is not C plus the
            awake searchers;
  outside   an entry that thieves can see lies outside the range that they see (I7). By itself that loses nothing where
            the poster stores the range before its look, so it is reported only where nothing worse is found.
It prints the shortest way there, and exits 1. Options that break the protocol are there to be seen failing.
"""
import argparse
import sys
from collections import deque
from typing import NamedTuple


class Word(NamedTuple):
    """The idle word."""
    parked: int = 0
    claimed: int = 0
    searching: int = 0


class Queue(NamedTuple):
    """A worker's own queue as the others see it. Thieves look at the blocks below range_end."""
    range_end: int = 0
    entries: int = 0  # bit b: block b holds an entry


class Worker(NamedTuple):
    at: str = "run"  # the step it does next
    searching: bool = False  # awake, and counted in S
    token: bool = False  # it has read a token since it woke
    found: int = 0  # entries that its last steal or look at inject gave; 0 also for an event
    owes_look: bool = False  # it was a searcher until it announced itself: posters were excused by it
    posts: int = 0  # that its tasks may still do
    rest: int = 0  # stolen entries that it has not yet put into its own queue
    next_block: int = 0  # where its next put goes
    looker: str = ""  # in a look round all queues: what the look is for
    victim: int = 0  # in such a look: whose queue is next
    range_end: int = 0  # in such a look: the range of that queue, as it was read
    queue: Queue = Queue()
    buffer: tuple = ()  # own stores that the others do not see yet, oldest first


class State(NamedTuple):
    word: Word
    tokens: int  # in the eventfd
    inject: int
    events: int  # that may still come
    workers: tuple
    posters: tuple  # outside threads: (next step, posts left)


# Between announce and leave: counted in P or C.
ANNOUNCED = ("look inject", "read range", "read blocks", "asleep", "read token", "leave")


def lowest(entries, count):
    """The `count` oldest of the entries, as bits, or fewer."""
    taken = 0
    while entries and count:
        taken |= entries & -entries
        entries &= entries - 1
        count -= 1
    return taken


class Model:
    """Yields what can happen next as (whether it may never happen, what, next state)."""

    def __init__(self, options):
        self.o = options
        self.steps = {"run": self.run, "search": self.search, "steal": self.steal,
                      "work in hand": self.end_search, "claim": self.claim, "write token": self.write_token,
                      "task": self.task, "store range": self.store_range, "put": self.put, "look": self.look,
                      "look inject": self.look_inject, "read range": self.read_range,
                      "read blocks": self.read_blocks, "asleep": self.asleep, "read token": self.read_token,
                      "leave": self.leave, "late token": self.late_token}

    def first(self):
        posts = self.o.own_posts + [0] * self.o.workers
        workers = tuple(Worker(at="task" if posts[i] else "run", posts=posts[i]) for i in range(self.o.workers))
        return State(Word(), 0, 0, self.o.events, workers, (("post", self.o.posts),) * self.o.posters)

    def next(self, s):
        for i in range(self.o.posters):
            yield from self.poster(s, i)
        for i, w in enumerate(s.workers):
            if w.buffer:
                yield from self.drain(s, i, w)
            yield from self.steps[w.at](s, i, w)
        if self.o.monitor:
            yield from self.monitor(s)

    @staticmethod
    def with_worker(s, i, worker, **others):
        return s._replace(workers=s.workers[:i] + (worker,) + s.workers[i + 1:], **others)

    # An outside thread: pushes into inject, looks at the idle word, writes a token for the sleeper that it claimed.

    def poster(self, s, i):
        at, left = s.posters[i]

        def to(step, posts, **others):
            return s._replace(posters=s.posters[:i] + ((step, posts),) + s.posters[i + 1:], **others)

        if at == "post" and left:
            yield True, f"poster {i} pushes into inject", to("look", left - 1, inject=s.inject + 1)
        elif at == "look":
            word = self.claimed(s.word)
            if word:
                yield False, f"poster {i} claims a sleeper", to("write", left, word=word)
            else:
                yield False, f"poster {i} sees {s.word}: no claim", to("post", left)
        elif at == "write":
            yield False, f"poster {i} writes a token", to("post", left, tokens=s.tokens + 1)

    @staticmethod
    def claimed(word):
        """The word after a claim; None: nobody sleeps, or somebody searches and excuses the poster (I2)."""
        if word.parked == 0 or word.searching:
            return None
        return Word(word.parked - 1, word.claimed + 1, word.searching + 1)

    # An awake worker looks for work: its own, then inject; then it searches, takes an event, or parks.

    def run(self, s, i, w):
        if w.buffer:
            return  # the get that takes a block is a read-modify-write: the buffer drains first
        if w.queue.entries:
            queue = w.queue._replace(entries=w.queue.entries & ~lowest(w.queue.entries, 1))
            yield False, f"worker {i} gets from its queue", self.with_worker(
                s, i, self.holding(w._replace(queue=queue), 0))
        elif s.inject:
            count = min(s.inject, self.o.batch)
            yield False, f"worker {i} takes {count} from inject", self.with_worker(
                s, i, self.holding(w, count), inject=s.inject - count)
        elif w.searching:
            yield from self.search(s, i, w)
        else:
            if s.word.searching < self.o.searchers_max:
                word = s.word._replace(searching=s.word.searching + 1)
                yield False, f"worker {i} begins to search", self.with_worker(
                    s, i, w._replace(at="search", searching=True), word=word)
            yield from self.event_or_park(s, i, w)

    def search(self, s, i, w):
        """Random victims and blocks: it may miss what is there."""
        for v in range(self.o.workers):
            if v != i:
                yield from self.taken(s, i, w, v)
        yield from self.event_or_park(s, i, w)

    def event_or_park(self, s, i, w):
        if s.events:
            yield True, f"worker {i} polls an event", self.with_worker(
                s, i, self.holding(w, 0), events=s.events - 1)
        at, looker = ("asleep", "") if self.o.last_look == "none" else ("look inject", "park")
        owes = (w.searching or w.owes_look) and self.o.last_look == "owed"
        word = s.word._replace(parked=s.word.parked + 1, searching=s.word.searching - w.searching)
        yield False, f"worker {i} finds nothing, and announces itself", self.with_worker(
            s, i, w._replace(at=at, searching=False, owes_look=owes, looker=looker), word=word)

    def steal(self, s, i, w):
        """From where its last look found something; others may have been faster."""
        found = list(self.taken(s, i, w, w.victim))
        yield from found
        if not found:
            yield False, f"worker {i} comes too late", self.with_worker(s, i, w._replace(at="run", victim=0))

    def taken(self, s, i, w, v):
        victim = s.workers[v]
        batch = lowest(victim.queue.entries & ((1 << victim.queue.range_end) - 1), self.o.batch)
        if batch:
            queue = victim.queue._replace(entries=victim.queue.entries & ~batch)
            robbed = self.with_worker(s, v, victim._replace(queue=queue))
            yield False, f"worker {i} steals {batch.bit_count()} from worker {v}", self.with_worker(
                robbed, i, self.holding(w, batch.bit_count()))

    def holding(self, w, found):
        """With one entry in hand; the rest of what a steal or inject gave goes into its own queue first."""
        w = w._replace(found=found, rest=max(found - 1, 0), victim=0)
        return w._replace(at=self.first_step_of_put()) if w.rest else self.in_hand(w)

    @staticmethod
    def in_hand(w):
        ends_search = w.searching or w.owes_look or w.found > 1
        return w._replace(at="work in hand") if ends_search else w._replace(at="task", found=0)

    # It has work in hand: it ends its search, looks again if it was the last searcher, and begins the task.

    def end_search(self, s, i, w):
        if w.buffer:
            return  # end_search is a read-modify-write
        word = s.word._replace(searching=s.word.searching - w.searching)
        last = (w.searching or w.owes_look) and word.searching == 0
        more = w.found > 1
        at = "task"
        if more and (last or not w.searching):
            at = "claim"
        elif last:
            # Where it does not look always, it looks at the queues only if it found exactly one entry.
            at = "read range" if self.o.end_search == "look_always" or w.found == 1 else "look inject"
        looker = "end" if at in ("read range", "look inject") else ""
        then = w._replace(at=at, searching=False, owes_look=False, found=0, looker=looker)
        what = f"worker {i} {'ends its search' if w.searching else 'has work'}, must look: {last}, gave {w.found}"
        yield False, what, self.with_worker(s, i, then, word=word)

    def claim(self, s, i, w):
        word = self.claimed(s.word)
        if word:
            yield False, f"worker {i} claims a sleeper", self.with_worker(s, i, w._replace(at="write token"), word=word)
        else:
            yield False, f"worker {i} sees {s.word}: no claim", self.with_worker(s, i, w._replace(at="task"))

    def write_token(self, s, i, w):
        at = "store range" if self.o.range == "after_look" and self.owes_range(w) else "task"
        yield False, f"worker {i} writes a token", self.with_worker(s, i, w._replace(at=at), tokens=s.tokens + 1)

    # Inside a task, which may be long: it may post into its own queue.

    def task(self, s, i, w):
        if w.posts:
            yield True, f"worker {i} posts", self.with_worker(
                s, i, w._replace(at=self.first_step_of_put(), posts=w.posts - 1))
        yield True, f"worker {i} ends its task", self.with_worker(s, i, w._replace(at="run"))

    # A put into a new block of the own queue, by a post (which then looks at the idle word) or of a batch's rest.

    def first_step_of_put(self):
        return "store range" if self.o.range == "before_put" else "put"

    @staticmethod
    def owes_range(w):
        """Whether it has put into a block that the range, as it has stored it last, does not have."""
        stored = max([w.queue.range_end] + [to for what, to in w.buffer if what == "range"])
        return stored < w.next_block

    def store_range(self, s, i, w):
        end = w.next_block + 1 if self.o.range == "before_put" else w.next_block
        if self.o.range == "before_put":
            w = w._replace(at="put")
        elif self.o.range == "after_look" and not w.rest:
            w = w._replace(at="task")
        else:
            w = self.has_put(w)
        yield from self.stored(s, i, w, ("range", end))

    def put(self, s, i, w):
        block = w.next_block
        w = w._replace(next_block=block + 1)
        late = self.o.range == "after_put" or (self.o.range == "after_look" and w.rest)
        yield from self.stored(s, i, w._replace(at="store range") if late else self.has_put(w), ("put", block))

    def has_put(self, w):
        """Its step after a put: the rest of a batch, the task that it has in hand, or a post's look."""
        if not w.rest:
            return w._replace(at="look")
        w = w._replace(rest=w.rest - 1)
        return w._replace(at=self.first_step_of_put()) if w.rest else self.in_hand(w)

    def stored(self, s, i, w, store):
        what = f"worker {i} stores its range: {store[1]} blocks" if store[0] == "range" else \
            f"worker {i} puts into block {store[1]}"
        if self.o.look == "buffered":
            w = w._replace(buffer=w.buffer + (store,))
        else:
            w = w._replace(queue=self.applied(w.queue, store))
        yield False, what, self.with_worker(s, i, w)

    @staticmethod
    def applied(queue, store):
        what, block = store
        if what == "range":
            return queue._replace(range_end=block)
        return queue._replace(entries=queue.entries | 1 << block)

    def drain(self, s, i, w):
        yield False, f"worker {i}'s oldest store becomes visible", self.with_worker(
            s, i, w._replace(queue=self.applied(w.queue, w.buffer[0]), buffer=w.buffer[1:]))

    def look(self, s, i, w):
        """The poster's look at the idle word: a load, which stores in the buffer do not hold up; a claim does."""
        word = self.claimed(s.word)
        if word:
            if not w.buffer:
                yield False, f"worker {i} claims a sleeper", self.with_worker(
                    s, i, w._replace(at="write token"), word=word)
        else:
            at = "store range" if self.o.range == "after_look" else "task"
            yield False, f"worker {i} sees {s.word}: no claim", self.with_worker(s, i, w._replace(at=at))

    # Parking: announce, look everywhere, sleep, read a token, leave. The look at the queues is also that of a
    # search's end; `looker` says whose.

    def look_inject(self, s, i, w):
        """First of a parking worker's looks, last of a search's end."""
        if w.looker == "park":
            at = "leave" if s.inject else "read range"
        else:
            at = "claim" if s.inject else "task"
        looker = "park" if at == "read range" else ""
        yield False, f"worker {i} sees {s.inject} in inject", self.with_worker(s, i, w._replace(at=at, looker=looker))

    def read_range(self, s, i, w):
        victim = self.other(i, w.victim)
        passed_over = {"all": False, "awake": self.is_announced(s.workers[victim]),
                       "searching": s.workers[victim].at == "task"}
        if passed_over[self.o.look_at]:
            yield from self.read_blocks(s, i, w._replace(victim=victim, range_end=0))
            return
        end = s.workers[victim].queue.range_end
        yield False, f"worker {i} reads worker {victim}'s range: {end} blocks", self.with_worker(
            s, i, w._replace(at="read blocks", victim=victim, range_end=end))

    def read_blocks(self, s, i, w):
        parks = w.looker == "park"
        if s.workers[w.victim].queue.entries & ((1 << w.range_end) - 1):
            w = w._replace(at="leave", looker="steal") if parks else w._replace(at="claim", looker="", victim=0)
            what = "finds an entry"
        elif self.other(i, w.victim + 1) < self.o.workers:
            w = w._replace(at="read range", victim=self.other(i, w.victim + 1))
            what = "finds nothing"
        else:
            w = w._replace(at="asleep", looker="", owes_look=False) if parks else w._replace(at="look inject")
            w = w._replace(victim=0)
            what = "finds nothing, at last"
        yield False, f"worker {i} {what}", self.with_worker(s, i, w._replace(range_end=0))

    @staticmethod
    def is_announced(w):
        return w.at in ANNOUNCED and w.looker != "end"

    @staticmethod
    def other(i, victim):
        return victim + 1 if victim == i else victim

    def asleep(self, s, i, w):
        if s.tokens:  # level-triggered: several may wake for one
            at = "read token" if self.o.token == "before_leave" else "leave"
            yield False, f"worker {i} wakes by a token", self.with_worker(s, i, w._replace(at=at))
        if s.events:
            yield True, f"worker {i} wakes by an event", self.with_worker(
                s, i, w._replace(at="leave", looker="event"), events=s.events - 1)

    def read_token(self, s, i, w):
        got = s.tokens > 0
        yield False, f"worker {i} reads a token: {got}", self.with_worker(
            s, i, w._replace(at="leave", token=got), tokens=s.tokens - got)

    def leave(self, s, i, w):
        claimed = s.word.claimed > 0 if w.token else s.word.parked == 0
        if self.o.leave == "parked_first" and not w.token:
            claimed = False
        word = s.word._replace(claimed=s.word.claimed - 1) if claimed else s.word._replace(parked=s.word.parked - 1)
        left = w._replace(searching=claimed, token=False, looker="")
        if w.looker == "event":
            left = self.holding(left, 0)
        elif w.looker == "steal":
            left = left._replace(at="steal")
        else:
            late = self.o.token == "after_leave" and w.looker == ""
            left = left._replace(at="late token" if late else "run")
        yield False, f"worker {i} leaves, claimed: {claimed}", self.with_worker(s, i, left, word=word)

    def late_token(self, s, i, w):
        yield False, f"worker {i} reads a token late: {s.tokens > 0}", self.with_worker(
            s, i, w._replace(at="run"), tokens=s.tokens - (s.tokens > 0))

    # The monitor: while a worker is inside a task, looks at its queue, through the range, and wakes a sleeper.

    def monitor(self, s):
        word = self.claimed(s.word)
        for i, w in enumerate(s.workers):
            if word and w.at == "task" and w.queue.entries & ((1 << w.queue.range_end) - 1):
                yield False, f"the monitor claims a sleeper for worker {i}'s queue, and writes a token", s._replace(
                    word=word, tokens=s.tokens + 1)
                return


def objection(s, at_rest):
    """What is wrong with a state, or None."""
    announced = sum(Model.is_announced(w) for w in s.workers)
    if min(s.word) < 0 or s.word.parked + s.word.claimed != announced:
        return "counts"
    if s.word.searching != s.word.claimed + sum(w.searching for w in s.workers):
        return "counts"
    if at_rest:
        if s.word.claimed or s.word.searching:
            return "stuck"
        work = s.inject or any(w.queue.entries for w in s.workers)
        if work and any(w.at == "asleep" for w in s.workers):
            return "stranded"
    return "outside" if any(w.queue.entries >> w.queue.range_end for w in s.workers) else None


def way_to(s, came_from):
    way = []
    while came_from[s]:
        s, what = came_from[s]
        way.append(what)
    return way[::-1]


def explore(model):
    """Breadth first. Returns (states seen, what is wrong or None, the way there)."""
    first = model.first()
    came_from = {first: None}
    todo = deque([first])
    outside = None
    while todo:
        s = todo.popleft()
        successors = list(model.next(s))
        wrong = objection(s, all(optional for optional, _, _ in successors))
        if wrong == "outside":
            outside = outside or s
        elif wrong:
            return len(came_from), wrong, way_to(s, came_from)
        for _, what, after in successors:
            if after not in came_from:
                came_from[after] = (s, what)
                todo.append(after)
    return len(came_from), outside and "outside", way_to(outside, came_from) if outside else []


def options(arguments):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workers", type=int, default=3)
    p.add_argument("--searchers-max", type=int, default=1, help="workers that may search of their own accord at once")
    p.add_argument("--posters", type=int, default=0, help="outside threads")
    p.add_argument("--posts", type=int, default=1, help="of each outside thread")
    p.add_argument("--own-posts", type=lambda text: [int(n) for n in text.split(",")], default=[],
                   help="posts by tasks on worker 0, worker 1, ...")
    p.add_argument("--events", type=int, default=0, help="outside events, each one task")
    p.add_argument("--batch", type=int, default=2, help="entries of a steal, or a look at inject, at most")
    p.add_argument("--range", choices=("before_put", "after_put", "after_look", "never"), default="before_put",
                   help="when a new block enters the published range")
    p.add_argument("--look", choices=("ordered", "buffered"), default="ordered",
                   help="whether the posting worker's stores are visible before its look at the idle word")
    p.add_argument("--monitor", action="store_true", help="the monitor looks, too")
    p.add_argument("--end-search", choices=("look_always", "look_if_one"), default="look_always",
                   help="when the last searcher looks again")
    p.add_argument("--last-look", choices=("owed", "forgotten", "none"), default="owed",
                   help="look everywhere before sleeping; a searcher that finds something there owes the look of a "
                        "search's end, or forgets that it was one")
    p.add_argument("--look-at", choices=("all", "awake", "searching"), default="all",
                   help="a look passes over nobody; over those who have announced themselves, as that of the named form "
                        "does unless they are claimed; over those inside a task, who will look at the word")
    p.add_argument("--token", choices=("before_leave", "after_leave"), default="before_leave",
                   help="when a token is read")
    p.add_argument("--leave", choices=("counted", "parked_first"), default="counted",
                   help="what a worker without a token takes back: what is left, or P in any case")
    return p.parse_args(arguments)


def main(arguments):
    chosen = options(arguments)
    states, wrong, way = explore(Model(chosen))
    if not wrong:
        print(f"{states} states: nothing stranded, nothing stuck, counts hold")
        return 0
    print(f"{states} states: {wrong}")
    for number, what in enumerate(way, 1):
        print(f"  {number:3} {what}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

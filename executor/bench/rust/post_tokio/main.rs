// SPDX-License-Identifier: Apache-2.0
//! Tokio as a side of the question `post`: the cases of post_cases.hpp, by the same names, on a
//! multi-thread runtime of two workers.

use std::cell::Cell;
use std::cmp::min;
use std::ops::Range;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

const WORKERS: usize = 2;
const FAN: usize = 64;
const BURST: usize = 1_000;

// Tasks run, counted by each worker without sharing; the count is shared when it parks.
thread_local!(static RAN_HERE: Cell<usize> = const { Cell::new(0) });
static RAN: AtomicUsize = AtomicUsize::new(0);

static ANSWER: Answer = Answer { given_at: Mutex::new(None), changed: Condvar::new() };

// Where the thread outside waits.
struct Answer {
    given_at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Answer {
    fn give(&self) {
        let now = Instant::now();
        let mut given_at = self.given_at.lock().unwrap();
        *given_at = Some(now);
        self.changed.notify_one();
    }

    fn take(&self) -> Instant {
        let given_at = self.given_at.lock().unwrap();
        self.changed.wait_while(given_at, |at| at.is_none()).unwrap().take().unwrap()
    }
}

// Without drivers for sockets and timers, which nothing here needs.
fn runtime(before_park: impl Fn() + Send + Sync + 'static) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .on_thread_park(before_park)
        .build()
        .expect("a runtime")
}

fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn is_quick() -> bool {
    std::env::var_os("BWOS_BENCH_QUICK").is_some()
}

fn repetitions() -> usize {
    if is_quick() { 1 } else { 3 }
}

fn nanoseconds_per(operations: usize, taken: Duration) -> f64 {
    taken.as_nanos() as f64 / operations as f64
}

fn count_here() {
    RAN_HERE.set(RAN_HERE.get() + 1);
}

// What a task posts.
trait Successors: Fn(usize) -> Range<usize> + Copy + Send + Sync + 'static {}
impl<F: Fn(usize) -> Range<usize> + Copy + Send + Sync + 'static> Successors for F {}

fn post(task: usize, successors: impl Successors) {
    tokio::spawn(async move {
        count_here();
        for next in successors(task) {
            post(next, successors);
        }
    });
}

// From the first post until all `count` tasks have run: time, and CPU of all threads. A runtime has
// no way to wait for tasks that nobody joins, and a TaskTracker would burden each of them. So a
// worker that has nothing left looks whether all have run.
fn once(count: usize, into_sleepers: bool, begin: impl FnOnce()) -> (Duration, Duration) {
    let runtime = runtime(move || {
        let ran = RAN_HERE.take();
        if ran > 0 && RAN.fetch_add(ran, SeqCst) + ran >= count {
            ANSWER.give();
        }
    });
    let inside = runtime.enter();
    if into_sleepers {
        std::thread::sleep(Duration::from_millis(5));
    }
    let cpu_before = cpu_time();
    let start = Instant::now();
    begin();
    ANSWER.take();
    let taken = (start.elapsed(), cpu_time() - cpu_before);
    drop(inside);
    drop(runtime);
    assert_eq!(RAN.swap(0, SeqCst), count, "a task was lost or ran twice");
    taken
}

// Prints a line for each repetition, the mean of `iterations` runs of `count` tasks.
fn report(iterations: usize, count: usize, mut run: impl FnMut() -> (Duration, Duration)) {
    for _ in 0..repetitions() {
        let (mut wall, mut cpu) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..iterations {
            let taken = run();
            wall += taken.0;
            cpu += taken.1;
        }
        let all = iterations * count;
        let (op, op_cpu) = (nanoseconds_per(all, wall), nanoseconds_per(all, cpu));
        println!("{{\"op_ns\": {op:.3}, \"op_cpu_ns\": {op_cpu:.3}}}");
    }
}

// The thread outside posts the first task.
fn report_posts(count: usize, successors: impl Successors) {
    report(3, count, || once(count, false, || post(0, successors)));
}

fn fan(tasks: usize) {
    let rounds = tasks / (FAN + 1);
    let ended: &'static [AtomicUsize] =
        (0..rounds).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>().leak();
    let successors = move |task: usize| {
        let (round, leaf) = (task / (FAN + 1), task % (FAN + 1) != 0);
        if !leaf {
            return task + 1..task + 1 + FAN;
        }
        if ended[round].fetch_add(1, SeqCst) + 1 < FAN || round + 1 == rounds {
            return 0..0;
        }
        (round + 1) * (FAN + 1)..(round + 1) * (FAN + 1) + 1
    };
    report(3, rounds * (FAN + 1), || {
        ended.iter().for_each(|each| each.store(0, Relaxed));
        once(rounds * (FAN + 1), false, || post(0, successors))
    });
}

fn burst() {
    let work = |_| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(1) {}
        0..0
    };
    report(20, BURST, || once(BURST, true, || (0..BURST).for_each(|task| post(task, work))));
}

// A post would make a task anew; these two live on, and wake each other.
async fn play(mine: &'static Notify, other: &'static Notify, turns: usize) {
    for _ in 0..turns {
        mine.notified().await;
        count_here();
        other.notify_one();
    }
}

fn ping_pong(tasks: usize) {
    report(3, tasks, || {
        let [ping, pong]: &'static [Notify; 2] = Box::leak(Box::default());
        once(tasks, false, || {
            tokio::spawn(play(ping, pong, tasks / 2));
            tokio::spawn(play(pong, ping, tasks / 2));
            ping.notify_one();
        })
    });
}

// Until the task runs or, `to_and_fro`, until this thread does again.
fn ask_sleepers(to_and_fro: bool) {
    let questions: usize = if is_quick() { 20 } else { 1_000 };
    for _ in 0..repetitions() {
        let runtime = runtime(|| {});
        let mut wall = Duration::ZERO;
        for _ in 0..questions {
            std::thread::sleep(Duration::from_micros(200));
            let start = Instant::now();
            runtime.spawn(async { ANSWER.give() });
            let ran = ANSWER.take();
            wall += if to_and_fro { start.elapsed() } else { ran - start };
        }
        println!("{{\"op_ns\": {:.3}}}", nanoseconds_per(questions, wall));
    }
}

fn main() {
    let tasks: usize = 1 << if is_quick() { 14 } else { 20 };
    let case = std::env::args().nth(1).unwrap_or_default();
    match case.as_str() {
        "tree" => report_posts(tasks, move |task| 2 * task + 1..min(2 * task + 3, tasks)),
        "comb" => report_posts(tasks, move |task| match task % 2 {
            0 => task + 1..min(task + 3, tasks),
            _ => 0..0,
        }),
        "chain" => report_posts(tasks, move |task| task + 1..min(task + 2, tasks)),
        "ping_pong" => ping_pong(tasks),
        "outside" => report(3, tasks, || {
            once(tasks, false, || (0..tasks).for_each(|task| post(task, |_| 0..0)))
        }),
        "fan" => fan(tasks),
        "burst" => burst(),
        "wake" => ask_sleepers(false),
        "round_trip" => ask_sleepers(true),
        _ => {
            eprintln!("there is no case {case:?} here");
            exit(3)
        }
    }
}

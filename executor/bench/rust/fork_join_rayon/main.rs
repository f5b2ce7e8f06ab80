// SPDX-License-Identifier: Apache-2.0
//! Rayon as a side of the fork-join benchmarks: cases of executor/bench/fork_join/cases.hpp, with
//! the arguments and the output of side.cpp. What a leaf does is Rust's own code: in all cases but
//! `fib` and `walk`, the time of one worker tells little about Rayon.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use rayon::prelude::*;

fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn fib_calls(n: u64) -> u64 {
    if n < 2 { 1 } else { 1 + fib_calls(n - 1) + fib_calls(n - 2) }
}

#[derive(Clone, Copy)]
struct Node {
    item: usize,
    room: i64,
    value: i64,
}

struct Item {
    weight: i64,
    value: i64,
}

struct Knapsack {
    items: Vec<Item>,
    best: AtomicI64,
}

impl Knapsack {
    fn new(count: u64) -> Self {
        let item = |i| {
            let weight = 2 + 2 * (mix(i) % 1000) as i64;
            Item { weight, value: weight }
        };
        Knapsack { items: (0..count).map(item).collect(), best: AtomicI64::new(0) }
    }

    fn root(&self) -> Node {
        let sum: i64 = self.items.iter().map(|item| item.weight).sum();
        Node { item: 0, room: (sum / 2) | 1, value: 0 }
    }

    fn with(&self, at: Node) -> Node {
        let Item { weight, value } = self.items[at.item];
        Node { item: at.item + 1, room: at.room - weight, value: at.value + value }
    }

    fn without(at: Node) -> Node {
        Node { item: at.item + 1, ..at }
    }

    fn bound(&self, mut at: Node) -> i64 {
        while let Some(&Item { weight, value }) = self.items.get(at.item) {
            if weight > at.room {
                return at.value + value * at.room / weight;
            }
            at = self.with(at);
        }
        at.value
    }

    #[inline(never)]
    fn is_promising(&self, at: Node) -> bool {
        if at.room < 0 {
            return false;
        }
        if self.best.load(Ordering::Relaxed) < at.value {
            self.best.fetch_max(at.value, Ordering::Relaxed);
        }
        self.bound(at) > self.best.load(Ordering::Relaxed)
    }

    fn search(&self, at: Node) {
        if self.is_promising(at) {
            rayon::join(|| self.search(self.with(at)), || self.search(Self::without(at)));
        }
    }
}

fn knapsack(count: u64) -> u64 {
    let all = Knapsack::new(count);
    all.search(all.root());
    all.best.into_inner() as u64
}

const PRODUCT_LEAF: usize = 32;

/// A square block: its upper left element, and the length of the matrix' rows.
#[derive(Clone, Copy)]
struct Block(*mut f32, usize);

// SAFETY: no two tasks write to the same elements at the same time, nor to any that are read.
unsafe impl Send for Block {}
unsafe impl Sync for Block {}

impl Block {
    fn at(self, row: usize, column: usize) -> Self {
        Block(self.0.wrapping_add(row * self.1 + column), self.1)
    }
}

#[inline(never)]
fn multiply_leaf(a: Block, b: Block, c: Block, size: usize) {
    for i in 0..size {
        for k in 0..size {
            // SAFETY: the blocks lie within their matrices, and nobody else is at that of `c`.
            let (factor, from, to) = unsafe {
                let from = std::slice::from_raw_parts(b.at(k, 0).0, size);
                (*a.at(i, k).0, from, std::slice::from_raw_parts_mut(c.at(i, 0).0, size))
            };
            for (to, from) in to.iter_mut().zip(from) {
                *to += factor * from;
            }
        }
    }
}

fn multiply(a: Block, b: Block, c: Block, size: usize) {
    if size <= PRODUCT_LEAF {
        return multiply_leaf(a, b, c, size);
    }
    let half = size / 2;
    for k in [0, half] {
        let quarter = |i, j| multiply(a.at(i, k), b.at(k, j), c.at(i, j), half);
        rayon::join(
            || rayon::join(|| quarter(0, 0), || quarter(0, half)),
            || rayon::join(|| quarter(half, 0), || quarter(half, half)),
        );
    }
}

/// Wall and CPU nanoseconds that cases have spent aside, which are no part of their time.
static SPENT_ASIDE: Mutex<(f64, f64)> = Mutex::new((0.0, 0.0));

fn now() -> (f64, f64) {
    (nanoseconds(libc::CLOCK_MONOTONIC), nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// Prepares something, or checks it.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    let (wall, cpu) = now();
    let result = work();
    let ended = now();
    let mut spent = SPENT_ASIDE.lock().expect("nobody panics");
    *spent = (spent.0 + ended.0 - wall, spent.1 + ended.1 - cpu);
    result
}

fn product(size: usize) -> u64 {
    let matrix = |value: f32| aside(|| vec![value; size * size]);
    let (mut a, mut b, mut c) = (matrix(1.0), matrix(2.0), matrix(0.0));
    let block = |all: &mut Vec<f32>| Block(all.as_mut_ptr(), size);
    multiply(block(&mut a), block(&mut b), block(&mut c), size);
    c[size + 1] as u64
}

const SORT_LEAF: usize = 512;

fn merge(values: &mut [u32], middle: usize) {
    let left = values[..middle].to_vec();
    let (mut i, mut j) = (0, middle);
    while i < left.len() {
        let from_right = j < values.len() && values[j] < left[i];
        values[i + j - middle] = if from_right { values[j] } else { left[i] };
        j += usize::from(from_right);
        i += usize::from(!from_right);
    }
}

fn sort(values: &mut [u32]) {
    if values.len() <= SORT_LEAF {
        return values.sort_unstable();
    }
    let middle = values.len() / 2;
    let (left, right) = values.split_at_mut(middle);
    rayon::join(|| sort(left), || sort(right));
    merge(values, middle);
}

fn sorted(count: usize) -> u64 {
    let mut values: Vec<u32> = aside(|| {
        let mut state = 1;
        let mut next = || {
            state = mix(state);
            state as u32
        };
        (0..count).map(|_| next()).collect()
    });
    sort(&mut values);
    aside(|| if values.is_sorted() { values[count / 2].into() } else { 0 })
}

const WALK_DEPTH: u32 = 3;

fn walk(children: usize, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let each = (0..children).into_par_iter().with_max_len(1);
    1 + each.map(|_| walk(children, depth - 1)).sum::<u64>()
}

fn run(case: &str, n: u64) -> Option<u64> {
    Some(match case {
        "fib" => fib(n),
        "knapsack" => knapsack(n),
        "product" => product(n as usize),
        "sort" => sorted(n as usize),
        "walk" => walk(n as usize, WALK_DEPTH),
        _ => return None,
    })
}

/// What a case's time is divided by.
fn tasks_of(case: &str, n: u64, answer: u64) -> u64 {
    match case {
        "fib" => fib_calls(n),
        "walk" => answer,
        _ => 1,
    }
}

fn nanoseconds(which: libc::clockid_t) -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is ours to write to.
    unsafe { libc::clock_gettime(which, &mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// The most memory that the process has had, in KiB.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    peak.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn measure(case: &str, n: u64, workers: usize, repetitions: u64) -> Option<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("threads");
    pool.install(|| run(case, n))?; // its memory is there, its workers have started
    for _ in 0..repetitions {
        *SPENT_ASIDE.lock().expect("nobody panics") = (0.0, 0.0);
        let began = now();
        let answer = pool.install(|| run(case, n))?;
        let (ended, spent) = (now(), *SPENT_ASIDE.lock().expect("nobody panics"));
        let (wall_ns, cpu_ns) = (ended.0 - began.0 - spent.0, ended.1 - began.1 - spent.1);
        let tasks = tasks_of(case, n, answer) as f64;
        println!(
            "{{\"op_ns\": {:.4}, \"op_cpu_ns\": {:.4}, \"answer\": {answer}, \"peak_rss_kib\": {}}}",
            wall_ns / tasks,
            cpu_ns / tasks,
            memory_peak()
        );
    }
    Some(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|word| word.parse::<u64>().ok());
    let case = arguments.get(2).filter(|_| arguments[1] == "join");
    let (Some(case), Some(n), Some(workers)) = (case, number(3), number(4)) else {
        eprintln!("usage: {} join <case> <n> <workers> [repetitions]", arguments[0]);
        return ExitCode::from(2);
    };
    let quick = std::env::var_os("BWOS_BENCH_QUICK").is_some();
    let (n, repetitions) = if quick { (n / 2, 1) } else { (n, number(5).unwrap_or(1)) };
    if measure(case, n, workers as usize, repetitions).is_none() {
        eprintln!("there is no case {case} here");
        return ExitCode::from(3);
    }
    ExitCode::SUCCESS
}

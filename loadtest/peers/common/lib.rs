// SPDX-License-Identifier: Apache-2.0
//! What the peers on Tokio share: the flags of the C++ peers, a runtime and its accept loop, and
//! work that burns CPU. The limits are those of http.hpp.

use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub const BODY_BYTES_MAX: usize = 1024 * 1024;
pub const WORK_US_MAX: i64 = 10_000;

pub struct Options {
    pub at: SocketAddr, // port 0: the kernel chooses
    pub threads: usize,
    pub pin: Option<usize>, // first CPU; worker i goes to pin + i
    pub date: bool,
}

fn usage(program: &str, grpc: bool) -> ! {
    let (date, serves) = match grpc {
        false => (" [--date]", "GET /plaintext, GET /work?us=N and POST /echo"),
        true => ("", "helloworld.Greeter/SayHello and bwos.Work/Burn over gRPC"),
    };
    eprintln!(
        "usage: {program} [--address 127.0.0.1] [--port 0..65535] [--threads 1..1024] [--pin 0..1023]{date}\n  \
         serves {serves} there until SIGTERM"
    );
    exit(2)
}

pub fn parse_options() -> Options {
    parse(false)
}

/// Those of a peer that speaks gRPC.
pub fn parse_options_of_grpc() -> Options {
    parse(true)
}

fn parse(grpc: bool) -> Options {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut result = Options { at, threads: 1, pin: None, date: false };
    while let Some(flag) = arguments.next() {
        let wrong = |text: &str, must_be: &str| -> ! {
            eprintln!("{flag} '{text}': it must be {must_be}");
            usage(&program, grpc)
        };
        let mut value = || arguments.next().unwrap_or_default();
        let mut number = |least: usize, most: usize| {
            let text = value();
            match text.parse() {
                Ok(number) if (least..=most).contains(&number) => number,
                _ => wrong(&text, &format!("a number from {least} to {most}")),
            }
        };
        match flag.as_str() {
            "--date" if !grpc => result.date = true,
            "--address" => {
                let text = value();
                let address = text.parse::<IpAddr>();
                let must_be = "a numeric IPv4 or IPv6 address";
                result.at.set_ip(address.unwrap_or_else(|_| wrong(&text, must_be)));
            }
            "--port" => result.at.set_port(number(0, 65535) as u16),
            "--threads" => result.threads = number(1, 1024),
            "--pin" => result.pin = Some(number(0, libc::CPU_SETSIZE as usize - 1)),
            _ => {
                eprintln!("unknown flag '{flag}'");
                usage(&program, grpc)
            }
        }
    }
    result
}

fn pin_this_thread(cpu: usize) {
    // SAFETY: the set is plain data, and CPU_SET checks its bounds.
    let refused = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0
    };
    if refused {
        eprintln!("cannot pin to CPU {cpu}: {}", std::io::Error::last_os_error());
        exit(1);
    }
}

// 10,000 connections do not fit into the usual soft limit of 1,024.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only use the structure they are given.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// Burns time of the calling thread's own CPU clock, so that a preempted handler burns no less.
pub fn burn_thread_cpu(microseconds: i64) {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call only writes the structure it is given.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let end = now() + microseconds * 1000;
    while now() < end {}
}

/// Listens, and says so on standard output.
pub fn listen(at: SocketAddr, speaks: &str) -> TcpListener {
    let bound = || {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(libc::SOMAXCONN as u32)
    };
    let listener: TcpListener = bound().unwrap_or_else(|error| {
        eprintln!("cannot listen on {at}: {error}");
        exit(1)
    });
    println!("listening {speaks}={}", listener.local_addr().expect("no address"));
    listener
}

/// Runs `serving` as a task of Tokio's multi-thread runtime: the thread that starts the runtime is
/// none of its workers. Ends with the process.
pub fn run(with: Options, serving: impl Future<Output = ()> + Send + 'static) {
    raise_descriptor_limit();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(with.threads).enable_all(); // timers too where a peer has them: tonic
    if let Some(first) = with.pin {
        let started = AtomicUsize::new(0);
        builder.on_thread_start(move || {
            pin_this_thread(first + started.fetch_add(1, Ordering::Relaxed));
        });
    }
    let runtime = builder.build().expect("cannot start the runtime");
    let _ = runtime.block_on(runtime.spawn(serving));
}

/// A task for each connection.
pub fn serve<Session, Served>(with: Options, session: Session)
where
    Session: Fn(TcpStream) -> Served + Send + 'static,
    Served: Future<Output = ()> + Send + 'static,
{
    let at = with.at;
    run(with, async move {
        let listener = listen(at, "http");
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let _ = socket.set_nodelay(true);
                    tokio::spawn(session(socket));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Out of descriptors, say: a figure would mean nothing.
                Err(error) => panic!("accept: {error}"),
            }
        }
    });
}

// SPDX-License-Identifier: Apache-2.0
//! The same endpoints on Tokio alone: a task for each connection, the naive parser and the canned
//! answers of http.hpp. It trusts its clients: no server should copy it.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, SystemTime};

use memchr::memmem;
use peer_common::{BODY_BYTES_MAX, WORK_US_MAX, burn_thread_cpu};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const RECEIVE_BYTES: usize = 16 * 1024;
const HEAD_BYTES_MAX: usize = 16 * 1024; // a longer head closes the connection

enum Request<'a> {
    Plaintext,
    Work(i64), // microseconds
    Echo(&'a [u8]),
    Unknown,
}

enum Parsed<'a> {
    Complete(Request<'a>, usize), // and the bytes consumed
    Incomplete,
    Malformed,
}

// The number that starts `text`.
fn leading_number(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

// None: there is one, and it is no number.
fn content_length(head: &[u8]) -> Option<i64> {
    for name in [b"\r\nContent-Length:", b"\r\ncontent-length:"] {
        if let Some(at) = memmem::find(head, name) {
            return leading_number(head[at + name.len()..].trim_ascii_start());
        }
    }
    Some(0)
}

// One request from the front of `input`.
fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(end) = memmem::find(input, b"\r\n\r\n") else {
        return if input.len() > HEAD_BYTES_MAX { Parsed::Malformed } else { Parsed::Incomplete };
    };
    let head = end + 4;
    if input.starts_with(b"GET /plaintext ") {
        Parsed::Complete(Request::Plaintext, head)
    } else if let Some(number) = input.strip_prefix(b"GET /work?us=") {
        let us = leading_number(number).unwrap_or(0).min(WORK_US_MAX);
        Parsed::Complete(Request::Work(us), head)
    } else if input.starts_with(b"POST ") {
        let length = match content_length(&input[..end]) {
            Some(length) if length <= BODY_BYTES_MAX as i64 => length as usize,
            _ => return Parsed::Malformed,
        };
        let Some(body) = input[head..].get(..length) else { return Parsed::Incomplete };
        let echo = input.starts_with(b"POST /echo ");
        let request = if echo { Request::Echo(body) } else { Request::Unknown };
        Parsed::Complete(request, head + length)
    } else {
        Parsed::Complete(Request::Unknown, head)
    }
}

// Answers, canned where they can be; with a Date header they are built once a second. One a thread.
struct Answers {
    second: u64,
    head: Vec<u8>,
    plaintext: Vec<u8>,
}

impl Answers {
    fn new() -> Self {
        let mut answers = Answers { second: 0, head: vec![], plaintext: vec![] };
        answers.build("");
        answers
    }

    fn build(&mut self, date: &str) {
        let type_and_length = "Content-Type: text/plain\r\nContent-Length: ";
        self.head = format!("HTTP/1.1 200 OK\r\n{date}{type_and_length}").into_bytes();
        self.plaintext = [&self.head, b"13\r\n\r\nHello, World!".as_slice()].concat();
    }

    fn refresh_date(&mut self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let second = since.map_or(0, |since| since.as_secs());
        if second != self.second {
            self.second = second;
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            self.build(&format!("Date: {}\r\n", httpdate::fmt_http_date(time)));
        }
    }

    fn append(&self, request: &Request, out: &mut Vec<u8>) {
        match request {
            Request::Plaintext => out.extend_from_slice(&self.plaintext),
            Request::Work(us) => {
                burn_thread_cpu(*us);
                out.extend_from_slice(&self.plaintext);
            }
            Request::Echo(body) => {
                out.extend_from_slice(&self.head);
                let _ = write!(out, "{}\r\n\r\n", body.len()); // a Vec takes everything
                out.extend_from_slice(body);
            }
            Request::Unknown => {
                out.extend_from_slice(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
        }
    }
}

// Answers every complete request at the front of `input` into `out`. Returns the bytes consumed;
// None when the connection cannot go on.
fn answer_all(input: &[u8], date: bool, out: &mut Vec<u8>) -> Option<usize> {
    thread_local!(static ANSWERS: RefCell<Answers> = RefCell::new(Answers::new()));
    ANSWERS.with_borrow_mut(|answers| {
        if date {
            answers.refresh_date();
        }
        let mut done = 0;
        while done < input.len() {
            match parse(&input[done..]) {
                Parsed::Complete(request, consumed) => {
                    answers.append(&request, out);
                    done += consumed;
                }
                Parsed::Incomplete => break,
                Parsed::Malformed => return None,
            }
        }
        Some(done)
    })
}

async fn session(mut socket: TcpStream, date: bool) {
    let mut received = [0; RECEIVE_BYTES];
    let mut input = Vec::new(); // the front of an incomplete request; empty between requests
    let mut output = Vec::new();
    loop {
        let got = match socket.read(&mut received).await {
            Ok(0) | Err(_) => return,
            Ok(got) => got,
        };
        output.clear();
        if input.is_empty() {
            let Some(done) = answer_all(&received[..got], date, &mut output) else { return };
            input.extend_from_slice(&received[done..got]);
        } else {
            input.extend_from_slice(&received[..got]);
            let Some(done) = answer_all(&input, date, &mut output) else { return };
            input.drain(..done);
        }
        if !output.is_empty() && socket.write_all(&output).await.is_err() {
            return;
        }
    }
}

fn main() {
    let with = peer_common::parse_options();
    let date = with.date;
    peer_common::serve(with, move |socket| session(socket, date));
}

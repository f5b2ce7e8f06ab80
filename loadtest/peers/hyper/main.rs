// SPDX-License-Identifier: Apache-2.0
//! The same endpoints as a user of hyper writes them: a task for each connection, hyper's parser
//! and writer. Its header names are in lower case; everything else is as the other peers answer.

use std::error::Error;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use peer_common::{BODY_BYTES_MAX, WORK_US_MAX, burn_thread_cpu};

type Answer = Response<Full<Bytes>>;

fn text(body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

fn hello() -> Answer {
    text(Bytes::from_static(b"Hello, World!"))
}

// What `/work?us=N` asks for; None without that query.
fn work_us(query: Option<&str>) -> Option<i64> {
    let number = query?.strip_prefix("us=")?;
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    Some(number[..digits].parse().unwrap_or(0).min(WORK_US_MAX))
}

async fn handle(request: Request<Incoming>) -> Result<Answer, Box<dyn Error + Send + Sync>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/plaintext") => return Ok(hello()),
        (&Method::GET, "/work") => {
            if let Some(us) = work_us(request.uri().query()) {
                burn_thread_cpu(us);
                return Ok(hello());
            }
        }
        (&Method::POST, "/echo") => {
            // An error closes the connection.
            if request.body().size_hint().lower() > BODY_BYTES_MAX as u64 {
                return Err("the body is too long".into());
            }
            return Ok(text(request.into_body().collect().await?.to_bytes()));
        }
        _ => {}
    }
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    Ok(answer)
}

fn main() {
    let with = peer_common::parse_options();
    let mut http = http1::Builder::new();
    http.auto_date_header(with.date).pipeline_flush(true); // one write for the requests of a read
    peer_common::serve(with, move |socket| {
        let connection = http.serve_connection(TokioIo::new(socket), service_fn(handle));
        async move {
            let _ = connection.await; // an error ended this connection: its client will notice
        }
    });
}

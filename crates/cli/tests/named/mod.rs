//! An origin whose every object has bytes of its own, so that wrong ones are noticed.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// An origin of objects whose bytes follow from their names: `/<bytes>/<name>`.
pub struct Origin {
    pub address: SocketAddr,
    pub requests: Arc<AtomicU64>,
}

/// The bytes of an object.
pub fn content(target: &str) -> Vec<u8> {
    let bytes: usize = target.split('/').nth(1).unwrap().parse().unwrap();
    let mut state = target.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

impl Origin {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || answer(stream, &counted));
            }
        });
        Self { address, requests }
    }
}

fn answer(stream: TcpStream, counted: &AtomicU64) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    loop {
        let (mut target, mut range) = (String::new(), None);
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if target.is_empty() {
                target = line.split(' ').nth(1)?.to_owned();
            }
            if let Some(("range", text)) = line.to_ascii_lowercase().split_once(": bytes=") {
                let (from, to) = text.trim_end().split_once('-')?;
                range = Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()));
            }
            if line == "\r\n" {
                break;
            }
        }
        counted.fetch_add(1, SeqCst);
        let body = content(&target);
        let total = body.len();
        let (status, part) = match range {
            Some((from, to)) if from < total => {
                let last = to.unwrap_or(usize::MAX).min(total - 1);
                let content_range = format!("Content-Range: bytes {from}-{last}/{total}");
                (format!("206 Partial Content\r\n{content_range}"), &body[from..=last])
            }
            _ => ("200 OK".to_owned(), &body[..]),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nCache-Control: max-age=86400\r\n\
             ETag: \"{target}\"\r\nCache-Tag: all\r\n\r\n",
            part.len()
        );
        output.write_all(head.as_bytes()).ok()?;
        output.write_all(part).ok()?;
    }
}

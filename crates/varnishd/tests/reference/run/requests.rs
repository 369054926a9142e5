//! Random requests.

use super::origin::says_length;
use crate::draw::Draw;

/// A request, its method apart from what is sent.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) text: String,
}

const METHODS: [&str; 14] = [
    "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE",
    "OPTIONS", "PURGE",
];
const FIELDS: [&str; 26] = [
    "Cookie: a=1",
    "Cookie: a=1; b=2; a=3",
    "Cookie:",
    "Authorization: Basic YTpi",
    "Accept-Encoding: gzip",
    "Accept-Encoding: gzip, deflate, br",
    "Accept-Encoding: gzip;q=0",
    "Accept-Encoding: br",
    "Range: bytes=0-1",
    "Range: bytes=2-",
    "Range: bytes=100-",
    "If-None-Match: \"tag\"",
    "If-None-Match: W/\"tag\"",
    "If-None-Match: \"other\"",
    "If-Modified-Since: Fri, 02 Jan 2015 00:00:00 GMT",
    "If-Modified-Since: Thu, 01 Jan 2004 00:00:00 GMT",
    "Cache-Control: no-cache",
    "X-Forwarded-For: 192.0.2.9",
    "A: x y",
    "A: 5",
    "b: bb=12",
    "b: 3.5",
    "x_y: true",
    "x_y: 10s",
    "Connection: A",
    "Content-Type: text/plain",
];
/// Few enough to be asked for again.
const TARGETS: usize = 5;

/// Some requests for a policy; each target means another answer of the origin.
pub(super) fn requests(seed: u64, count: usize) -> Vec<Ask> {
    let mut draw = Draw::seeded(!seed);
    let first = draw.below(1000);
    (0..count).map(|_| one(&mut draw, first)).collect()
}

fn one(draw: &mut Draw, first: usize) -> Ask {
    let method = draw.of(&METHODS);
    let number = first + draw.below(TARGETS);
    let target = match draw.below(6) {
        0 => format!("/{number}?b=2&a=1"),
        1 => format!("/a/{number}.png"),
        _ => format!("/{number}"),
    };
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    let host = ["Host: example.com\r\n", "Host: example.org:8080\r\n", ""];
    text += host[if draw.once_in(20) { 2 } else { usize::from(draw.once_in(4)) }];
    text += &format!("R: {}\r\n", draw.below(5));
    for _ in 0..draw.below(4) {
        let field = draw.of(&FIELDS);
        let name = field.split(':').next().unwrap_or("");
        if text.contains(&format!("\n{name}:")) {
            continue;
        }
        // Ranges are for GET, and what is not waited for has to be sent.
        let fits = match name {
            "Range" => method == "GET" && says_length(&target),
            "If-None-Match" | "If-Modified-Since" => matches!(method, "GET" | "HEAD"),
            _ => true,
        };
        if !fits {
            continue;
        }
        text += field;
        text += "\r\n";
        if name == "Range" && !text.contains("\nAccept-Encoding:") {
            // What is unpacked on the way has parts here.
            text += "Accept-Encoding: gzip\r\n";
        }
    }
    match method {
        "POST" | "PUT" if draw.once_in(3) => {
            text += "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        }
        "POST" | "PUT" => text += "Content-Length: 4\r\n\r\nbody",
        _ => text += "\r\n",
    }
    Ask { method: method.into(), text }
}

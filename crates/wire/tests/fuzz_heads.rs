//! Random request and response heads.

mod support;

use bolero::check;
use freshet_http::message::{Method, Scheme};
use freshet_wire::h1::request::Request;
use freshet_wire::h1::response::Response;
use freshet_wire::h1::{Framing, Limits, request, response, write};
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 200_000;
/// Short, so that a fair share of what is made of it is a good head.
const INPUT_BYTES_MAX: usize = 48;
const END: &[u8] = b"\r\n\r\n";

#[test]
fn fuzz_request() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            support::as_bytes_and_words(input, check_request);
            let words = support::spoken(input);
            check_request(&[b"GET / HTTP/1.1\r\nHost: a\r\nX: ", &words[..], END].concat());
            check_request(&[b"GET /", input, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
            check_request(&[b"GET / HTTP/1.1\r\nX: y\r\nHost: ", input, END].concat());
        });
}

#[test]
fn fuzz_response() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            support::as_bytes_and_words(input, check_response);
            let words = support::spoken(input);
            check_response(&[b"HTTP/1.1 200 OK\r\nX: ", &words[..], END].concat());
            check_response(&[b"HTTP/1.0 204 ", &words[..], END].concat());
        });
}

fn check_request(text: &[u8]) {
    let limits = Limits { head_bytes_max: 512, fields_max: 20, ..Limits::default() };
    let parse = |text: &[u8]| request::parse(text, Scheme::Http, &limits);
    let whole = parse(text);
    let prefix = parse(&text[..support::cut(text)]);
    match (&prefix, &whole) {
        (Ok(None), _) => {}
        // What a part decides, more bytes do not change.
        (decided, _) => assert_eq!(decided, &whole),
    }
    let Ok(Some(request)) = whole else { return };
    assert!(request.head_bytes <= text.len());
    assert_eq!(parse(&text[..request.head_bytes - 1]), Ok(None));
    check_rewritten(&request);
}

/// What goes on to an origin is one request, framed as this one was.
fn check_rewritten(request: &Request) {
    let mut out = Vec::new();
    write::request_head(&request.head, request.framing, &mut out);
    // Limits are those of what came in; the writer adds a few fields of its own.
    let again = request::parse(&out, Scheme::Http, &Limits::default());
    if request.head.authority.is_empty() {
        // HTTP/1.0 without a host; the origin of such a request is told an empty one.
        return assert!(again.is_err());
    }
    let again = again.expect("what was accepted is written well").expect("and completely");
    assert_eq!(again.framing, request.framing);
    assert_eq!(again.head.method, request.head.method);
    assert_eq!(again.head.authority, request.head.authority);
    assert_eq!(again.head.target, request.head.target);
    assert_eq!(again.head_bytes, out.len());
}

fn check_response(text: &[u8]) {
    for method in [Method::Get, Method::Head] {
        let limits = Limits { head_bytes_max: 512, fields_max: 20, ..Limits::default() };
        let parse = |text: &[u8]| response::parse(text, &method, &limits);
        let whole = parse(text);
        let prefix = parse(&text[..support::cut(text)]);
        match (&prefix, &whole) {
            (Ok(None), _) => {}
            (decided, _) => assert_eq!(decided, &whole),
        }
        let Ok(Some(response)) = whole else { continue };
        assert!(response.head_bytes <= text.len());
        assert_eq!(parse(&text[..response.head_bytes - 1]), Ok(None));
        check_forwarded(&response, &method);
    }
}

/// What goes on to a client is one response, framed as this one was.
fn check_forwarded(response: &Response, method: &Method) {
    let (framing, version) = (response.framing, response.head.version);
    let keep_alive = framing != Framing::UntilClose;
    let mut out = Vec::new();
    let client = freshet_http::message::Version::Http11;
    write::response_head(&response.head, framing, keep_alive, client, &mut out);
    let again = response::parse(&out, method, &Limits::default());
    let again = again.expect("what was accepted is written well").expect("and completely");
    let reads_to_close = framing == Framing::None && again.framing == Framing::UntilClose;
    assert!(again.framing == framing || reads_to_close, "{version:?} {framing:?}");
    assert_eq!(
        (again.head.status, again.head.reason),
        (response.head.status, response.head.reason.clone())
    );
    assert_eq!(again.head_bytes, out.len());
}

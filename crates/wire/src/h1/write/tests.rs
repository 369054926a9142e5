//! The exact bytes of heads.

use super::*;
use freshet_http::message::Method;

fn request(fields: &[(&str, &str)], framing: Framing) -> String {
    let head = RequestHead {
        method: Method::Put,
        authority: "a.example:81".into(),
        target: "/x?y".into(),
        fields: fields.iter().copied().collect(),
        ..RequestHead::default()
    };
    let mut out = b"before|".to_vec();
    request_head(&head, framing, &mut out);
    String::from_utf8(out).unwrap()
}

fn response(
    status: u16,
    fields: &[(&str, &str)],
    framing: Framing,
    keep_alive: bool,
    version: Version,
) -> String {
    let head =
        ResponseHead { fields: fields.iter().copied().collect(), ..ResponseHead::new(status) };
    let mut out = Vec::new();
    response_head(&head, framing, keep_alive, version, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_says_host_first_and_its_own_framing() {
    let fields = [
        ("X-A", "1"),
        ("host", "evil"),
        ("Content-Length", "9"),
        ("transfer-encoding", "chunked"),
        ("Connection", "X-A"),
        ("Keep-Alive", "x"),
        ("Proxy-Connection", "x"),
    ];
    let start = "before|PUT /x?y HTTP/1.1\r\nHost: a.example:81\r\nX-A: 1\r\n";
    assert_eq!(request(&fields, Framing::None), format!("{start}\r\n"));
    assert_eq!(request(&fields, Framing::Length(0)), format!("{start}Content-Length: 0\r\n\r\n"));
    let length = format!("{start}Content-Length: 18446744073709551615\r\n\r\n");
    assert_eq!(request(&fields, Framing::Length(u64::MAX)), length);
    let chunked = format!("{start}Transfer-Encoding: chunked\r\n\r\n");
    assert_eq!(request(&fields, Framing::Chunked), chunked);
}

#[test]
fn upgrade_and_te_are_named_in_connection() {
    let text = request(&[("Upgrade", "websocket"), ("TE", "trailers")], Framing::None);
    assert!(text.ends_with("TE: trailers\r\nConnection: Upgrade, TE\r\n\r\n"));
    assert!(request(&[("te", "trailers")], Framing::None).ends_with("Connection: TE\r\n\r\n"));
    let text = response(101, &[("Upgrade", "websocket")], Framing::None, true, Version::Http11);
    assert_eq!(
        text,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    );
}

#[test]
fn a_response_says_what_its_reader_must_know() {
    use Framing::{Chunked, Length, None, UntilClose};
    let new = Version::Http11;
    let old = Version::Http10;
    for (status, framing, keep_alive, version, want) in [
        (200, Length(5), true, new, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\n"),
        (
            200,
            Length(5),
            true,
            old,
            "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
        ),
        (
            200,
            Chunked,
            false,
            new,
            "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        ),
        (200, UntilClose, true, old, "HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n"),
        (304, None, true, new, "HTTP/1.1 304 Not Modified\r\nA: b\r\n\r\n"),
        (204, Length(0), true, new, "HTTP/1.1 204 No Content\r\nA: b\r\n\r\n"),
        (103, None, false, new, "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"),
        (799, None, true, new, "HTTP/1.1 799 \r\nA: b\r\n\r\n"),
    ] {
        let fields =
            [("Content-Length", "77"), ("A", "b"), ("Connection", "A"), ("Transfer-Encoding", "x")];
        assert_eq!(response(status, &fields, framing, keep_alive, version), want);
    }
}

#[test]
#[should_panic(expected = "HTTP/1.0 has no chunks")]
fn chunks_for_http_10_are_a_bug() {
    response(200, &[], Framing::Chunked, true, Version::Http10);
}

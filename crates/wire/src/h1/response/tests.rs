//! Heads of origins, good, odd and wrong.

use super::*;
use ResponseError as E;

fn read_as(method: &Method, text: &str) -> Result<Option<Response>, ResponseError> {
    parse(text.as_bytes(), method, &Limits::default())
}

fn read(text: &str) -> Result<Option<Response>, ResponseError> {
    read_as(&Method::Get, text)
}

fn accepted(text: &str) -> Response {
    read(text).expect(text).expect("the head is complete")
}

/// Framing and keep-alive of a 200 with these lines.
fn framed(lines: &str) -> (Framing, bool) {
    let response = accepted(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"));
    (response.framing, response.keep_alive)
}

#[test]
fn a_plain_response_is_taken_apart() {
    let text = "HTTP/1.1 404 Nicht da\r\nServer: x\r\ncontent-length:2\r\n\r\nno";
    let response = accepted(text);
    assert_eq!(response.head.status, 404);
    assert_eq!(response.head.reason.as_deref(), Some("Nicht da"));
    assert_eq!(response.head.version, Version::Http11);
    let want: Fields = [("Server", "x"), ("content-length", "2")].into_iter().collect();
    assert_eq!(response.head.fields, want);
    assert_eq!((response.framing, response.keep_alive), (Framing::Length(2), true));
    assert_eq!(response.head_bytes, text.len() - 2);
    for end in 0..text.len() - 2 {
        assert_eq!(read(&text[..end]), Ok(None), "{end}");
    }
}

#[test]
fn reason_phrases_may_be_usual_missing_or_raw() {
    for (line, reason) in [
        ("HTTP/1.1 200 OK", None),
        ("HTTP/1.1 200 ", None),
        ("HTTP/1.1 200", None),
        ("HTTP/1.1 999", None),
        ("HTTP/1.1 200 Fine,\tthanks", Some("Fine,\tthanks")),
        ("HTTP/1.1 200 sch\u{f6}n", Some("sch\u{f6}n")),
        ("HTTP/1.2 200 OK", None),
    ] {
        assert_eq!(accepted(&format!("{line}\r\n\r\n")).head.reason.as_deref(), reason, "{line}");
    }
    let raw = parse(b"HTTP/1.1 200 sch\xf6n\r\n\r\n", &Method::Get, &Limits::default());
    assert_eq!(raw.unwrap().unwrap().head.reason, None);
}

#[test]
fn bodies_are_framed_by_method_status_and_fields() {
    let length = "Content-Length: 7\r\n\r\n";
    for (status, method, framing, keep_alive) in [
        (200, Method::Get, Framing::Length(7), true),
        (200, Method::Head, Framing::None, true),
        (304, Method::Get, Framing::None, true),
        (204, Method::Get, Framing::None, false),
        (103, Method::Get, Framing::None, false),
        (205, Method::Get, Framing::Length(7), true),
    ] {
        let text = format!("HTTP/1.1 {status} x\r\n{length}");
        let response = read_as(&method, &text).unwrap().unwrap();
        assert_eq!((response.framing, response.keep_alive), (framing, keep_alive), "{status}");
    }
    assert_eq!(accepted("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n").framing, Framing::None);
    assert!(accepted("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n").keep_alive);
    assert!(accepted("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").head_bytes == 25);
    assert_eq!(framed("Transfer-Encoding: Chunked"), (Framing::Chunked, true));
    assert_eq!(framed("X: y"), (Framing::UntilClose, false));
    assert_eq!(framed("Content-Length: 3\r\nConnection: x,close"), (Framing::Length(3), false));
}

#[test]
fn http_10_origins_keep_the_connection_only_when_they_say_so() {
    let keeps = |lines: &str| {
        accepted(&format!("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n{lines}\r\n\r\n")).keep_alive
    };
    assert!(!keeps("X: y"));
    assert!(keeps("Connection: Keep-Alive"));
    let chunked = accepted(
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\
                            Connection: keep-alive\r\n\r\n",
    );
    assert_eq!((chunked.framing, chunked.keep_alive), (Framing::Chunked, false));
}

#[test]
fn equal_lengths_count_as_one() {
    for lines in [
        "Content-Length: 5, 5",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 5",
        "Content-Length: 005",
        "Content-Length: 5,\r\n 5",
    ] {
        let response = accepted(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"));
        assert_eq!((response.framing, response.keep_alive), (Framing::Length(5), true));
        let lengths: Vec<_> = response.head.fields.get_all("content-length").collect();
        assert_eq!(lengths, [b"5"], "{lines}");
    }
}

#[test]
fn a_coding_wins_over_a_length_and_the_connection_ends() {
    let lines = "Content-Length: 5\r\nTransfer-Encoding: chunked";
    assert_eq!(framed(lines), (Framing::Chunked, false));
    assert_eq!(framed("Content-Length: 5\r\nTransfer-Encoding: cow"), (Framing::UntilClose, false));
    assert_eq!(framed("Transfer-Encoding: identity"), (Framing::UntilClose, false));
    let identity = "Transfer-Encoding: identity\r\nContent-Length: 5";
    assert_eq!(framed(identity), (Framing::Length(5), false));
    for (lines, left) in [(lines, "transfer-encoding"), (identity, "content-length")] {
        let response = accepted(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"));
        assert_eq!(response.head.fields.len(), 1);
        assert!(response.head.fields.contains(left));
    }
}

#[test]
fn an_unknown_coding_reads_to_the_close_and_its_field_is_gone() {
    let response = accepted("HTTP/1.1 200 OK\r\nTransfer-Encoding: x1\r\nX: y\r\n\r\n");
    assert_eq!((response.framing, response.keep_alive), (Framing::UntilClose, false));
    assert!(!response.head.fields.contains("transfer-encoding"));
}

#[test]
fn strictness_refuses_every_repair_of_codings() {
    let limits = Limits { strict_transfer_coding: true, ..Limits::default() };
    for (text, error) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: x1", E::OriginTransferCodingUnsupported),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity", E::OriginTransferCodingUnsupported),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", E::OriginTransferEncodingHttp10),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
            E::OriginContentLengthWithTransferEncoding,
        ),
    ] {
        let text = format!("{text}\r\n\r\n");
        assert_eq!(parse(text.as_bytes(), &Method::Get, &limits), Err(error), "{text}");
    }
    let good = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(parse(good, &Method::Get, &limits).is_ok_and(|response| response.is_some()));
}

#[test]
fn lines_are_repaired_as_the_rfc_says() {
    let text = "HTTP/1.1 200 OK\r\nX: a\r\n  b \r\n\t\r\n c\r\nY \t: d\r\nZ:\r\n e\r\n\r\n";
    let want: Fields = [("X", "a    b      c"), ("Y", "d"), ("Z", "e")].into_iter().collect();
    assert_eq!(accepted(text).head.fields, want);
    for end in 0..text.len() {
        assert_eq!(read(&text[..end]), Ok(None), "{end}");
    }
}

#[test]
fn garbage_is_named() {
    for (text, error) in [
        ("SSH-2.0-x", E::OriginVersionInvalid),
        ("\r\nHTTP/1.1 200 OK\r\n", E::OriginVersionInvalid),
        ("http/1.1 200 OK\r\n", E::OriginVersionInvalid),
        ("HTTP/2.0 200 OK\r\n", E::OriginVersionInvalid),
        ("HTTP/1.1  200 OK\r\n", E::OriginStatusInvalid),
        ("HTTP/1.1 20 OK\r\n", E::OriginStatusInvalid),
        ("HTTP/1.1 2000 OK\r\n", E::OriginStatusInvalid),
        ("HTTP/1.1 099 OK\r\n", E::OriginStatusInvalid),
        ("HTTP/1.1 +20 OK\r\n", E::OriginStatusInvalid),
        ("HTTP/1.1 200OK\r\n", E::OriginStatusInvalid),
        ("HTTP/1.1 200 O\0K\r\n", E::OriginReasonInvalid),
        ("HTTP/1.1 200 OK\rX", E::OriginBareCarriageReturn),
        ("HTTP/1.1 200 OK\r\n X: y\r\n", E::OriginFieldFolded),
        ("HTTP/1.1 200 OK\r\nX Y: z\r\n", E::OriginFieldNameInvalid),
        ("HTTP/1.1 200 OK\r\nX[]: z\r\n", E::OriginFieldNameInvalid),
        ("HTTP/1.1 200 OK\r\n: z\r\n", E::OriginFieldNameInvalid),
        ("HTTP/1.1 200 OK\r\n<html>\r\n", E::OriginFieldNameInvalid),
        ("HTTP/1.1 200 OK\r\nX\r\n", E::OriginFieldWithoutColon),
        ("HTTP/1.1 200 OK\r\nX: y\rZ: a\r\n", E::OriginBareCarriageReturn),
        ("HTTP/1.1 200 OK\r\nX: \0\r\n", E::OriginFieldControl),
        ("HTTP/1.1 200 OK\r\nX: a\r\n \0\r\n", E::OriginFieldControl),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n", E::OriginContentLengthConflict),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
            E::OriginContentLengthConflict,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n", E::OriginContentLengthInvalid),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n", E::OriginContentLengthInvalid),
        ("HTTP/1.1 200 OK\r\nContent-Length:\r\n", E::OriginContentLengthInvalid),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 6\r\n\r\n", E::OriginContentLengthInvalid),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n",
            E::OriginContentLengthInvalid,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n", E::OriginTransferEncodingInvalid),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;x\r\n\r\n",
            E::OriginTransferEncodingInvalid,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: \"chunked\"\r\n\r\n",
            E::OriginTransferEncodingInvalid,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            E::OriginTransferCodingUnsupported,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            E::OriginTransferCodingUnsupported,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", E::OriginTransferCodingUnsupported),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            E::OriginTransferCodingUnsupported,
        ),
    ] {
        assert_eq!(read(text), Err(error), "{text:?}");
        assert_eq!(error.status(), 502);
    }
}

#[test]
fn limits_hold_before_the_head_is_complete() {
    let limits = Limits { head_bytes_max: 100, fields_max: 2, ..Limits::default() };
    let read = |text: &str| parse(text.as_bytes(), &Method::Get, &limits);
    let open = "HTTP/1.1 200 OK\r\nX: ";
    assert_eq!(read(&format!("{open}{}", "y".repeat(99 - open.len()))), Ok(None));
    let long = format!("{open}{}", "y".repeat(100 - open.len()));
    assert_eq!(read(&long), Err(E::OriginHeadTooLarge));
    assert_eq!(read("HTTP/1.1 200 OK\r\nX: y\r\nX: y\r\nX: y\r\n"), Err(E::OriginFieldsTooMany));
}

//! Forms by which requests have been smuggled past proxies, or could be: each with the status that
//! refuses it.

use super::*;
use RequestError as E;

type Form = (&'static str, &'static [u8], u16, RequestError);

const START_LINE: &[Form] = &[
    ("two empty lines in front", b"\r\n\r\nGET / HTTP/1.1\r\n", 400, E::ClientMethodInvalid),
    ("LF in front", b"\nGET / HTTP/1.1\r\n", 400, E::ClientMethodInvalid),
    ("space in front", b" GET / HTTP/1.1\r\n", 400, E::ClientMethodInvalid),
    ("NUL in front", b"\0GET / HTTP/1.1\r\n", 400, E::ClientMethodInvalid),
    ("TLS hello", b"\x16\x03\x01\x02\x00\x01", 400, E::ClientMethodInvalid),
    ("GET in lower case", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501, E::ClientMethodLookalike),
    ("POST in mixed case", b"Post / HTTP/1.1\r\nHost: a\r\n\r\n", 501, E::ClientMethodLookalike),
    ("a preface's method", b"PRI / HTTP/1.1\r\nHost: a\r\n\r\n", 501, E::ClientMethodLookalike),
    ("method with brackets", b"GE[T] / HTTP/1.1\r\n", 400, E::ClientMethodInvalid),
    ("method and tab", b"GET\t/ HTTP/1.1\r\n", 400, E::ClientMethodInvalid),
    ("no target", b"GET HTTP/1.1\r\n", 400, E::ClientVersionInvalid),
    ("empty target", b"GET  HTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("two spaces", b"GET  / HTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("tab behind the target", b"GET /\tHTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("space in the target", b"GET /a b HTTP/1.1\r\n", 400, E::ClientVersionInvalid),
    ("text in front", b"Extra lineGET / HTTP/1.1\r\n", 400, E::ClientVersionInvalid),
    ("NUL in the target", b"GET /\0 HTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("CR in the target", b"GET /\rX HTTP/1.1\r\n", 400, E::ClientVersionInvalid),
    ("DEL in the target", b"GET /\xc3\xa9\x7f HTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("C1 and LF in the target", b"GET /\xc2\x85\nHTTP/1.1\r\n", 400, E::ClientVersionInvalid),
    ("fragment", b"GET /a#b HTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("fragment behind a quote", b"GET /\"#b HTTP/1.1\r\n", 400, E::ClientTargetInvalid),
    ("version 0.9", b"GET /\r\n", 400, E::ClientVersionInvalid),
    ("no version", b"GET / \r\n", 400, E::ClientVersionInvalid),
    ("version in lower case", b"GET / http/1.1\r\n", 400, E::ClientVersionInvalid),
    ("version of two digits", b"GET / HTTP/1.10\r\n", 400, E::ClientRequestLineEnding),
    ("version with zero", b"GET / HTTP/01.1\r\n", 400, E::ClientVersionInvalid),
    ("version with comma", b"GET / HTTP/1,1\r\n", 400, E::ClientVersionInvalid),
    ("version without minor", b"GET / HTTP/1\r\n", 400, E::ClientVersionInvalid),
    ("other protocol", b"GET / HTTQ/1.1\r\n", 400, E::ClientVersionInvalid),
    ("space behind the version", b"GET / HTTP/1.1 \r\n", 400, E::ClientRequestLineEnding),
    ("fourth word", b"GET / HTTP/1.1 x\r\n", 400, E::ClientRequestLineEnding),
    ("LF behind the version", b"GET / HTTP/1.1\n", 400, E::ClientBareLineFeed),
    ("CR behind the version", b"GET / HTTP/1.1\rX: y\r\n", 400, E::ClientBareCarriageReturn),
    ("version 9.9", b"GET / HTTP/9.9\r\n", 505, E::ClientVersionUnsupported),
    ("version 2.0", b"PRI * HTTP/2.0\r\n", 505, E::ClientVersionUnsupported),
    ("version 0.9 aloud", b"GET / HTTP/0.9\r\n", 505, E::ClientVersionUnsupported),
];

/// Lines that stand before a good `Host` and a `Content-Length: 5`.
const LINES: &[Form] = &[
    ("folded first line", b" X: y", 400, E::ClientFieldFolded),
    ("folded value", b"X: y\r\n z", 400, E::ClientFieldFolded),
    ("folded by tab", b"X: y\r\n\tz", 400, E::ClientFieldFolded),
    ("folded coding", b"Transfer-Encoding:\r\n chunked", 400, E::ClientFieldFolded),
    ("space before the colon", b"X : y", 400, E::ClientFieldSpaceBeforeColon),
    ("tab before the colon", b"X\t: y", 400, E::ClientFieldSpaceBeforeColon),
    ("coding and space", b"Transfer-Encoding : chunked", 400, E::ClientFieldSpaceBeforeColon),
    ("space in the name", b"Transfer Encoding: chunked", 400, E::ClientFieldSpaceBeforeColon),
    ("no colon", b"X", 400, E::ClientFieldWithoutColon),
    ("no name", b": y", 400, E::ClientFieldNameInvalid),
    ("brackets in the name", b"X[]: y", 400, E::ClientFieldNameInvalid),
    ("NUL in the name", b"X\0: y", 400, E::ClientFieldNameInvalid),
    ("raw byte in the name", b"Transf\x82r-Encoding: chunked", 400, E::ClientFieldNameInvalid),
    ("CR in the name", b"Transfer\r-Encoding: chunked", 400, E::ClientFieldWithoutColon),
    ("NUL in the value", b"X: a\0b", 400, E::ClientFieldControl),
    ("bell in the value", b"X: a\x07", 400, E::ClientFieldControl),
    ("DEL in the value", b"X: a\x7f", 400, E::ClientFieldControl),
    ("LF in the value", b"X: a\nTransfer-Encoding: chunked", 400, E::ClientBareLineFeed),
    ("CR in the value", b"X: a\rTransfer-Encoding: chunked", 400, E::ClientBareCarriageReturn),
    ("two CR", b"X: a\r", 400, E::ClientBareCarriageReturn),
    ("CR at a line's start", b"X: a\r\n\rY: b", 400, E::ClientBareCarriageReturn),
    ("LF as empty line", b"X: a\r\n\nGET /2 HTTP/1.1", 400, E::ClientBareLineFeed),
    ("second Host", b"Host: b", 400, E::ClientHostRepeated),
    ("second Host, the same", b"host: a", 400, E::ClientHostRepeated),
    (
        "coding with length",
        b"Transfer-Encoding: chunked",
        400,
        E::ClientContentLengthWithTransferEncoding,
    ),
    (
        "coding in odd case",
        b"tRANSFER-eNCODING: cHUNKED",
        400,
        E::ClientContentLengthWithTransferEncoding,
    ),
    (
        "unknown coding with length",
        b"Transfer-Encoding: x",
        400,
        E::ClientContentLengthWithTransferEncoding,
    ),
    (
        "empty coding with length",
        b"Transfer-Encoding:",
        400,
        E::ClientContentLengthWithTransferEncoding,
    ),
    ("underscore coding", b"Transfer_Encoding: chunked", 400, E::ClientFieldLookalike),
    ("underscore length", b"Content_Length: 6", 400, E::ClientFieldLookalike),
    (
        "33 options",
        b"Connection: ,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,",
        400,
        E::ClientConnectionTooMany,
    ),
    ("second length", b"Content-Length: 6", 400, E::ClientContentLengthRepeated),
    ("second length, the same", b"content-length: 5", 400, E::ClientContentLengthRepeated),
    ("other expectation", b"Expect: 100-continue, x", 417, E::ClientExpectation),
];

/// Lines that stand before a good `Host` alone.
const FRAMING: &[Form] = &[
    ("length list", b"Content-Length: 5, 5", 400, E::ClientContentLengthInvalid),
    ("length list, different", b"Content-Length: 5,6", 400, E::ClientContentLengthInvalid),
    ("length with plus", b"Content-Length: +5", 400, E::ClientContentLengthInvalid),
    ("length with minus", b"Content-Length: -5", 400, E::ClientContentLengthInvalid),
    ("length in hex", b"Content-Length: 0x5", 400, E::ClientContentLengthInvalid),
    ("length with zero in front", b"Content-Length: 05", 400, E::ClientContentLengthInvalid),
    ("length of zeros", b"Content-Length: 00", 400, E::ClientContentLengthInvalid),
    ("length with space", b"Content-Length: 5 5", 400, E::ClientContentLengthInvalid),
    ("length with fraction", b"Content-Length: 5.0", 400, E::ClientContentLengthInvalid),
    ("length with exponent", b"Content-Length: 5e0", 400, E::ClientContentLengthInvalid),
    ("length with underscore", b"Content-Length: 1_0", 400, E::ClientContentLengthInvalid),
    ("length in words", b"Content-Length: abc", 400, E::ClientContentLengthInvalid),
    ("empty length", b"Content-Length:", 400, E::ClientContentLengthInvalid),
    ("quoted length", b"Content-Length: \"5\"", 400, E::ClientContentLengthInvalid),
    ("full-width digit", b"Content-Length: \xef\xbc\x95", 400, E::ClientContentLengthInvalid),
    ("2^64", b"Content-Length: 18446744073709551616", 400, E::ClientContentLengthInvalid),
    (
        "huge negative",
        b"Content-Length: -123456789123456789123456789",
        400,
        E::ClientContentLengthInvalid,
    ),
    ("two codings", b"Transfer-Encoding: gzip, chunked", 501, E::ClientTransferCodingUnknown),
    (
        "unknown, then chunked",
        b"Transfer-Encoding: cow, chunked",
        501,
        E::ClientTransferCodingUnknown,
    ),
    ("chunked not last", b"Transfer-Encoding: chunked, cow", 400, E::ClientTransferEncodingInvalid),
    (
        "chunked twice",
        b"Transfer-Encoding: chunked, chunked",
        400,
        E::ClientTransferEncodingInvalid,
    ),
    ("identity", b"Transfer-Encoding: identity", 400, E::ClientTransferEncodingInvalid),
    ("gzip alone", b"Transfer-Encoding: gzip", 400, E::ClientTransferEncodingInvalid),
    ("empty coding", b"Transfer-Encoding:", 400, E::ClientTransferEncodingInvalid),
    ("comma in front", b"Transfer-Encoding: , chunked", 400, E::ClientTransferEncodingInvalid),
    ("comma behind", b"Transfer-Encoding: chunked,", 400, E::ClientTransferEncodingInvalid),
    ("semicolon", b"Transfer-Encoding: chunked;", 400, E::ClientTransferEncodingInvalid),
    ("parameter", b"Transfer-Encoding: chunked;a=b", 400, E::ClientTransferEncodingInvalid),
    ("quoted", b"Transfer-Encoding: \"chunked\"", 400, E::ClientTransferEncodingInvalid),
    ("apostrophes", b"Transfer-Encoding: 'chunked'", 400, E::ClientTransferEncodingInvalid),
    ("prefix", b"Transfer-Encoding: xchunked", 400, E::ClientTransferEncodingInvalid),
    ("short", b"Transfer-Encoding: chunk", 400, E::ClientTransferEncodingInvalid),
    ("among words", b"Transfer-Encoding: cow chunked bar", 400, E::ClientTransferEncodingInvalid),
    ("raw byte in front", b"Transfer-Encoding: \xffchunked", 400, E::ClientTransferEncodingInvalid),
    (
        "no-break space behind",
        b"Transfer-Encoding: chunked\xa0",
        400,
        E::ClientTransferEncodingInvalid,
    ),
    ("vertical tab", b"Transfer-Encoding:\x0bchunked", 400, E::ClientFieldControl),
    (
        "second line",
        b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
        400,
        E::ClientTransferEncodingInvalid,
    ),
    (
        "second line, the same",
        b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked",
        400,
        E::ClientTransferEncodingInvalid,
    ),
];

/// Whole heads: targets and hosts.
const ROUTING: &[Form] = &[
    ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400, E::ClientHostMissing),
    ("no Host, absolute", b"GET http://a/ HTTP/1.1\r\n\r\n", 400, E::ClientHostMissing),
    ("empty Host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, E::ClientHostInvalid),
    ("path in Host", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, E::ClientHostInvalid),
    ("user in Host", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, E::ClientHostInvalid),
    ("list in Host", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, E::ClientHostInvalid),
    ("space in Host", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, E::ClientHostInvalid),
    ("bad port", b"GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", 400, E::ClientHostInvalid),
    ("large port", b"GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400, E::ClientHostInvalid),
    ("two ports", b"GET / HTTP/1.1\r\nHost: a:80:81\r\n\r\n", 400, E::ClientHostInvalid),
    ("URI in Host", b"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", 400, E::ClientHostInvalid),
    (
        "bad Host, absolute",
        b"GET http://a/ HTTP/1.1\r\nHost: b/c\r\n\r\n",
        400,
        E::ClientHostInvalid,
    ),
    ("bad Host, HTTP/1.0", b"GET / HTTP/1.0\r\nHost: b/c\r\n\r\n", 400, E::ClientHostInvalid),
    (
        "two Hosts, HTTP/1.0",
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
        400,
        E::ClientHostRepeated,
    ),
    (
        "user in the target",
        b"GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        E::ClientHostInvalid,
    ),
    (
        "no host in the target",
        b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        E::ClientHostInvalid,
    ),
    (
        "backslash for slash",
        b"GET http://a\\x HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        E::ClientHostInvalid,
    ),
    (
        "backslash in the path",
        b"GET /a\\..\\b HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        E::ClientTargetInvalid,
    ),
    ("asterisk and GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    ("asterisk and more", b"OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    ("relative path", b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    ("query alone", b"GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    ("authority as target", b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    ("other scheme", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    ("scheme inside", b"GET @http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, E::ClientTargetForm),
    (
        "scheme of another port",
        b"GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        421,
        E::ClientSchemeMisdirected,
    ),
    ("CONNECT", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 501, E::ClientConnect),
    (
        "TRACE with body",
        b"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        400,
        E::ClientTraceWithBody,
    ),
    (
        "coding in HTTP/1.0",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
        E::ClientTransferEncodingHttp10,
    ),
    (
        "coding and length in HTTP/1.0",
        b"POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
        E::ClientContentLengthWithTransferEncoding,
    ),
];

/// The form is refused as it should be, and no part of it is taken for a request.
fn refuse(name: &str, text: &[u8], status: u16, error: RequestError) {
    let read = |text: &[u8]| parse(text, Scheme::Http, &Limits::default());
    assert_eq!(read(text), Err(error), "{name}");
    assert_eq!(error.status(), status, "{name}");
    let mut refused = false;
    for end in 0..text.len() {
        match read(&text[..end]) {
            Ok(None) => assert!(!refused, "{name}: an error is forgotten at {end}"),
            Ok(Some(_)) => panic!("{name}: the first {end} bytes are taken for a request"),
            Err(_) => refused = true,
        }
    }
}

#[test]
fn forms_in_the_start_line_are_refused_at_once() {
    for (name, text, status, error) in START_LINE {
        refuse(name, text, *status, *error);
    }
}

#[test]
fn forms_in_field_lines_are_refused() {
    for (name, line, status, error) in LINES {
        let text = [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n", *line, b"\r\n\r\n"];
        refuse(name, &text.concat(), *status, *error);
    }
}

#[test]
fn forms_of_framing_are_refused() {
    for (name, line, status, error) in FRAMING {
        let text = [b"POST / HTTP/1.1\r\nHost: a\r\n", *line, b"\r\n\r\n"];
        refuse(name, &text.concat(), *status, *error);
    }
}

#[test]
fn forms_of_routing_are_refused() {
    for (name, text, status, error) in ROUTING {
        refuse(name, text, *status, *error);
    }
}

/// Every byte at every place around a `Transfer-Encoding` beside a `Content-Length`: refused, or a
/// field of plainly another name. Never two framings, and never one that only we do not see.
#[test]
fn no_byte_around_a_coding_hides_it() {
    for byte in 0..=255u8 {
        let around: [(&[u8], &[u8]); 7] = [
            (b"", b"Transfer-Encoding: chunked"),
            (b"Transfer-Encoding", b": chunked"),
            (b"Transfer-Encoding:", b"chunked"),
            (b"Transfer-Encoding: chunked", b""),
            (b"Transfer-Encoding: chunked", b"X: y"),
            (b"X: y", b"Transfer-Encoding: chunked"),
            (b"X: y\r", b"Transfer-Encoding: chunked"),
        ];
        for (before, after) in around {
            let line = [before, &[byte], after].concat();
            let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n";
            let text = [head, &line[..], b"\r\n\r\n"].concat();
            let line = String::from_utf8_lossy(&line);
            if let Ok(request) = parse(&text, Scheme::Http, &Limits::default()) {
                let request = request.expect("the head is complete");
                assert_eq!(request.framing, Framing::Length(5), "{line:?}");
                assert!(!request.head.fields.contains("transfer-encoding"), "{line:?}");
                let is_one_line = request.head.fields.len() == 2 && !line.contains(['\r', '\n']);
                assert!(is_one_line, "{line:?}");
            }
        }
    }
}

#[test]
fn a_request_hidden_in_a_body_stays_in_the_body() {
    let text = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 29\r\n\r\n\
                 GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let request = parse(text, Scheme::Http, &Limits::default()).unwrap().unwrap();
    assert_eq!(request.framing, Framing::Length(29));
    assert!(text[request.head_bytes..].starts_with(b"GET /evil"));
}

//! What is accepted, how limits act, and what an incomplete head does.

use super::*;

fn read(text: &str) -> Result<Option<Request>, RequestError> {
    parse(text.as_bytes(), Scheme::Http, &Limits::default())
}

fn accepted(text: &str) -> Request {
    read(text).expect(text).expect("the head is complete")
}

#[test]
fn a_plain_request_is_taken_apart() {
    let text = "GET /a/b?c=d HTTP/1.1\r\nHost: Example.com:8080\r\nAccept: */*\r\nvia:\r\n\r\nrest";
    let request = accepted(text);
    assert_eq!(request.head.method, Method::Get);
    assert_eq!(request.head.scheme, Scheme::Http);
    assert_eq!(request.head.authority, "example.com:8080");
    assert_eq!(request.head.target, "/a/b?c=d");
    assert_eq!(request.head.version, Version::Http11);
    let want: Fields = [("Accept", "*/*"), ("via", "")].into_iter().collect();
    assert_eq!(request.head.fields, want);
    assert_eq!((request.framing, request.head_bytes), (Framing::None, text.len() - 4));
    assert!(request.keep_alive && !request.expect_continue && !request.upgrade);
}

#[test]
fn everything_a_server_must_accept_is_accepted() {
    for text in [
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhoSt:\ta\r\nempty:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:   a \t \r\nX: \t \r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\u{e9}\u{ff}\tc\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET HTTP://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
        "M-SEARCH /%00?{=1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "!#$%&'*+-.^_`|~ / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~: x\r\n\r\n",
        "GET /a|b?c={d}[]^`\\ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET //a//../b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        accepted(text);
    }
}

#[test]
fn hosts_have_the_one_form_of_every_protocol() {
    for host in ["example.com", "Example.com", "a_b", "a:8080", "a:080", "a:", "[::0:1]:80", "a."] {
        let request = accepted(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let want = target::parse_authority(host.as_bytes()).expect("a good host");
        assert_eq!(request.head.authority, want);
    }
}

#[test]
fn what_browsers_encode_in_a_target_is_encoded_for_the_others() {
    for (sent, read) in [
        ("/b\u{fc}cher?q=\u{20ac}", "/b%C3%BCcher?q=%E2%82%AC"),
        ("/a\"<b>", "/a%22%3Cb%3E"),
        ("/a?{b}|c^`\\", "/a?{b}|c^`\\"),
        ("http://a/\u{e4}", "/%C3%A4"),
    ] {
        let request = accepted(&format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(request.head.target, read);
    }
}

#[test]
fn an_absolute_target_wins_over_host() {
    for (target, authority, path) in [
        ("http://Up.example:81/x?y", "up.example:81", "/x?y"),
        ("HTTP://up.example", "up.example", "/"),
        ("http://up.example?q", "up.example", "/?q"),
        ("http://[::1]/x", "[::1]", "/x"),
    ] {
        let request = accepted(&format!("GET {target} HTTP/1.1\r\nHost: down.example\r\n\r\n"));
        assert_eq!((&*request.head.authority, &*request.head.target), (authority, path));
        assert!(!request.head.fields.contains("host"));
    }
    let request = accepted("OPTIONS http://up.example HTTP/1.1\r\nHost: up.example\r\n\r\n");
    assert_eq!(request.head.target, "*");
}

#[test]
fn framing_and_connection_follow_the_fields() {
    let framing =
        |line: &str| accepted(&format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n")).framing;
    assert_eq!(framing("X: y"), Framing::None);
    assert_eq!(framing("content-LENGTH: 0"), Framing::Length(0));
    assert_eq!(framing("Content-Length: 18446744073709551615"), Framing::Length(u64::MAX));
    assert_eq!(framing("TransFer-Encoding:\tCHUNKED "), Framing::Chunked);

    let keeps = |version: &str, line: &str| {
        accepted(&format!("GET / HTTP/{version}\r\nHost: a\r\n{line}\r\n\r\n")).keep_alive
    };
    assert!(keeps("1.1", "X: y"));
    assert!(!keeps("1.1", "Connection: x, Close"));
    assert!(!keeps("1.0", "X: y"));
    assert!(keeps("1.0", "Connection: Keep-Alive"));
    assert!(!keeps("1.0", "Connection: keep-alive\r\nconnection: close"));
}

#[test]
fn expectations_count_only_with_a_body_and_http_11() {
    let read = |version: &str, lines: &str| {
        read(&format!("PUT / HTTP/{version}\r\nHost: a\r\n{lines}\r\n\r\n"))
            .map(|request| request.expect("the head is complete").expect_continue)
    };
    assert_eq!(read("1.1", "Expect: 100-Continue\r\nContent-Length: 5"), Ok(true));
    assert_eq!(read("1.1", "Expect: 100-continue\r\nTransfer-Encoding: chunked"), Ok(true));
    assert_eq!(read("1.1", "Expect: 100-continue"), Ok(false));
    assert_eq!(read("1.0", "Expect: 100-continue\r\nContent-Length: 5"), Ok(false));
    assert_eq!(read("1.0", "Expect: tea"), Ok(false));
    assert_eq!(read("1.1", "Expect: tea"), Err(RequestError::ClientExpectation));
    assert_eq!(RequestError::ClientExpectation.status(), 417);
}

#[test]
fn an_upgrade_must_be_named_in_connection_and_have_no_body() {
    let asks =
        |lines: &str| accepted(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")).upgrade;
    assert!(asks("Upgrade: websocket\r\nConnection: keep-alive, Upgrade"));
    assert!(!asks("Upgrade: websocket"));
    assert!(!asks("Connection: upgrade"));
    assert!(!asks("Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 3"));
}

#[test]
fn every_prefix_of_a_good_head_asks_for_more() {
    let text = "\r\nPOST /x?y HTTP/1.1\r\nHost: a.example\r\nX-Tab:\t b\tc \r\nContent-Length: 5\r\n\
                Connection: close\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(read(&text[..end]), Ok(None), "{:?}", &text[..end]);
    }
    assert!(accepted(text).head_bytes == text.len());
}

#[test]
fn a_pipelined_request_is_left_in_the_buffer() {
    let first = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let both = format!("{first}GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let request = accepted(&both);
    assert_eq!((&*request.head.target, request.head_bytes), ("/1", first.len()));
    assert_eq!(accepted(&both[first.len()..]).head.target, "/2");
}

#[test]
fn limits_hold_before_the_head_is_complete() {
    let limits =
        Limits { head_bytes_max: 200, fields_max: 3, target_bytes_max: 20, ..Limits::default() };
    let read = |text: &str| parse(text.as_bytes(), Scheme::Http, &limits);

    assert_eq!(read(&format!("GET /{}", "a".repeat(19))), Ok(None));
    let error = read(&format!("GET /{}", "a".repeat(20))).unwrap_err();
    assert_eq!((error, error.status()), (RequestError::ClientTargetTooLong, 414));

    let fields = |count: usize| format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(count));
    assert_eq!(read(&fields(3)), Ok(None));
    let error = read(&fields(4)).unwrap_err();
    assert_eq!((error, error.status()), (RequestError::ClientFieldsTooMany, 431));

    let open = "GET / HTTP/1.1\r\nX: ";
    assert_eq!(read(&format!("{open}{}", "y".repeat(199 - open.len()))), Ok(None));
    let error = read(&format!("{open}{}", "y".repeat(200 - open.len()))).unwrap_err();
    assert_eq!((error, error.status()), (RequestError::ClientHeadTooLarge, 431));

    let whole = |fill: usize| format!("GET / HTTP/1.0\r\nX: {}\r\n\r\n", "y".repeat(fill));
    let fill = 200 - whole(0).len();
    assert!(read(&whole(fill)).is_ok_and(|request| request.is_some()));
    assert_eq!(read(&whole(fill + 1)), Err(RequestError::ClientHeadTooLarge));

    let error = read(&"A".repeat(METHOD_BYTES_MAX + 1)).unwrap_err();
    assert_eq!((error, error.status()), (RequestError::ClientMethodTooLong, 501));
}

#[test]
fn reasons_can_stand_in_a_field() {
    for error in RequestError::ALL {
        assert!(error.reason().bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        assert!((400..600).contains(&error.status()));
        assert_eq!(error.to_string(), error.reason());
    }
}

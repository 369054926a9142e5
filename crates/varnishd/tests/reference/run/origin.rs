//! An origin that answers the same request the same way, and remembers what it was asked.

use super::message::{Message, read};
use crate::grammar::PROBED;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long it waits for the rest of a request.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long what is slow takes: longer than some policies wait, and shorter than all others.
const SLOW_FOR: Duration = Duration::from_millis(900);
/// What a target has in it whose answer is slow, whatever it is.
pub(super) const SLOW: &str = "slow";
/// After which time it breaks off what it said would be longer: once its head has been passed on.
const BREAKS_OFF_AFTER: Duration = Duration::from_millis(300);

/// What it says, by the last digits of the hash of what it is asked for.
const ANSWERS: [&str; 43] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: s-maxage=60\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"tag\"\r\nContent-Length: 12\r\n\r\n<p>hello</p>",
    "HTTP/1.1 200 OK\r\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nContent-Length: 3\r\n\r\nold",
    "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end",
    "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 6\r\n\r\ncookie",
    "HTTP/1.1 200 OK\r\nCache-Control: private, max-age=10\r\nContent-Length: 4\r\n\r\nmine",
    "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 4\r\n\r\nnone",
    "HTTP/1.1 200 OK\r\nVary: Accept-Encoding\r\nContent-Length: 4\r\n\r\nvary",
    "HTTP/1.1 200 OK\r\nVary: *\r\nContent-Length: 4\r\n\r\nstar",
    "HTTP/1.1 200 OK\r\nVary: A, b\r\nCache-Control: max-age=30\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone",
    "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nerror",
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 4\r\n\r\nbusy",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 200 OK\r\nAge: 20\r\nCache-Control: max-age=30\r\nContent-Length: 4\r\n\r\naged",
    "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2015 00:00:00 GMT\r\nExpires: Thu, 01 Jan 2015 00:01:00 GMT\r\nContent-Length: 4\r\n\r\nlong",
    "HTTP/1.1 200 OK\r\nExpires: 0\r\nContent-Length: 4\r\n\r\nzero",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 60\r\n\r\n<p>in: <esi:include src=\"/esi/1\"/><esi:remove>x</esi:remove>",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 47\r\n\r\n<html>a<esi:include src=\"/inner\"/>b<!--esi c-->",
    "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\nCookie: b=2\r\nA: from origin\r\nContent-Length: 3\r\n\r\ntwo",
    "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\n\r\nempty",
    "HTTP/1.1 410 Gone\r\nCache-Control: max-age=5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nxkey: cat_1\r\nContent-Length: 9\r\n\r\n<p>tagged",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<p>broken",
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"tag\"\r\nContent-Length: 5\r\n\r\nstale",
    "HTTP/1.1 200 OK\r\nCache-Control: public, s-maxage=0, max-age=60\r\nPragma: no-cache\r\nContent-Length: 6\r\n\r\nshared",
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\npart",
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno",
    "HTTP/1.1 403 Forbidden\r\nCache-Control: max-age=20\r\nContent-Length: 9\r\n\r\nforbidden",
    "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://example.com:8080/x\r\nCache-Control: max-age=9\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nSurrogate-Control: max-age=30, content=\"ESI/1.0\"\r\nCache-Control: no-cache\r\nContent-Type: text/html\r\nContent-Length: 10\r\n\r\n<p>capable",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\nETag: W/\"weak\"\r\nVary: Accept-Encoding\r\nContent-Length: 4\r\n\r\n{\"a\"",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 3\r\n\r\nhop",
    "HTTP/1.1 200 OK\r\nX-Slow: head\r\nContent-Length: 4\r\n\r\nslow",
    "HTTP/1.1 200 OK\r\nX-Slow: body\r\nContent-Length: 8\r\n\r\nsl...ow.",
    "HTTP/1.1 200 OK\r\nX-Slow: body\r\nCache-Control: max-age=9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nslo\r\n4\r\nwest\r\n0\r\n\r\n",
    // Pages whose parts are drawn by what is asked for.
    ESI,
    ESI_PACKED,
    "",
];
/// Heads of pages that are made of pieces.
const ESI: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
const ESI_PACKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nVary: Accept-Encoding\r\n";
/// What such a page is made of, right and wrong.
const ESI_PIECES: [&str; 26] = [
    "<p>text</p>",
    " - -- ",
    "<esi:include src=\"/esi/1\"/>",
    "<esi:include src='/a/2.png' onerror=\"continue\" />",
    "<esi:include src=\"inner?b=1&amp;c=2\"/>",
    "<esi:include src=\"http://example.org/3\"/>",
    "<esi:include src=\"https://example.org/4\"/>",
    "<esi:include src=\"/5\">",
    "<esi:include src=/6 />",
    "<esi:include src=\"/7\" src=\"/8\"/>",
    "<esi:include source=\"/9\"/>",
    "<esi:include src=\"/a b\"/>",
    "<esi:include src=\"/10/>",
    "<esi:includes src=\"/11\"/>",
    "<esi:include k?=1 src=\"/12\"/>",
    "</esi:include>",
    "<esi:remove>",
    "</esi:remove>",
    "<esi:remove/>",
    "<esi:comment text=\"x\"/>",
    "<esi:comment text>",
    "<esi:vars>$(HTTP_HOST)</esi:vars>",
    "<!--esi",
    "-->",
    "<!-- <esi:include src=\"/13\"/> -->",
    "<![CDATA[<esi:remove>]]>",
];

/// Listens twice, as two backends of one site do.
pub(super) struct Origin {
    pub(super) ports: [u16; 2],
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    pub(super) fn start() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let ports = ["", "X-From: other\r\n"].map(|name| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let kept = Arc::clone(&asked);
            std::thread::spawn(move || {
                for socket in listener.incoming().flatten() {
                    let asked = Arc::clone(&kept);
                    std::thread::spawn(move || serve(socket, name, &asked));
                }
            });
            port
        });
        Self { ports, asked }
    }

    /// What it was asked since it was last looked at, a head for each.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// Answers what comes over a connection, with a field that says which of the two it is.
fn serve(socket: TcpStream, name: &str, asked: &Mutex<Vec<String>>) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = socket.set_nodelay(true);
    let mut bytes = Vec::new();
    let mut socket = socket;
    while let Ok(Message { head, body, end }) = read(&mut socket, &mut bytes, None) {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let answer = answer_to(target);
        // When it is probed is nobody's wish.
        if target != PROBED {
            let head = match body.is_empty() {
                true => head.clone(),
                false => {
                    with_field(&head, &format!("Body: {} {:x} {end}\r\n", body.len(), hash(&body)))
                }
            };
            note(&mut asked.lock().unwrap(), &with_field(&head, name), answer);
        }
        let answer = if answer.is_empty() && method != "GET" { ANSWERS[0] } else { answer };
        let answer = if is_fresh(&head) && answer.contains("ETag") {
            "HTTP/1.1 304 Not Modified\r\nETag: \"tag\"\r\n\r\n"
        } else {
            answer
        };
        let made = made_of_pieces(answer, target);
        let answer = made.as_deref().unwrap_or(answer);
        let (top, body) = answer.split_at(answer.find("\r\n\r\n").map_or(0, |at| at + 4));
        let (top, mut body) = if top.contains("Vary: Accept-Encoding") && head.contains("gzip") {
            packed(top, body)
        } else {
            (top.to_owned(), body.as_bytes().to_vec())
        };
        let length = top.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.and_then(|length| length.parse::<usize>().ok());
        let breaks_off = length.is_some_and(|length| body.len() < length);
        let ends = length.is_none()
            && ["chunked", " 304 ", " 204 "].iter().all(|word| !top.contains(word));
        if method == "HEAD" || top.contains(" 304 ") {
            body.clear();
        }
        let top = with_field(&top, name);
        if top.contains("\nX-Slow: head\r") || target.contains(SLOW) {
            std::thread::sleep(SLOW_FOR);
        }
        let half = if top.contains("\nX-Slow: body\r") { body.len() / 2 } else { body.len() };
        let (first, second) = body.split_at(half);
        if socket.write_all(&[top.as_bytes(), first].concat()).is_err() {
            return;
        }
        if !second.is_empty() {
            std::thread::sleep(SLOW_FOR);
            if socket.write_all(second).is_err() {
                return;
            }
        }
        if breaks_off && method != "HEAD" {
            std::thread::sleep(BREAKS_OFF_AFTER);
            break;
        }
        // Where bytes are only carried, nobody else ends it.
        let is_last = head.to_ascii_lowercase().contains("\nconnection: close\r");
        if ends || is_last {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Write);
    // What is still to come is read, or closing would throw away what was sent.
    let _ = socket.read_to_end(&mut Vec::new());
}

/// A head with one more line behind its first, where that is any.
fn with_field(head: &str, line: &str) -> String {
    let end = head.find("\r\n").map_or(head.len(), |at| at + 2);
    [&head[..end], line, &head[end..]].concat()
}

/// Keeps what was asked. What gets no answer may be asked again by itself, and nothing is said of how
/// often: that depends on whose connection was used before.
fn note(asked: &mut Vec<String>, head: &str, answer: &str) {
    let is_again = answer.is_empty() && asked.last().is_some_and(|last| plain(last) == plain(head));
    if !is_again {
        asked.push(head.to_owned());
    }
}

/// A head without what is another each time.
fn plain(head: &str) -> Vec<&str> {
    let mut lines: Vec<_> = head.lines().filter(|line| !line.starts_with("X-Varnish")).collect();
    lines.sort_unstable();
    lines
}

fn answer_to(target: &str) -> &'static str {
    ANSWERS[hash(target) as usize % ANSWERS.len()]
}

/// Whether it is said in time how long the answer to this is. Of one that goes on until the end, a
/// part is answered if all of it has come by then.
pub(super) fn says_length(target: &str) -> bool {
    let answer = answer_to(target);
    !(answer.starts_with("HTTP/1.0") || answer.contains("chunked"))
}

/// A page of pieces, where that is the answer.
fn made_of_pieces(top: &str, target: &str) -> Option<String> {
    if !matches!(top, ESI | ESI_PACKED) {
        return None;
    }
    let mut draw = crate::draw::Draw::seeded(hash(target).into());
    let count = 1 + draw.below(7);
    let pieces: String = (0..count).map(|_| draw.of(&ESI_PIECES)).collect();
    let body = format!("<html>{pieces}end");
    Some(format!("{top}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// An answer with its body packed.
fn packed(top: &str, body: &str) -> (String, Vec<u8>) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let length = format!("Content-Encoding: gzip\r\nContent-Length: {}", packed.len());
    let plain = format!("Content-Length: {}", body.len());
    (top.replace(&plain, &length), packed)
}

fn is_fresh(head: &str) -> bool {
    head.lines().any(|line| line.to_ascii_lowercase().starts_with("if-none-match: \"tag\""))
}

/// FNV-1a.
fn hash(text: impl AsRef<[u8]>) -> u32 {
    text.as_ref()
        .iter()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

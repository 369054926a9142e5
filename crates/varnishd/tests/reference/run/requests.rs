//! Random requests.

use super::origin::{SLOW, says_length};
use crate::draw::Draw;

/// A request, its method apart from what is sent.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) text: String,
    /// Whether it is sent over a connection of its own while the one before it is answered.
    pub(super) is_beside: bool,
}

const METHODS: [&str; 14] = [
    "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE",
    "OPTIONS", "PURGE",
];
const FIELDS: [&str; 30] = [
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
    "Range: bytes=-2",
    "If-Modified-Since: yesterday",
    "X-Forwarded-For: 192.0.2.9, 10.0.0.1",
    "TE: trailers",
];
/// What policies that operators write look at.
const USUAL_METHODS: [&str; 12] = [
    "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "PURGE", "BAN", "REFRESH",
];
const USUAL_TARGETS: [&str; 24] = [
    "/",
    "/news/",
    "/index.php?b=2&a=1",
    "/page?utm_source=x&utm_medium=y&id=3",
    "/page?gclid=abc",
    "/page?fbclid=1&x=2#top",
    "/page?",
    "/static/style.css",
    "/static/app.js?v=12",
    "/images/logo.png",
    "/media/film.mp4",
    "/files/archive.zip",
    "/favicon.ico",
    "/robots.txt",
    "/admin",
    "/wp-admin/edit.php",
    "/wp-login.php",
    "/user/login",
    "/checkout/cart",
    "/api/items.json",
    "/feed",
    "/preview?preview=true",
    "/ping",
    "/varnish-status",
];
const USUAL_FIELDS: [&str; 44] = [
    "Cookie: has_js=1; __utma=1.2.3; _ga=GA1.2; SESS0123456789abcdef0123456789abcdef=abc",
    "Cookie: wordpress_logged_in_0=admin; wp-settings-1=x",
    "Cookie: PHPSESSID=abc; lang=de",
    "Cookie: frontend=1; X-Magento-Vary=ab; store=de",
    "Cookie: __qca=1; _gat=2; utmctr=3",
    "Cookie: ;; a=1",
    "Cookie: NO_CACHE=1",
    "Cookie:",
    "Authorization: Basic YTpi",
    "Accept-Encoding: gzip, deflate, br",
    "Accept-Encoding: deflate",
    "Accept-Encoding: br",
    "Accept-Language: de-AT,de;q=0.9,en;q=0.5",
    "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148",
    "User-Agent: Mozilla/5.0 (Linux; Android 14; Pixel) Chrome/120 Mobile Safari/537.36",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/120.0",
    "User-Agent: Googlebot/2.1 (+http://www.google.com/bot.html)",
    "User-Agent: curl/8.5",
    "Cache-Control: no-cache",
    "Cache-Control: max-age=0",
    "Pragma: no-cache",
    "X-Forwarded-For: 192.0.2.9, 10.0.0.1",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Port: 443",
    "X-Requested-With: XMLHttpRequest",
    "X-Magento-Tags-Pattern: cat_1",
    "X-Purge-Method: regex",
    "X-Ban-Url: /news",
    "Origin: https://example.com",
    "Referer: https://example.org/x",
    "Proxy: http://evil.example/",
    "If-None-Match: \"tag\"",
    "If-Modified-Since: Fri, 02 Jan 2015 00:00:00 GMT",
    "Range: bytes=0-1",
    "Range: bytes=-2",
    "Accept: text/html,image/webp;q=0.9,*/*;q=0.1",
    "Save-Data: on",
    "Upgrade-Insecure-Requests: 1",
    "X-Restart: 1",
    "X-Hash: h2",
    "If-None-Match: W/\"weak\"",
    "Accept-Language: fr;q=0.1, en-GB, de;q=0.7",
    "User-Agent: ",
    "X-Forwarded-For: fe80::1",
];
const USUAL_HOSTS: [&str; 4] =
    ["example.com", "www.example.com", "example.org:8080", "static.example.com"];
/// Few enough to be asked for again.
const TARGETS: usize = 5;
/// Once in how many places several ask at once.
const TOGETHER_ONCE_IN: usize = 6;

/// Some requests for a policy; each target means another answer of the origin.
pub(super) fn requests(seed: u64, count: usize) -> Vec<Ask> {
    let mut draw = Draw::seeded(!seed);
    let first = draw.below(1000);
    let mut asks = Vec::new();
    while asks.len() < count {
        if draw.once_in(TOGETHER_ONCE_IN) {
            asks.extend(together(&mut draw, first));
        } else {
            let target = target(&mut draw, first);
            asks.push(one(&mut draw, &target));
        }
    }
    asks
}

/// The same asked for by several at once, while it is slow to come, and sometimes once more behind that.
fn together(draw: &mut Draw, first: usize) -> Vec<Ask> {
    let target = format!("{}?{SLOW}", target(draw, first));
    let mut asks: Vec<Ask> = (0..2 + draw.below(3)).map(|_| one(draw, &target)).collect();
    if draw.once_in(3) {
        // All alike, as those of a crowd are.
        let first = asks[0].clone();
        asks.fill(first);
    }
    asks[1..].iter_mut().for_each(|ask| ask.is_beside = true);
    if draw.once_in(3) {
        asks.push(one(draw, &target));
    }
    asks
}

/// Some requests as they come to sites, for policies as their operators write them.
pub(super) fn usual(seed: u64, count: usize) -> Vec<Ask> {
    let mut draw = Draw::seeded(!seed);
    // Few, so that some are asked for again.
    let targets: Vec<_> = (0..TARGETS).map(|_| draw.of(&USUAL_TARGETS)).collect();
    let host = draw.of(&USUAL_HOSTS);
    (0..count).map(|_| usual_one(&mut draw, &targets, host)).collect()
}

fn usual_one(draw: &mut Draw, targets: &[&str], host: &str) -> Ask {
    let (method, target) = (draw.of(&USUAL_METHODS), draw.of(targets));
    let host = if draw.once_in(8) { draw.of(&USUAL_HOSTS) } else { host };
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    for _ in 0..draw.below(4) {
        let field = draw.of(&USUAL_FIELDS);
        let name = field.split(':').next().unwrap_or("");
        let is_unfit = (name == "Range" && (method != "GET" || !says_length(target)))
            || (name.starts_with("If-") && !matches!(method, "GET" | "HEAD"));
        if is_unfit || text.contains(&format!("\n{name}:")) {
            continue;
        }
        text += field;
        text += "\r\n";
        if name == "Range" && !text.contains("\nAccept-Encoding:") {
            text += "Accept-Encoding: gzip\r\n";
        }
    }
    text += if method == "POST" { "Content-Length: 4\r\n\r\nbody" } else { "\r\n" };
    Ask { method: method.into(), text, is_beside: false }
}

fn target(draw: &mut Draw, first: usize) -> String {
    let number = first + draw.below(TARGETS);
    match draw.below(6) {
        0 => format!("/{number}?b=2&a=1"),
        1 => format!("/a/{number}.png"),
        _ => format!("/{number}"),
    }
}

fn one(draw: &mut Draw, target: &str) -> Ask {
    let method = draw.of(&METHODS);
    let version = if draw.once_in(30) { "1.0" } else { "1.1" };
    let mut text = format!("{method} {target} HTTP/{version}\r\n");
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
            "Range" => method == "GET" && says_length(target),
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
    text += &match method {
        // Nobody is to take that from who speaks HTTP/1.0 (RFC 9112 §6.1).
        "POST" | "PUT" if version == "1.1" && draw.once_in(3) => chunked(draw),
        "POST" | "PUT" => {
            let body = body(draw);
            format!("Content-Length: {}\r\n\r\n{body}", body.len())
        }
        _ => "\r\n".to_owned(),
    };
    Ask { method: method.into(), text, is_beside: false }
}

/// What is sent along, seldom more than is kept for a policy.
fn body(draw: &mut Draw) -> String {
    let bytes = match draw.below(6) {
        0 => 0,
        1 => 500,
        2 => 3000,
        3 => 40_000,
        _ => 4,
    };
    "body".chars().cycle().take(bytes).collect()
}

/// The same in chunks of several lengths.
fn chunked(draw: &mut Draw) -> String {
    let mut out = "Transfer-Encoding: chunked\r\n\r\n".to_owned();
    for _ in 0..draw.below(4) {
        let piece = match draw.below(3) {
            0 => "a".repeat(2000),
            1 => "abc".to_owned(),
            _ => "0123456789abcdef".to_owned(),
        };
        out += &format!("{:x}\r\n{piece}\r\n", piece.len());
    }
    out + "0\r\n\r\n"
}

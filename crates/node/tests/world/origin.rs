//! An origin of the world: honest about whose bytes it sends, and about little else.

use crate::entity::{Framing, Identity, Nature, SITES, Sharing, TAGS, has_tag, path_of, tag};
use crate::message::{Head, Reader};
use crate::oracle::Sent;
use crate::time;
use crate::world::World;
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::stream::Stream;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// What goes wrong with one response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// Another status, with a few words.
    Error(u16),
    /// The end after so many bytes of the body.
    BreaksOff(u64),
    /// Nothing for so long before the head.
    SilentHead(Duration),
    /// Nothing for so long in the middle of the body.
    SilentBody(Duration),
    /// A length that is not that of what comes: so many bytes more are promised.
    PromisesMore(u64),
    /// So many bytes come behind what was promised.
    SendsMore(u64),
    /// A 304 that names another version.
    ConfirmsOther,
    /// A 304 about whatever was asked for.
    ConfirmsAll,
    /// A part that was not asked for.
    OtherPart,
    /// The end before a head.
    Hangs,
}

/// Where a site's origin is.
pub(crate) fn address(site: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, site as u8], 80))
}

/// Serves a site as long as the world lasts.
pub(crate) fn start(world: &Rc<World>, site: usize) {
    let listener = Listener::bind(&Address::Tcp(address(site)), &ListenOptions::default());
    let listener = listener.expect("nobody else is at an origin's address");
    let world = Rc::clone(world);
    spawn_local(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let world = Rc::clone(&world);
            spawn_local(async move {
                let mut reader = Reader::new(Stream::from(socket));
                while let Ok(true) = exchange(&world, site, &mut reader).await {}
            });
        }
    });
}

/// One request and its response; whether the connection is good for more.
async fn exchange(world: &World, site: usize, reader: &mut Reader) -> io::Result<bool> {
    let Some(request) = reader.head().await? else { return Ok(false) };
    let at = time::now();
    let mut words = request.first.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let Some(path) = path_of(target) else { return Ok(false) };
    if request.field("host") != Some(SITES[site]) {
        world.wrong(format!("origin {site} was asked for {:?}", request.field("host")));
    }
    if method == "POST" {
        let mut as_response = request.clone();
        as_response.first = "HTTP/1.1 200 OK".into();
        reader.body(&as_response, false, u64::MAX).await;
        world.note_post(request.field("x-request").unwrap_or(""));
    }
    let fault = draw_fault(world);
    let nature = &world.natures[path];
    world.say(format!("origin {site}: {} {fault:?} {}", request.first, asks(&request)));
    match fault {
        Some(Fault::Hangs) => return Ok(false),
        Some(Fault::SilentHead(time)) => sleep(time).await,
        _ => {}
    }
    let user = if nature.is_personal() { user_of(&request) } else { 0 };
    let identity = Identity { site, path, version: world.version(path, at), user };
    let answer = Answer { world, request: &request, nature, identity, at, fault };
    answer.send(method, reader).await
}

/// A response that is being made.
struct Answer<'a> {
    world: &'a World,
    request: &'a Head,
    nature: &'a Nature,
    identity: Identity,
    at: Duration,
    fault: Option<Fault>,
}

impl Answer<'_> {
    async fn send(&self, method: &str, reader: &mut Reader) -> io::Result<bool> {
        if let Some(Fault::Error(status)) = self.fault {
            let head = format!("HTTP/1.1 {status} No\r\nContent-Length: 4\r\n\r\n");
            let body: &[u8] = if method == "HEAD" { b"" } else { b"sad\n" };
            reader.stream.write(&[head.as_bytes(), body].concat()).await?;
            return Ok(true);
        }
        if method != "POST"
            && let Some(confirmed) = self.confirmed()
        {
            let head = format!(
                "HTTP/1.1 304 Not Modified\r\nDate: {}\r\nCache-Control: {}\r\n{confirmed}\r\n",
                time::date(),
                self.nature.cache_control()
            );
            reader.stream.write(head.as_bytes()).await?;
            return Ok(true);
        }
        let total = if method == "POST" { 3 } else { self.nature.bytes };
        let part = self.part(method, total);
        if let Some(None) = part {
            let head = format!(
                "HTTP/1.1 416 No\r\nContent-Length: 0\r\nContent-Range: bytes */{total}\r\n\r\n"
            );
            reader.stream.write(head.as_bytes()).await?;
            return Ok(true);
        }
        let range = part.flatten();
        let more = match self.fault {
            Some(Fault::PromisesMore(more)) if method == "GET" => more,
            _ => 0,
        };
        let serial = self.world.note_sent(Sent {
            identity: self.identity,
            at: self.at,
            answered: time::now(),
            promised_bytes: total + more,
            part: range.clone(),
            given: Vec::new(),
        });
        let mut head = match &range {
            Some(range) => format!(
                "HTTP/1.1 206 Part\r\nContent-Range: bytes {}-{}/{total}\r\n",
                range.start,
                range.end - 1
            ),
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        let Identity { site, path, version, user } = self.identity;
        head.push_str(&format!(
            "Date: {}\r\nX-Serial: {serial}\r\nX-Identity: {site}-{path}-{version}-{user}\r\n",
            time::date()
        ));
        if method != "POST" {
            head.push_str(&format!("Cache-Control: {}\r\n", self.nature.cache_control()));
            if self.nature.sharing == Sharing::Cookie {
                head.push_str(&format!("Set-Cookie: seen={user}\r\n"));
            }
            if let Some((name, value)) = self.nature.validator_field(self.identity) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            let tags = (0..TAGS).filter(|number| has_tag(path, *number)).map(tag);
            head.push_str(&format!("Surrogate-Key: {}\r\n", tags.collect::<Vec<_>>().join(" ")));
        }
        self.body(head, (method, more), range.unwrap_or(0..total), reader).await
    }

    /// Sends the head with what it says of the body, and the body.
    async fn body(
        &self,
        mut head: String,
        (method, more): (&str, u64),
        range: Range<u64>,
        reader: &mut Reader,
    ) -> io::Result<bool> {
        let length = range.end - range.start;
        let is_chunked = self.nature.framing == Framing::Chunked
            && !matches!(self.fault, Some(Fault::PromisesMore(_) | Fault::SendsMore(_)));
        if is_chunked && method != "HEAD" {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
        } else {
            head.push_str(&format!("Content-Length: {}\r\n\r\n", length + more));
        }
        reader.stream.write(head.as_bytes()).await?;
        if method == "HEAD" {
            return Ok(true);
        }
        let bytes = self.identity.bytes(range);
        let ends_at = match self.fault {
            Some(Fault::BreaksOff(after)) if after < length => after as usize,
            _ => bytes.len(),
        };
        let pause = match self.fault {
            Some(Fault::SilentBody(time)) => time,
            _ => Duration::ZERO,
        };
        let middle = bytes.len() / 2;
        for piece in bytes[..ends_at].chunks(4096.max(middle)) {
            if is_chunked {
                reader.stream.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            }
            reader.stream.write(piece).await?;
            if is_chunked {
                reader.stream.write(b"\r\n").await?;
            }
            sleep(pause).await;
        }
        match self.fault {
            Some(Fault::BreaksOff(after)) if after < length => return Ok(false),
            Some(Fault::PromisesMore(_)) if more > 0 => return Ok(false),
            Some(Fault::SendsMore(count)) => {
                reader.stream.write(&vec![b'!'; count as usize]).await?;
                return Ok(false);
            }
            _ => {}
        }
        if is_chunked {
            reader.stream.write(b"0\r\n\r\n").await?;
        }
        Ok(true)
    }

    /// The validator of a 304, where one is sent.
    fn confirmed(&self) -> Option<String> {
        let own = self.nature.validator_field(self.identity);
        let none_match = self.request.field("if-none-match");
        let modified_since = self.request.field("if-modified-since");
        none_match.or(modified_since)?;
        let (name, value) = own.unwrap_or(("X-Nothing", String::new()));
        if self.fault == Some(Fault::ConfirmsOther) && name == "ETag" {
            return Some("ETag: \"another\"\r\n".into());
        }
        if self.fault == Some(Fault::ConfirmsAll) {
            self.world.note_all_confirmed(self.identity, self.at, none_match, modified_since);
            return Some(String::new());
        }
        let is_own = match (none_match, modified_since) {
            (Some(tags), _) => {
                name == "ETag" && tags.split(", ").any(|tag| opaque(tag) == opaque(&value))
            }
            (None, Some(date)) => name == "Last-Modified" && date == value,
            (None, None) => false,
        };
        is_own.then(|| {
            self.world.note_confirmed(self.identity, self.at);
            format!("{name}: {value}\r\n")
        })
    }

    /// The part that is sent instead of the whole; an inner `None` where there is none of what was asked
    /// for.
    fn part(&self, method: &str, total: u64) -> Option<Option<Range<u64>>> {
        let asked = self.request.field("range").filter(|_| self.nature.has_ranges)?;
        if method != "GET" {
            return None;
        }
        if let Some(condition) = self.request.field("if-range") {
            let own = self.nature.validator_field(self.identity);
            if own.is_none_or(|(_, value)| value != condition || value.starts_with("W/")) {
                return None;
            }
        }
        let (first, last) = asked.strip_prefix("bytes=")?.split_once('-')?;
        let range = match (first.parse::<u64>().ok(), last.parse::<u64>().ok()) {
            (Some(first), Some(last)) => first..last.saturating_add(1).min(total),
            (Some(first), None) => first..total,
            (None, Some(count)) => total.saturating_sub(count)..total,
            (None, None) => return None,
        };
        if range.start >= range.end {
            return Some(None);
        }
        if self.fault == Some(Fault::OtherPart) {
            return Some(Some(0..(range.end - range.start)));
        }
        Some(Some(range))
    }
}

fn draw_fault(world: &World) -> Option<Fault> {
    let mut random = world.random.borrow_mut();
    if !random.chance(world.faults_permille) {
        return None;
    }
    Some(match random.within(0..10) {
        0 => Fault::Error(random.of(&[500, 503, 404])),
        1 => Fault::BreaksOff(random.within(0..100_000)),
        2 => Fault::SilentHead(Duration::from_millis(random.within(1..90_000))),
        3 => Fault::SilentBody(Duration::from_millis(random.within(1..40_000))),
        4 => Fault::PromisesMore(random.within(1..1000)),
        5 => Fault::SendsMore(random.within(1..1000)),
        6 => Fault::ConfirmsOther,
        7 => Fault::ConfirmsAll,
        8 => Fault::OtherPart,
        _ => Fault::Hangs,
    })
}

/// The user a request speaks for; 0 where it does for nobody.
fn user_of(request: &Head) -> u64 {
    let cookie = request.field("cookie").and_then(|value| value.strip_prefix("user="));
    let token = request.field("authorization").and_then(|value| value.strip_prefix("Bearer "));
    token.or(cookie).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// What a request asks for besides its target.
fn asks(request: &Head) -> String {
    let told =
        ["range", "if-range", "if-none-match", "if-modified-since", "cookie", "authorization"];
    let said = told.iter().filter_map(|name| Some(format!("{name}={}", request.field(name)?)));
    said.collect::<Vec<_>>().join(" ")
}

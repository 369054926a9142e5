//! An origin of the world: honest about whose bytes it sends, and about little else.

use crate::entity::{
    Framing, Identity, Nature, SITES, Sharing, TAGS, Validator, has_tag, path_of, tag,
};
use crate::http2;
use crate::message::{Head, Reader};
use crate::oracle::Sent;
use crate::policy;
use crate::random::Random;
use crate::time;
use crate::way::Way;
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

/// Of a thousand sites so many have two origins.
const TWO_ORIGINS_PERMILLE: u64 = 300;
/// Of a thousand sites so many are asked for in HTTP/2.
const HTTP2_PERMILLE: u64 = 200;

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

/// The origins of a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origins {
    pub(crate) count: usize,
    /// Whether each has content of its own.
    pub(crate) differ: bool,
    /// How a node without a policy finds one.
    pub(crate) director: &'static str,
    pub(crate) have_http2: bool,
}

impl Origins {
    /// Decides about the origins of the world of a seed. What is drawn for them is drawn apart: a world with one
    /// for each site is the same as if there never were more.
    pub(crate) fn draw(seed: u64) -> [Self; SITES.len()] {
        let mut random = Random(seed ^ 0x6f72_6967_696e);
        std::array::from_fn(|site| Self {
            count: 1 + random.chance(TWO_ORIGINS_PERMILLE) as usize,
            differ: random.chance(500),
            director: random.of(&["round-robin", "hash", "fallback"]),
            // A policy speaks to its backends in HTTP/1.1.
            have_http2: random.chance(HTTP2_PERMILLE) && site != policy::SITE,
        })
    }

    /// Where those of a site are.
    pub(crate) fn addresses(&self, site: usize) -> Vec<SocketAddr> {
        (0..self.count)
            .map(|number| SocketAddr::from(([10, 1, number as u8, site as u8], 80)))
            .collect()
    }
}

/// One origin.
struct Origin {
    world: Rc<World>,
    site: usize,
    number: u64,
}

/// Serves a site as long as the world lasts.
pub(crate) fn start_all(world: &Rc<World>, site: usize) {
    for (address, number) in world.origins[site].addresses(site).into_iter().zip(0..) {
        let listener = Listener::bind(&Address::Tcp(address), &ListenOptions::default());
        let listener = listener.expect("nobody else is at an origin's address");
        let origin = Rc::new(Origin { world: Rc::clone(world), site, number });
        spawn_local(async move {
            while let Ok((socket, _)) = listener.accept().await {
                spawn_local(Rc::clone(&origin).serve(Stream::from(socket)));
            }
        });
    }
}

impl Origin {
    async fn serve(self: Rc<Self>, stream: Stream) {
        if self.world.origins[self.site].have_http2 {
            return http2::serve(stream, |request, mut way| {
                let origin = Rc::clone(&self);
                async move {
                    let at = time::now();
                    let _ = origin.answer(&request, at, &mut way).await;
                }
            })
            .await;
        }
        let mut reader = Reader::new(stream);
        while let Ok(true) = self.exchange(&mut reader).await {}
    }

    /// One request and its response in HTTP/1.1; whether the connection is good for more.
    async fn exchange(&self, reader: &mut Reader) -> io::Result<bool> {
        let Some(request) = reader.head().await? else { return Ok(false) };
        let at = time::now();
        if request.first.starts_with("POST ") {
            let mut as_response = request.clone();
            as_response.first = "HTTP/1.1 200 OK".into();
            reader.body(&as_response, false, u64::MAX).await;
        }
        self.answer(&request, at, &mut Way::http1(reader)).await
    }

    /// The response to a request that has been read; whether it went as it should.
    async fn answer(&self, request: &Head, at: Duration, way: &mut Way<'_>) -> io::Result<bool> {
        let Self { world, site, number } = self;
        let (world, site) = (&**world, *site);
        let mut words = request.first.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let Some(path) = path_of(target) else { return Ok(false) };
        if request.field("host") != Some(SITES[site]) {
            world.wrong(format!("origin {site} was asked for {:?}", request.field("host")));
        }
        let asked = match world.policy_of(site) {
            Some(_) => policy::asked_in(target, request.field("x-group")),
            None => Some(0).filter(|_| target == crate::entity::target(path)),
        };
        let Some(asked) = asked else {
            world.wrong(format!("origin {site} was asked {:?} {}", request.first, asks(request)));
            return Ok(false);
        };
        if method == "POST" {
            world.note_post(request.field("x-request").unwrap_or(""));
        }
        let fault = draw_fault(world);
        let nature = &world.natures[path];
        world.say(format!("origin {site}/{number}: {} {fault:?} {}", request.first, asks(request)));
        match fault {
            Some(Fault::Hangs) => {
                way.break_off().await;
                return Ok(false);
            }
            Some(Fault::SilentHead(time)) => sleep(time).await,
            _ => {}
        }
        let identity = Identity {
            site,
            path,
            version: world.version(path, at),
            user: if nature.is_personal() { user_of(request) } else { 0 },
            // By dates alone a cache takes the older of two origins' content for the newer one's (RFC 9110
            // §13.1.3), so nobody can have such origins.
            origin: match nature.validator {
                Validator::Modified => 0,
                _ if world.origins[site].differ => *number,
                _ => 0,
            },
            asked,
        };
        Answer { world, request, nature, identity, at, fault }.send(method, way).await
    }
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
    async fn send(&self, method: &str, way: &mut Way<'_>) -> io::Result<bool> {
        if let Some(Fault::Error(status)) = self.fault {
            let has_body = method != "HEAD";
            way.head(status, &[("Content-Length", "4".into())], has_body).await?;
            if has_body {
                way.data(b"sad\n").await?;
                way.end().await?;
            }
            return Ok(true);
        }
        if method != "POST"
            && let Some(confirmed) = self.confirmed()
        {
            let mut fields = self.dated();
            fields.extend(confirmed);
            way.head(304, &fields, false).await?;
            return Ok(true);
        }
        let total = if method == "POST" { 3 } else { self.nature.bytes };
        let part = self.part(method, total);
        if let Some(None) = part {
            let fields =
                [("Content-Length", "0".into()), ("Content-Range", format!("bytes */{total}"))];
            way.head(416, &fields, false).await?;
            return Ok(true);
        }
        let part = part.flatten();
        let more = match self.fault {
            Some(Fault::PromisesMore(more)) if method == "GET" => more,
            _ => 0,
        };
        let serial = self.world.note_sent(Sent {
            identity: self.identity,
            at: self.at,
            answered: time::now(),
            ended: None,
            promised_bytes: total + more,
            part: part.clone(),
            given: Vec::new(),
        });
        let mut fields = self.fields(method, serial);
        let range = part.clone().unwrap_or(0..total);
        let status = match part {
            Some(Range { start, end }) => {
                fields.push(("Content-Range", format!("bytes {start}-{}/{total}", end - 1)));
                206
            }
            None => 200,
        };
        let is_told = self.nature.framing == Framing::Length
            || method == "HEAD"
            || matches!(self.fault, Some(Fault::PromisesMore(_) | Fault::SendsMore(_)));
        if is_told {
            fields.push(("Content-Length", (range.end - range.start + more).to_string()));
        }
        let went = async {
            way.head(status, &fields, method != "HEAD").await?;
            if method == "HEAD" {
                return Ok(true);
            }
            self.body(range, more, way).await
        };
        let went = went.await;
        self.world.note_ended(serial);
        went
    }

    /// What every response says of when it is from, and for how long.
    fn dated(&self) -> Vec<(&'static str, String)> {
        vec![("Date", time::date()), ("Cache-Control", self.nature.cache_control())]
    }

    /// What a response with content says of itself besides its length.
    fn fields(&self, method: &str, serial: usize) -> Vec<(&'static str, String)> {
        let Identity { path, user, .. } = self.identity;
        let known = [("X-Serial", serial.to_string()), ("X-Identity", self.identity.to_string())];
        if method == "POST" {
            return [("Date", time::date())].into_iter().chain(known).collect();
        }
        let mut fields = self.dated();
        fields.extend(known);
        if self.nature.sharing == Sharing::Cookie {
            fields.push(("Set-Cookie", format!("seen={user}")));
        }
        fields.extend(self.nature.validator_field(self.identity));
        let tags = (0..TAGS).filter(|number| has_tag(path, *number)).map(tag);
        fields.push(("Surrogate-Key", tags.collect::<Vec<_>>().join(" ")));
        fields
    }

    /// Sends the body, of which so many bytes more were promised.
    async fn body(&self, range: Range<u64>, more: u64, way: &mut Way<'_>) -> io::Result<bool> {
        let length = range.end - range.start;
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
            way.data(piece).await?;
            sleep(pause).await;
        }
        match self.fault {
            Some(Fault::BreaksOff(after)) if after < length => {
                way.break_off().await;
                return Ok(false);
            }
            Some(Fault::SendsMore(count)) => way.data(&vec![b'!'; count as usize]).await?,
            _ => {}
        }
        way.end().await?;
        Ok(more == 0 && !matches!(self.fault, Some(Fault::SendsMore(_))))
    }

    /// The validator that a 304 names, where one is sent; in there none where it names none.
    fn confirmed(&self) -> Option<Option<(&'static str, String)>> {
        let own = self.nature.validator_field(self.identity);
        let none_match = self.request.field("if-none-match");
        let modified_since = self.request.field("if-modified-since");
        none_match.or(modified_since)?;
        let (name, value) = own.unwrap_or(("X-Nothing", String::new()));
        let all_confirmed =
            || self.world.note_all_confirmed(self.identity, self.at, none_match, modified_since);
        if self.fault == Some(Fault::ConfirmsOther) && name == "ETag" {
            // A policy believes a 304, whatever it names.
            if self.world.policy_of(self.identity.site).is_some() {
                all_confirmed();
            }
            return Some(Some(("ETag", "\"another\"".into())));
        }
        if self.fault == Some(Fault::ConfirmsAll) {
            all_confirmed();
            return Some(None);
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
            Some((name, value))
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

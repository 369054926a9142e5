//! A client: asks for one thing after another, in all the ways there are, and tells what it got.

use crate::entity::{Identity, SITES, Sharing, target};
use crate::message::{Ended, Head, Reader};
use crate::time;
use crate::world::World;
use freshet_net::address::Address;
use freshet_net::stream::Stream;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// No answer takes longer: twice what a node waits for an origin, with another attempt each.
const PATIENCE: Duration = Duration::from_secs(400);

/// One request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) user: u64,
    pub(crate) edge: usize,
    pub(crate) site: usize,
    pub(crate) path: usize,
    pub(crate) method: &'static str,
    /// `Range`, as places from the first to behind the last.
    pub(crate) range: Option<(u64, u64)>,
    /// `If-None-Match`: an entity that was got before.
    pub(crate) known: Option<Identity>,
    /// Whether it says who it is.
    pub(crate) is_known_user: bool,
    pub(crate) sent: Duration,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: Ended,
    pub(crate) received: Duration,
}

/// Asks `count` times.
pub(crate) async fn run(world: Rc<World>, user: u64, count: u64) {
    let mut connection: Option<(usize, Reader)> = None;
    let mut known: Vec<Identity> = Vec::new();
    for _ in 0..count {
        let pause = world.random.borrow_mut().of(&[0, 0, 10, 300, 1500, 4000]);
        sleep(Duration::from_millis(pause)).await;
        let request = draw(&world, user, &known);
        let reuses = connection.as_ref().is_some_and(|(edge, _)| *edge == request.edge);
        if !reuses || world.random.borrow_mut().chance(100) {
            connection = connect(&world, user, request.edge).await.map(|one| (request.edge, one));
        }
        let Some((_, reader)) = &mut connection else { continue };
        // One of many leaves before it has all.
        let leaves = world.random.borrow_mut().chance(50);
        let bytes_max = if leaves { world.random.borrow_mut().within(0..5000) } else { u64::MAX };
        let asking = ask(&world, reader, &request, bytes_max);
        let Ok(got) = timeout(PATIENCE, asking).await else {
            world.wrong(format!("no answer to {request:?} in {PATIENCE:?}"));
            return;
        };
        if let Some(got) = &got {
            known.extend(world.judge(&request, got, leaves));
        }
        let goes_on = got.is_some_and(|got| {
            got.ended == Ended::Whole && got.head.field("connection") != Some("close")
        });
        if !goes_on {
            connection = None;
        }
    }
}

async fn connect(world: &World, user: u64, edge: usize) -> Option<Reader> {
    let address = Address::Tcp(world.edges[edge]);
    let from = IpAddr::from([10, 2, 0, user as u8]);
    let socket = world.network.connect(from, &address, Duration::from_secs(5)).await.ok()?;
    Some(Reader::new(Stream::from(socket)))
}

/// One request; none where the connection ended before a head came.
async fn ask(world: &World, reader: &mut Reader, request: &Request, most: u64) -> Option<Got> {
    reader.stream.write(text(world, request).as_bytes()).await.ok()?;
    let head = reader.head().await.ok()??;
    let (body, ended) = reader.body(&head, request.method == "HEAD", most).await;
    Some(Got { head, body, ended, received: time::now() })
}

fn text(world: &World, request: &Request) -> String {
    let (target, host) = (target(request.path), SITES[request.site]);
    let mut text = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", request.method);
    text.push_str(&format!("X-Request: {}\r\n", request.number));
    if let Some((first, end)) = request.range {
        text.push_str(&format!("Range: bytes={first}-{}\r\n", end - 1));
    }
    if let Some(known) = request.known
        && let Some((_, value)) = world.natures[known.path].validator_field(known)
    {
        text.push_str(&format!("If-None-Match: {value}\r\n"));
    }
    if request.is_known_user {
        text.push_str(&match world.natures[request.path].sharing {
            Sharing::Authorized => format!("Authorization: Bearer {}\r\n", request.user),
            _ => format!("Cookie: user={}\r\n", request.user),
        });
    }
    if request.method == "POST" {
        text.push_str("Content-Length: 5\r\n\r\nhello");
    } else {
        text.push_str("\r\n");
    }
    text
}

fn draw(world: &World, user: u64, known: &[Identity]) -> Request {
    let number = world.next_request();
    let mut random = world.random.borrow_mut();
    let site = random.within(0..SITES.len() as u64) as usize;
    let path = random.within(0..world.natures.len() as u64) as usize;
    let nature = &world.natures[path];
    let method = match random.within(0..20) {
        0 => "POST",
        1 | 2 => "HEAD",
        _ => "GET",
    };
    let range = (method == "GET" && random.chance(250)).then(|| {
        let first = random.within(0..nature.bytes + 10);
        (first, first + 1 + random.within(0..nature.bytes + 10))
    });
    let is_own = |one: &&Identity| one.site == site && one.path == path;
    let has_tag = nature.validator_field(Identity { site, path, version: 0, user: 0 });
    let known = known.iter().rev().find(is_own).copied();
    let known = known.filter(|_| has_tag.is_some_and(|(name, _)| name == "ETag"));
    let known = known.filter(|_| range.is_none() && method == "GET" && random.chance(300));
    Request {
        number,
        user,
        edge: random.within(0..world.edges.len() as u64) as usize,
        site,
        path,
        method,
        range,
        known,
        is_known_user: random.chance(if nature.is_personal() { 900 } else { 100 }),
        sent: time::now(),
    }
}

/// A purge of a path at a node, again until it is carried out.
pub(crate) async fn purge(world: &World, node: SocketAddr, site: usize, path: usize) {
    let from = IpAddr::from([127, 0, 0, 1]);
    let text = format!("PURGE {} HTTP/1.1\r\nHost: {}\r\n\r\n", target(path), SITES[site]);
    loop {
        let limit = Duration::from_secs(25);
        let asking = async {
            let address = Address::Tcp(node);
            let socket = world.network.connect(from, &address, limit).await.ok()?;
            let mut reader = Reader::new(Stream::from(socket));
            reader.stream.write(text.as_bytes()).await.ok()?;
            reader.head().await.ok()?
        };
        if let Ok(Some(head)) = timeout(limit, asking).await {
            match head.status() {
                200 | 404 => return,
                // It holds, but not over a crash yet.
                202 if world.has_faults => {}
                other => world.wrong(format!("a purge was answered with {other}")),
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
}

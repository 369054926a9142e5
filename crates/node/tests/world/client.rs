//! A client: asks for one thing after another, in all the ways there are, and tells what it got.

use crate::entity::{Identity, SITES, Sharing, target};
use crate::http2;
use crate::http3::{self, Failed};
use crate::message::{Ended, Head, Reader, Words};
use crate::nodes::Role;
use crate::policy;
use crate::random::Random;
use crate::time;
use crate::world::World;
use freshet_net::address::Address;
use freshet_net::stream::Stream;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

/// Requests of one turn over a connection of HTTP/2 or HTTP/3.
const STREAMS_MAX: u64 = 4;
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
    pub(crate) target: String,
    /// What is asked besides the path, where a policy looks at that: query, and `X-Group` where it is said.
    pub(crate) asked: u64,
    pub(crate) group: Option<u64>,
    /// Whether it is for what a policy answers without any origin.
    pub(crate) is_for_teapot: bool,
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

/// A client's connection to an edge.
enum Connection {
    Http1(Reader),
    Streams(Streams),
}

/// One that takes several requests at once. Clones are streams of the same.
#[derive(Clone)]
enum Streams {
    Http2(http2::Client),
    Http3(http3::Client),
}

impl Streams {
    /// Whether it takes another request.
    async fn is_there(&mut self) -> bool {
        match self {
            Self::Http2(client) => client.is_there().await,
            Self::Http3(client) => client.is_there(),
        }
    }

    /// Asks, and takes at most `bytes_max` of the body.
    ///
    /// # Errors
    /// Why no head came, where nothing may keep it from coming unless something went wrong.
    async fn ask(
        self,
        words: &Words,
        bytes_max: u64,
    ) -> Result<(Head, Vec<u8>, Ended), Option<String>> {
        match self {
            Self::Http2(client) => client
                .ask(words, bytes_max)
                .await
                .map_err(|error| error.is_reset().then(|| error.to_string())),
            Self::Http3(client) => {
                client.ask(words, bytes_max).await.map_err(|failed| match failed {
                    Failed::Ended => None,
                    Failed::Lost(why) => Some(why),
                })
            }
        }
    }
}

/// Asks `count` times.
pub(crate) async fn run(world: Rc<World>, user: u64, count: u64) {
    let mut connection: Option<(usize, Connection)> = None;
    let mut known: Vec<Identity> = Vec::new();
    let mut asked = 0;
    while asked < count {
        let pause = world.random.borrow_mut().of(&[0, 0, 10, 300, 1500, 4000]);
        sleep(Duration::from_millis(pause)).await;
        let request = draw(&world, user, &known);
        asked += 1;
        let edge = request.edge;
        let reuses = connection.as_ref().is_some_and(|(other, _)| *other == edge);
        if !reuses || world.random.borrow_mut().chance(100) {
            connection = connect(&world, user, edge).await.map(|one| (edge, one));
        }
        let goes_on = match &mut connection {
            None => false,
            Some((_, Connection::Http1(reader))) => {
                let got = converse(&world, &request, Voice::Http1(reader)).await;
                known.extend(got.known);
                got.goes_on
            }
            Some((_, Connection::Streams(streams))) => {
                let more = world.random.borrow_mut().within(0..STREAMS_MAX).min(count - asked);
                asked += more;
                let more = (0..more).map(|_| Request { edge, ..draw(&world, user, &known) });
                let all: Vec<_> = std::iter::once(request).chain(more).collect();
                known.extend(ask_at_once(&world, all, streams).await);
                streams.is_there().await
            }
        };
        if !goes_on {
            connection = None;
        }
    }
}

/// Asks all of these over one connection, and tells what they brought.
async fn ask_at_once(world: &Rc<World>, all: Vec<Request>, streams: &Streams) -> Vec<Identity> {
    let asking = all.into_iter().map(|request| {
        let (world, streams) = (Rc::clone(world), streams.clone());
        spawn_local(async move { converse(&world, &request, Voice::Streams(streams)).await.known })
    });
    let mut known = Vec::new();
    for one in asking.collect::<Vec<_>>() {
        known.extend(one.await.expect("a client does not panic"));
    }
    known
}

async fn connect(world: &World, user: u64, edge: usize) -> Option<Connection> {
    let from = IpAddr::from([10, 2, 0, user as u8]);
    if let Some(trust) = world.trust.as_ref().filter(|_| user.is_multiple_of(3)) {
        let to = Role::Edge(edge).secure_address(world);
        let seed = world.random.borrow_mut().next();
        let client = http3::Client::begin(&world.network, trust, (from, to), seed).await;
        return client.map(Streams::Http3).map(Connection::Streams);
    }
    let address = Address::Tcp(world.edges[edge]);
    let socket = world.network.connect(from, &address, Duration::from_secs(5)).await.ok()?;
    let stream = Stream::from(socket);
    if world.has_http2 && user.is_multiple_of(2) {
        let client = http2::Client::begin(stream).await;
        return client.map(Streams::Http2).map(Connection::Streams);
    }
    Some(Connection::Http1(Reader::new(stream)))
}

/// What a request is asked with.
enum Voice<'a> {
    Http1(&'a mut Reader),
    Streams(Streams),
}

/// What came of a request.
struct Turn {
    known: Option<Identity>,
    /// Whether its connection of HTTP/1.1 is good for more.
    goes_on: bool,
}

/// Asks, and has the answer judged.
async fn converse(world: &World, request: &Request, voice: Voice<'_>) -> Turn {
    // One of many leaves before it has all.
    let leaves = world.random.borrow_mut().chance(50);
    let bytes_max = if leaves { world.random.borrow_mut().within(0..5000) } else { u64::MAX };
    let asking = ask(world, voice, request, bytes_max);
    let Ok(got) = timeout(PATIENCE, asking).await else {
        world.wrong(format!("no answer to {request:?} in {PATIENCE:?}"));
        return Turn { known: None, goes_on: false };
    };
    let Some(got) = got else { return Turn { known: None, goes_on: false } };
    let known = world.judge(request, &got, leaves);
    let goes_on = got.ended == Ended::Whole && got.head.field("connection") != Some("close");
    Turn { known, goes_on }
}

/// One request; none where the connection ended before a head came.
async fn ask(world: &World, voice: Voice<'_>, request: &Request, most: u64) -> Option<Got> {
    let words = words(world, request);
    let (head, (body, ended)) = match voice {
        Voice::Http1(reader) => {
            reader.stream.write(words.text().as_bytes()).await.ok()?;
            let head = reader.head().await.ok()??;
            let body = reader.body(&head, request.method == "HEAD", most).await;
            (head, body)
        }
        Voice::Streams(streams) => match streams.ask(&words, most).await {
            Ok((head, body, ended)) => (head, (body, ended)),
            Err(why) => {
                if let Some(why) = why.filter(|_| !world.has_faults) {
                    world.wrong(format!("{request:?} failed although nothing went wrong: {why}"));
                }
                return None;
            }
        },
    };
    Some(Got { head, body, ended, received: time::now() })
}

fn words(world: &World, request: &Request) -> Words {
    let mut fields = vec![("X-Request", request.number.to_string())];
    fields.extend(request.group.map(|group| ("X-Group", group.to_string())));
    if let Some((first, end)) = request.range {
        fields.push(("Range", format!("bytes={first}-{}", end - 1)));
    }
    let known = request.known.map(|known| world.natures[known.path].validator_field(known));
    if let Some(Some((_, value))) = known {
        fields.push(("If-None-Match", value));
    }
    if request.is_known_user {
        fields.push(match world.natures[request.path].sharing {
            Sharing::Authorized => ("Authorization", format!("Bearer {}", request.user)),
            _ => ("Cookie", format!("user={}", request.user)),
        });
    }
    Words {
        method: request.method,
        host: SITES[request.site],
        target: request.target.clone(),
        fields,
        body: if request.method == "POST" { "hello" } else { "" },
    }
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
    let has_tag = nature.validator_field(Identity { site, path, ..Identity::default() });
    let known = known.iter().rev().find(is_own).copied();
    let known = known.filter(|_| has_tag.is_some_and(|(name, _)| name == "ETag"));
    let known = known.filter(|_| range.is_none() && method == "GET" && random.chance(300));
    let plain = Request {
        number,
        user,
        edge: random.within(0..world.edges.len() as u64) as usize,
        site,
        path,
        target: target(path),
        asked: 0,
        group: None,
        is_for_teapot: false,
        method,
        range,
        known,
        is_known_user: random.chance(if nature.is_personal() { 900 } else { 100 }),
        sent: time::now(),
    };
    match world.policy_of(site) {
        Some(_) => as_policies_want(&mut random, plain),
        None => plain,
    }
}

/// What is asked of a site with a policy: with a query and a group, which the policy brings into a form, or for a
/// page of its own.
fn as_policies_want(random: &mut Random, plain: Request) -> Request {
    if plain.method != "POST" && random.chance(20) {
        let target = "/teapot".into();
        return Request { target, is_for_teapot: true, range: None, known: None, ..plain };
    }
    // Mostly the same, so that some of it is there.
    let asked = random.of(&[0, 0, 0, 0, 1, 2, policy::ASKED - 1]);
    let (_, group) = policy::asked_of_origin(plain.path, asked);
    // Who says nothing is of the first.
    let is_told = group > 0 || random.chance(500);
    let target = policy::asked_by_client(random, plain.path, asked);
    Request { target, asked, group: is_told.then_some(group), ..plain }
}

/// Has a node do something by its method, site and target, again until it is carried out.
pub(crate) async fn order(
    world: &World,
    node: SocketAddr,
    (method, site, target): (&'static str, usize, &str),
    group: u64,
) {
    let from = IpAddr::from([127, 0, 0, 1]);
    let fields = vec![("X-Group", group.to_string())];
    let words = Words { method, host: SITES[site], target: target.into(), fields, body: "" };
    loop {
        let limit = Duration::from_secs(25);
        let asking = async {
            let address = Address::Tcp(node);
            let socket = world.network.connect(from, &address, limit).await.ok()?;
            let mut reader = Reader::new(Stream::from(socket));
            reader.stream.write(words.text().as_bytes()).await.ok()?;
            reader.head().await.ok()?
        };
        if let Ok(Some(head)) = timeout(limit, asking).await {
            match head.status() {
                200 | 404 => return,
                // It holds, but not over a crash yet.
                202 if world.has_faults => {}
                other => world.wrong(format!("{method} {target} was answered with {other}")),
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
}

//! A world: what is before and behind its nodes, and what all of them share.

use crate::client::{self, Got, Request};
use crate::disks::{self, Disks};
use crate::entity::{Identity, Nature, PATHS, SITES, target};
use crate::http3::Trust;
use crate::nodes::{Nodes, Role, disturb};
use crate::oracle::{Confirmed, Purge, Sent, Truth};
use crate::origin::{self, Origins};
use crate::policy::{self, Policy};
use crate::purging::{self, What};
use crate::random::Random;
use crate::time;
use freshet_net::simulation::{Network, Weather};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

/// Of a thousand worlds in so many clients speak HTTP/2, every second of them.
const HTTP2_PERMILLE: u64 = 300;
/// The same of HTTP/3 and every third.
const HTTP3_PERMILLE: u64 = 300;

/// What a world is run with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) clients: u64,
    pub(crate) requests: u64,
}

/// What all tasks of a world share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) random: RefCell<Random>,
    pub(crate) natures: Vec<Nature>,
    pub(crate) network: Network,
    pub(crate) disks: Disks,
    /// Those of each site.
    pub(crate) origins: [Origins; SITES.len()],
    policy: Option<Policy>,
    /// Whether some clients speak HTTP/2.
    pub(crate) has_http2: bool,
    /// What is needed where some speak HTTP/3.
    pub(crate) trust: Option<Trust>,
    pub(crate) edges: Vec<SocketAddr>,
    pub(crate) has_parent: bool,
    /// Groups of workers that each node has, with a worker in each.
    pub(crate) groups: u64,
    /// Whether something goes wrong at origins, in the network or with nodes.
    pub(crate) has_faults: bool,
    /// Of a thousand responses of origins so many are not as they should be.
    pub(crate) faults_permille: u64,
    pub(crate) truth: RefCell<Truth>,
    posts: RefCell<BTreeMap<String, u64>>,
    /// Nodes that hear of no purges at present, and which they have missed.
    pub(crate) cut_off: RefCell<BTreeMap<Role, Vec<What>>>,
    requests: RefCell<Vec<String>>,
    next_request: Cell<u64>,
    transcript: RefCell<Vec<String>>,
    wrong: RefCell<Option<String>>,
    is_wrong: Notify,
}

/// What a world ended with.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) transcript: Vec<String>,
    pub(crate) wrong: Option<String>,
    pub(crate) requests: u64,
    pub(crate) lasted: Duration,
}

/// Runs the world of a seed.
pub(crate) fn run(seed: u64, size: Size) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let _world = freshet_base::simulation::begin(time::begin(), seed);
        live(seed, size).await
    })
}

async fn live(seed: u64, size: Size) -> Outcome {
    let mut random = Random(seed);
    let mut apart = Random(seed ^ 0x6874_7470_3300);
    let speaks_http3 = apart.chance(HTTP3_PERMILLE);
    let is_calm = random.chance(300);
    let edges = random.within(1..3) as usize;
    let has_parent = random.chance(500);
    let weather = Weather {
        delay_us: 0..random.of(&[1, 2_000, 60_000]),
        piece_bytes: 1..random.of(&[4_000, 100_000]),
        resets_permille: if is_calm { 0 } else { random.of(&[0, 0, 50]) },
        reset_after_bytes: 0..200_000,
        losses_permille: apart.of(&[0, 10, 100]),
        datagram_bytes_max: apart.of(&[1_200, 1_452, 9_000]),
    };
    let network = Network::new(random.next(), weather);
    let _installed = network.install();
    let natures: Vec<_> = (0..PATHS).map(|_| Nature::draw(&mut random)).collect();
    let faults_permille = if is_calm { 0 } else { random.of(&[0, 20, 100, 300]) };
    let policy = Policy::draw(seed, &natures);
    let world = Rc::new(World {
        origins: Origins::draw(seed),
        policy,
        has_http2: Random(seed ^ 0x6874_7470_3200).chance(HTTP2_PERMILLE),
        trust: speaks_http3.then(Trust::new),
        natures,
        network,
        disks: Disks::draw(seed),
        edges: (0..edges).map(|edge| SocketAddr::from(([10, 3, 0, edge as u8], 80))).collect(),
        has_parent,
        groups: 1 + seed % 3,
        has_faults: !is_calm,
        faults_permille,
        random: RefCell::new(random),
        truth: RefCell::default(),
        posts: RefCell::default(),
        cut_off: RefCell::default(),
        requests: RefCell::default(),
        next_request: Cell::new(0),
        transcript: RefCell::default(),
        wrong: RefCell::default(),
        is_wrong: Notify::new(),
    });
    let groups = world.groups;
    world.say(format!(
        "seed {seed}, {edges} edges, parent {has_parent}, groups {groups}, faults {faults_permille}"
    ));
    world.say(world.disks.described());
    let (has_http2, has_http3) = (world.has_http2, world.trust.is_some());
    world.say(format!("HTTP/2 {has_http2}, HTTP/3 {has_http3}, origins {:?}", world.origins));
    world.policy.iter().for_each(|policy| world.say(policy.described()));
    for (path, nature) in world.natures.iter().enumerate() {
        world.say(format!("{}: {nature:?}", target(path)));
    }
    (0..SITES.len()).for_each(|site| origin::start_all(&world, site));
    let nodes = Nodes::start(&world);
    let clients: Vec<_> = (1..=size.clients)
        .map(|user| spawn_local(client::run(Rc::clone(&world), user, size.requests)))
        .collect();
    let purging = spawn_local(purging::now_and_then(Rc::clone(&world), Rc::clone(&nodes)));
    let disturbing = spawn_local(disturb(Rc::clone(&world), Rc::clone(&nodes)));
    let cutting = purging::cut_off_now_and_then(Rc::clone(&world), Rc::clone(&nodes), seed);
    let cutting = spawn_local(cutting);
    let failing = spawn_local(disks::fail_now_and_then(Rc::clone(&world)));
    let all = async {
        for client in clients {
            client.await.expect("a client does not panic");
        }
    };
    tokio::select! {
        biased;
        () = world.is_wrong.notified() => {}
        () = all => {}
    }
    purging.abort();
    disturbing.abort();
    cutting.abort();
    failing.abort();
    nodes.end();
    Outcome {
        transcript: world.transcript.take(),
        wrong: world.wrong.take(),
        requests: world.next_request.get(),
        lasted: time::now(),
    }
}

impl World {
    /// Writes a line of the transcript.
    pub(crate) fn say(&self, line: String) {
        let now = time::now();
        self.transcript.borrow_mut().push(format!("{:9.3} {line}", now.as_secs_f64()));
    }

    /// Ends the world with what must not be.
    pub(crate) fn wrong(&self, what: String) {
        self.say(format!("WRONG: {what}"));
        self.wrong.borrow_mut().get_or_insert(what);
        self.is_wrong.notify_one();
    }

    /// The policy of a site, where it has one.
    pub(crate) fn policy_of(&self, site: usize) -> Option<&Policy> {
        self.policy.as_ref().filter(|_| site == policy::SITE)
    }

    pub(crate) fn next_request(&self) -> u64 {
        let number = self.next_request.get();
        self.next_request.set(number + 1);
        number
    }

    /// The version of a path at a time.
    pub(crate) fn version(&self, path: usize, at: Duration) -> u64 {
        (at.as_millis() / self.natures[path].changes_every.as_millis()) as u64
    }

    /// Takes note of a response an origin sends; its number.
    pub(crate) fn note_sent(&self, one: Sent) -> usize {
        let sent = &mut self.truth.borrow_mut().sent;
        sent.push(one);
        sent.len() - 1
    }

    /// No more comes of a response.
    pub(crate) fn note_ended(&self, serial: usize) {
        self.truth.borrow_mut().sent[serial].ended = Some(time::now());
    }

    pub(crate) fn note_confirmed(&self, identity: Identity, at: Duration) {
        let confirmed = Confirmed { identity, at, answered: time::now() };
        self.truth.borrow_mut().confirmed.push(confirmed);
    }

    /// An origin confirms whatever it was asked about.
    pub(crate) fn note_all_confirmed(
        &self,
        own: Identity,
        at: Duration,
        tags: Option<&str>,
        date: Option<&str>,
    ) {
        let nature = &self.natures[own.path];
        let is_meant = |one: &Identity| {
            (one.site, one.path) == (own.site, own.path)
                && nature.validator_field(*one).is_some_and(|(_, value)| {
                    tags.map_or_else(|| date == Some(&*value), |tags| tags.contains(&*value))
                })
        };
        let truth = &mut *self.truth.borrow_mut();
        let meant = truth.sent.iter().map(|sent| sent.identity).filter(is_meant);
        let mut meant: Vec<_> = meant.collect();
        meant.sort_unstable();
        meant.dedup();
        let answered = time::now();
        truth.confirmed.extend(meant.into_iter().map(|identity| Confirmed {
            identity,
            at,
            answered,
        }));
    }

    /// Whether a node does not hear of a purge, which it has to carry out later then.
    pub(crate) fn misses(&self, node: Role, what: What) -> bool {
        let mut cut_off = self.cut_off.borrow_mut();
        let Some(missed) = cut_off.get_mut(&node) else { return false };
        missed.push(what);
        true
    }

    /// The next purge that a node has missed; none where it is at the end, and is cut off no more.
    pub(crate) fn catches_up(&self, node: Role) -> Option<What> {
        let mut cut_off = self.cut_off.borrow_mut();
        let missed = cut_off.get_mut(&node)?;
        if missed.is_empty() {
            cut_off.remove(&node);
            return None;
        }
        Some(missed.remove(0))
    }

    pub(crate) fn note_purge(&self, purge: Purge) {
        self.say(format!("{purge:?}"));
        self.truth.borrow_mut().purges.push(purge);
    }

    /// All nodes, parents first.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let parents = self.has_parent.then_some(Role::Parent);
        parents.into_iter().chain((0..self.edges.len()).map(Role::Edge)).collect()
    }

    pub(crate) fn note_post(&self, number: &str) {
        let mut posts = self.posts.borrow_mut();
        let times = posts.entry(number.to_owned()).or_default();
        *times += 1;
        if *times > 1 {
            self.wrong(format!("the POST {number} came {times} times"));
        }
    }

    /// Judges a response, and tells which entity it brought.
    pub(crate) fn judge(&self, request: &Request, got: &Got, leaves: bool) -> Option<Identity> {
        let said = format!("{request:?}");
        let requests = &mut *self.requests.borrow_mut();
        requests.resize(requests.len().max(request.number as usize + 1), String::new());
        requests[request.number as usize].clone_from(&said);
        let mut line = format!("{said} -> {} {:?}", got.head.status(), got.ended);
        let told = ["x-identity", "x-serial", "age", "content-range", "cache-status"];
        for name in told {
            if let Some(value) = got.head.field(name) {
                let _ = write!(line, " {name}={value}");
            }
        }
        self.say(line);
        let judged = {
            let described = &*requests;
            self.truth.borrow_mut().judge(self, described, request, got, leaves)
        };
        match judged {
            Ok(identity) => {
                // A policy that says nothing of it leaves what is kept as it is.
                let is_done = request.method == "POST"
                    && got.head.status() == 200
                    && self.policy_of(request.site).is_none();
                // A parent that was passed by has not heard of it.
                let is_heard = !self.has_parent
                    || got.head.field("cache-status").is_some_and(|it| it.starts_with("parent"));
                if is_done && is_heard {
                    self.truth.borrow_mut().purges.push(Purge {
                        what: What::Path { site: request.site, path: request.path },
                        edge: Some(request.edge),
                        is_missed: false,
                        is_durable: false,
                        begun: request.sent,
                        ended: got.received,
                    });
                }
                identity
            }
            Err(wrong) => {
                self.wrong(format!("{wrong}: {said}"));
                None
            }
        }
    }
}

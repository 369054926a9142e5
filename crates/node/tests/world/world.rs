//! A world: nodes, what is before and behind them, and what happens to them.

use crate::client::{self, Got, Request};
use crate::disks::{self, Disks};
use crate::entity::{Identity, Nature, PATHS, SITES, target};
use crate::oracle::{Confirmed, Purge, Sent, Truth};
use crate::origin;
use crate::purging::{self, What};
use crate::random::Random;
use crate::time;
use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_net::simulation::{Network, Weather};
use freshet_node::node::{Node, NodeError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

/// How soon a node is started again that did not start.
const RESTART_EVERY: Duration = Duration::from_secs(2);

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
    pub(crate) edges: Vec<SocketAddr>,
    pub(crate) has_parent: bool,
    /// Groups of workers that each node has, with a worker in each.
    pub(crate) groups: u64,
    /// Whether something goes wrong at origins, in the network or with nodes.
    pub(crate) has_faults: bool,
    /// Of a thousand responses of origins so many are not as they should be.
    pub(crate) faults_permille: u64,
    truth: RefCell<Truth>,
    posts: RefCell<BTreeMap<String, u64>>,
    /// Nodes that hear of no purges at present, and which they have missed.
    cut_off: RefCell<BTreeMap<Role, Vec<What>>>,
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
    let is_calm = random.chance(300);
    let edges = random.within(1..3) as usize;
    let has_parent = random.chance(500);
    let weather = Weather {
        delay_us: 0..random.of(&[1, 2_000, 60_000]),
        piece_bytes: 1..random.of(&[4_000, 100_000]),
        resets_permille: if is_calm { 0 } else { random.of(&[0, 0, 50]) },
        reset_after_bytes: 0..200_000,
    };
    let network = Network::new(random.next(), weather);
    let _installed = network.install();
    let natures = (0..PATHS).map(|_| Nature::draw(&mut random)).collect();
    let faults_permille = if is_calm { 0 } else { random.of(&[0, 20, 100, 300]) };
    let world = Rc::new(World {
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
    for (path, nature) in world.natures.iter().enumerate() {
        world.say(format!("{}: {nature:?}", target(path)));
    }
    (0..SITES.len()).for_each(|site| origin::start(&world, site));
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
    fn catches_up(&self, node: Role) -> Option<What> {
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
                let is_done = request.method == "POST" && got.head.status() == 200;
                // A parent that was passed by has not heard of it.
                let is_heard = !self.has_parent
                    || got.head.field("cache-status").is_some_and(|it| it.starts_with("parent"));
                if is_done && is_heard {
                    self.truth.borrow_mut().purges.push(Purge {
                        what: What::Path { site: request.site, path: request.path },
                        edge: Some(request.edge),
                        is_missed: false,
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

/// The nodes of a world, each a set of tasks that can be killed.
#[derive(Debug)]
pub(crate) struct Nodes {
    world: Rc<World>,
    all: RefCell<Vec<Running>>,
}

struct Running {
    role: Role,
    node: Arc<Node>,
    kill: Rc<Notify>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.role)
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Role {
    Parent,
    Edge(usize),
}

impl Role {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase().replace(['(', ')'], "")
    }

    pub(crate) fn address(self, world: &World) -> SocketAddr {
        match self {
            Self::Parent => SocketAddr::from(([10, 4, 0, 0], 80)),
            Self::Edge(edge) => world.edges[edge],
        }
    }
}

impl Nodes {
    fn start(world: &Rc<World>) -> Rc<Self> {
        let nodes = Self { world: Rc::clone(world), all: RefCell::default() };
        for role in world.roles() {
            let running = nodes.begin(role).expect("a node starts");
            nodes.all.borrow_mut().push(running);
        }
        Rc::new(nodes)
    }

    fn begin(&self, role: Role) -> Result<Running, NodeError> {
        let settings = settings(&self.world, role);
        let tasks = LocalSet::new();
        let kill = Rc::new(Notify::new());
        // Within the set, so that all its tasks are of it.
        let node = {
            let _guard = tasks.enter();
            Node::start_in_world(settings)?
        };
        let is_cut_off = self.world.cut_off.borrow().contains_key(&role);
        node.shared.cache.fence(if is_cut_off { u64::MAX } else { 0 });
        let killed = Rc::clone(&kill);
        spawn_local(async move {
            tokio::select! {
                biased;
                () = killed.notified() => {}
                () = tasks => {}
            }
        });
        Ok(Running { role, node, kill })
    }

    /// A node, where it runs.
    pub(crate) fn node(&self, role: Role) -> Option<Arc<Node>> {
        let all = self.all.borrow();
        all.iter().find(|running| running.role == role).map(|running| Arc::clone(&running.node))
    }

    fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// Ends a node as if its power had gone, and starts it again after a while.
    async fn restart(&self, index: usize, pause: Duration) {
        let running = self.all.borrow_mut().remove(index);
        let role = running.role;
        self.world.say(format!("{role:?} is killed"));
        running.kill.notify_one();
        running.node.stop();
        drop(running);
        sleep(pause).await;
        self.world.disks.crash(&role.name());
        if self.world.disks.are_there() {
            // Nobody waits until a disk has noted what a POST made invalid, at an edge or behind it.
            let is_here = |edge: usize| role == Role::Parent || role == Role::Edge(edge);
            let holds = |purge: &Purge| !purge.edge.is_some_and(is_here);
            self.world.truth.borrow_mut().purges.retain(holds);
        }
        let running = loop {
            self.world.say(format!("{role:?} starts again"));
            match self.begin(role) {
                Ok(running) => break running,
                // Its disks are not to be read now, and whoever started it looks again.
                Err(error) => self.world.say(format!("{role:?} does not start: {error}")),
            }
            sleep(RESTART_EVERY).await;
        };
        self.all.borrow_mut().insert(index, running);
    }

    fn reload(&self, index: usize) {
        let all = self.all.borrow();
        let running = &all[index];
        self.world.say(format!("{:?} reloads", running.role));
        running.node.reload(settings(&self.world, running.role)).expect("settings are as before");
    }

    /// Raises the fence of a node, or takes it down.
    fn fence(&self, role: Role, fence: u64) {
        // One that is not there begins as it has to.
        if let Some(node) = self.node(role) {
            node.shared.cache.fence(fence);
        }
    }

    /// Lets a node hear of no purges, which it is fenced for.
    pub(crate) fn cut_off(&self, role: Role) {
        self.world.say(format!("{role:?} is cut off"));
        self.world.cut_off.borrow_mut().insert(role, Vec::new());
        self.fence(role, u64::MAX);
    }

    /// Lets a node carry out what it has missed, before it trusts what it has stored.
    pub(crate) async fn reconnect(&self, role: Role) {
        while let Some(what) = self.world.catches_up(role) {
            purging::carry_out(&self.world, self, role, what).await;
        }
        self.world.say(format!("{role:?} has caught up"));
        self.fence(role, 0);
    }

    fn end(&self) {
        for running in self.all.borrow_mut().drain(..) {
            running.kill.notify_one();
            running.node.stop();
        }
    }
}

fn settings(world: &World, role: Role) -> Settings {
    let (name, groups) = (role.name(), world.groups);
    let mut text = format!(
        "workers = {groups}\nnuma_groups = {groups}\nmemory = \"64MiB\"\n\
         [[listen]]\naddress = \"{}\"\n[log]\naccess = \"off\"\n\
         [cache]\nname = \"{name}\"\nloop_id = \"{name}\"\nstale_if_error = \"0s\"\n",
        role.address(world)
    );
    if role == Role::Parent {
        // Nodes ask from there; clients are elsewhere.
        text.push_str("peers = [\"127.0.0.1\"]\n");
    }
    let _ = write!(
        text,
        "[fleet]\nservers = [\"nats://10.5.0.1\"]\nnode = \"{name}\"\nwhen_cut_off = \"refuse\"\n"
    );
    text.push_str(&world.disks.configured(&name));
    for (site, host) in SITES.iter().enumerate() {
        let _ = write!(
            text,
            "[[site]]\nname = \"s{site}\"\nhosts = [\"{host}\"]\n\
             [[site.origin]]\nurl = \"http://{}\"\n",
            origin::address(site)
        );
        if world.has_parent && role != Role::Parent {
            let parent = Role::Parent.address(world);
            let _ = write!(text, "[[site.parent]]\nname = \"parent\"\nurl = \"http://{parent}\"\n");
        }
    }
    let document = Document::parse(&text).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
    Settings::from_document(&document).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"))
}

/// Reloads nodes, and kills them where something may go wrong.
async fn disturb(world: Rc<World>, nodes: Rc<Nodes>) {
    loop {
        let (pause, index, kills, away) = {
            let mut random = world.random.borrow_mut();
            let index = random.within(0..nodes.len() as u64) as usize;
            let kills = world.has_faults && random.chance(400);
            (random.within(1..20_000), index, kills, random.within(1..3000))
        };
        sleep(Duration::from_millis(pause)).await;
        if kills {
            nodes.restart(index, Duration::from_millis(away)).await;
        } else {
            nodes.reload(index);
        }
    }
}

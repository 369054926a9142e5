//! The nodes of a world: started, reloaded, killed and cut off.

use crate::entity::SITES;
use crate::purging;
use crate::time;
use crate::world::World;
use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_node::node::{Node, NodeError};
use std::cell::RefCell;
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

    /// Where it speaks TLS, and HTTP/3.
    pub(crate) fn secure_address(self, world: &World) -> SocketAddr {
        SocketAddr::new(self.address(world).ip(), 443)
    }
}

impl Nodes {
    pub(crate) fn start(world: &Rc<World>) -> Rc<Self> {
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
        let running = loop {
            self.world.say(format!("{role:?} starts again"));
            match self.begin(role) {
                Ok(running) => break running,
                // Its disks are not to be read now, and whoever started it looks again.
                Err(error) => self.world.say(format!("{role:?} does not start: {error}")),
            }
            sleep(RESTART_EVERY).await;
        };
        let truth = &mut *self.world.truth.borrow_mut();
        if self.world.disks.are_there() {
            truth.came_back.insert(role, time::now());
        }
        if self.world.disks.have_lied(&role.name()) {
            truth.lied_to.insert(role, time::now());
        }
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

    pub(crate) fn end(&self) {
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
    if let Some(trust) = &world.trust {
        text.push_str(&trust.configured(role.secure_address(world)));
    }
    for (site, host) in SITES.iter().enumerate() {
        let _ = write!(text, "[[site]]\nname = \"s{site}\"\nhosts = [\"{host}\"]\n");
        text.push_str(&upstreams(world, role, site));
    }
    let document = Document::parse(&text).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
    Settings::from_document(&document).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"))
}

/// What a node's configuration says of whom it asks for a site.
fn upstreams(world: &World, role: Role, site: usize) -> String {
    let origins = &world.origins[site];
    let parent = Some(Role::Parent).filter(|_| world.has_parent && role != Role::Parent);
    let parent = parent.map(|parent| parent.address(world));
    if let Some(policy) = world.policy_of(site) {
        let backends = parent.map_or_else(|| origins.addresses(site), |parent| vec![parent]);
        return format!("vcl = \"{}\"\n", policy.file(&role.name(), &backends).display());
    }
    let http = if origins.have_http2 { "2" } else { "1.1" };
    let mut text = format!("[site.origins]\ndirector = \"{}\"\n", origins.director);
    for (number, address) in origins.addresses(site).iter().enumerate() {
        let _ = write!(
            text,
            "[[site.origin]]\nname = \"o{number}\"\nurl = \"http://{address}\"\nhttp = \"{http}\"\n"
        );
    }
    if let Some(parent) = parent {
        let _ = write!(
            text,
            "[[site.parent]]\nname = \"parent\"\nurl = \"http://{parent}\"\nhttp = \"{http}\"\n"
        );
    }
    text
}

/// Reloads nodes, and kills them where something may go wrong.
pub(crate) async fn disturb(world: Rc<World>, nodes: Rc<Nodes>) {
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

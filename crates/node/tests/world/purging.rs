//! Purges of a path, a tag, a site, of everything, and bans: carried out by all nodes, but for those that are cut
//! off and carry them out later.

use crate::client;
use crate::entity::{PATHS, SITES, TAGS, has_tag, tag, target};
use crate::nodes::{Nodes, Role};
use crate::oracle::Purge;
use crate::policy;
use crate::random::Random;
use crate::time;
use crate::world::World;
use freshet_cache::Purge::Hard;
use freshet_node::Durability;
use freshet_node::node::Node;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a disk has to say that it knows, before it is asked again.
const PATIENCE: Duration = Duration::from_secs(25);
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What is to be gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// A path of a site.
    Path { site: usize, path: usize },
    /// What of a site has a tag.
    Tag { site: usize, tag: usize },
    /// All of a site.
    Site { site: usize },
    /// Everything.
    All,
    /// A path of a site, by what its responses say.
    BanOfObjects { site: usize, path: usize },
    /// A path of a site, by what requests ask for.
    BanOfRequests { site: usize, path: usize },
    /// A path of the site with a policy, as its operators ask that for it.
    BanByPolicy { path: usize },
}

impl What {
    fn draw(world: &World) -> Self {
        let random = &mut *world.random.borrow_mut();
        let site = random.within(0..SITES.len() as u64) as usize;
        let path = random.within(0..PATHS as u64) as usize;
        match random.within(0..12) {
            0 | 1 => Self::Tag { site, tag: path % TAGS },
            2 => Self::Site { site },
            4 | 6 if world.policy_of(site).is_some() => Self::BanByPolicy { path },
            3 => Self::All,
            4 | 5 => Self::BanOfObjects { site, path },
            6 | 7 => Self::BanOfRequests { site, path },
            _ => Self::Path { site, path },
        }
    }

    /// Whether it is about a path of a site.
    pub(crate) fn meets(self, of: usize, named: usize) -> bool {
        match self {
            Self::Path { site, path }
            | Self::BanOfObjects { site, path }
            | Self::BanOfRequests { site, path } => (site, path) == (of, named),
            Self::BanByPolicy { path } => (policy::SITE, path) == (of, named),
            Self::Tag { site, tag } => site == of && has_tag(named, tag),
            Self::Site { site } => site == of,
            Self::All => true,
        }
    }

    /// Begins to carry it out at a node; what is to be waited for.
    fn begin(self, node: &Node) -> Durability {
        let (shared, snapshot) = (&node.shared, node.snapshot());
        let name = |site: usize| &snapshot.sites.all()[site].name;
        let ban = |text: String| {
            let settings = &snapshot.settings.bans;
            shared.ban(&text, settings).unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
        };
        match self {
            Self::Path { .. } | Self::BanByPolicy { .. } => unreachable!("it is asked over HTTP"),
            Self::BanOfRequests { site, path } => {
                let (host, url) = (SITES[site], target(path));
                ban(format!("req.http.host == {host} && req.url ~ ^{url}([?]|$)"))
            }
            Self::BanOfObjects { site, path } => {
                ban(format!("obj.http.x-identity ~ \"^{site}-{path}-\""))
            }
            Self::Tag { site, tag: of } => {
                shared.purge_tag(name(site).tag(tag(of).as_bytes()), Hard).durability
            }
            Self::Site { site } => {
                let all = name(site).tag_of_all().expect("it has a name");
                shared.purge_tag(all, Hard).durability
            }
            Self::All => shared.purge_all(Hard).durability,
        }
    }
}

/// Purges at a node, again until it is carried out: paths over HTTP, all else as its fleet has it done.
pub(crate) async fn carry_out(world: &World, nodes: &Nodes, role: Role, what: What) {
    let node = role.address(world);
    match what {
        What::Path { site, path } if world.policy_of(site).is_some() => {
            for asked in 0..policy::ASKED {
                let (target, group) = policy::asked_of_origin(path, asked);
                client::order(world, node, ("PURGE", site, &target), group).await;
            }
            return;
        }
        What::Path { site, path } => {
            return client::order(world, node, ("PURGE", site, &target(path)), 0).await;
        }
        What::BanByPolicy { path } => {
            return client::order(world, node, ("BAN", policy::SITE, &target(path)), 0).await;
        }
        _ => {}
    }
    loop {
        if let Some(node) = nodes.node(role) {
            // One that is killed meanwhile says nothing any more.
            match timeout(PATIENCE, what.begin(&node).reached()).await {
                Ok(true) => return,
                Ok(false) if !world.has_faults => world.wrong(format!("{what:?} does not last")),
                Ok(false) | Err(_) => {}
            }
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Purges at all nodes, those in front of others last.
pub(crate) async fn now_and_then(world: Rc<World>, nodes: Rc<Nodes>) {
    let roles = world.roles();
    loop {
        let pause = world.random.borrow_mut().within(1..8000);
        let what = What::draw(&world);
        sleep(Duration::from_millis(pause)).await;
        let begun = time::now();
        let mut is_missed = false;
        for role in &roles {
            if world.misses(*role, what) {
                is_missed = true;
            } else {
                carry_out(&world, &nodes, *role, what).await;
            }
        }
        let is_durable = !matches!(what, What::BanByPolicy { .. });
        let ended = time::now();
        world.note_purge(Purge { what, edge: None, is_missed, is_durable, begun, ended });
    }
}

/// Cuts nodes off from what is purged, one at a time. What is drawn for it is drawn apart: a world without is
/// the same as if there never were any.
pub(crate) async fn cut_off_now_and_then(world: Rc<World>, nodes: Rc<Nodes>, seed: u64) {
    let mut random = Random(seed ^ 0x666c_6565);
    if random.chance(500) {
        return;
    }
    let roles = world.roles();
    loop {
        sleep(Duration::from_millis(random.within(1..15_000))).await;
        let role = random.of(&roles);
        nodes.cut_off(role);
        sleep(Duration::from_millis(random.within(1..30_000))).await;
        nodes.reconnect(role).await;
    }
}

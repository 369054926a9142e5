//! Followers and publishers on a real server of NATS, which is killed and started again.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod accounts;
mod faults;
mod many;
mod reports;
mod signed;
#[path = "../../../../tests/skip.rs"]
mod skip;

use freshet_fleet::config::{Author, Band, Plan, Trial};
use freshet_fleet::limits::{BUNDLE_KEPT_MIN, HISTORY_MAX};
use freshet_fleet::nats::{
    Acts, FleetError, Follower, Link, LinkSettings, NodeSettings, Retention, Waited, publish, wait,
};
use freshet_fleet::{Change, Fence, Outcome, Place, Scope};
use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; no test waits for it to pass.
const LIMIT: Duration = Duration::from_secs(60);

/// A server with a folder of its own.
struct Server {
    folder: tempfile::TempDir,
    port: Option<u16>,
    process: Option<Child>,
    /// Whether each entry is on disk before it is acknowledged.
    syncs: bool,
    /// More of its configuration.
    more: String,
    /// More of that of its `jetstream`.
    jetstream: String,
}

impl Server {
    /// Starts one; `None` where it is not installed.
    async fn start() -> Option<Self> {
        Self::start_with(false).await
    }

    async fn start_with(syncs: bool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self {
            folder,
            port: None,
            process: None,
            syncs,
            more: String::new(),
            jetstream: String::new(),
        };
        match server.run().await {
            Ok(()) => Some(server),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skip::missing("nats-server");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts it, at the port it had before.
    async fn run(&mut self) -> std::io::Result<()> {
        let ports = self.folder.path().join("ports");
        let _ = std::fs::remove_dir_all(&ports);
        std::fs::create_dir(&ports)?;
        let port = self.port.map_or(-1, i32::from);
        let settings = self.folder.path().join("nats.conf");
        let log = self.folder.path().join("log");
        // Servers before 2.10 know no `always`.
        let sync = if self.syncs { "sync_interval: always" } else { "" };
        let Self { jetstream, more, .. } = self;
        let text = format!("jetstream {{ store_dir: {log:?}\n {sync} {jetstream} }}\n{more}\n");
        std::fs::write(&settings, text)?;
        let child = Command::new(program())
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-c"])
            .arg(settings)
            .arg("--ports_file_dir")
            .arg(&ports)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let file = ports.join(format!("nats-server_{}.ports", child.id()));
        self.process = Some(child);
        until(|| port_in(&file).is_some()).await;
        self.port = port_in(&file);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn settings(&self) -> LinkSettings {
        LinkSettings {
            servers: vec![format!("nats://127.0.0.1:{}", self.port.unwrap())],
            fleet: "test".into(),
            ..LinkSettings::default()
        }
    }

    async fn link(&self) -> Link {
        Link::connect(&self.settings(), false).await.unwrap()
    }

    /// A new fleet with a node in it, whose fence is down.
    async fn fleet_of_one(&self) -> (Link, Arc<Node>, Follower) {
        let link = self.link().await;
        link.init(Retention::default()).await.unwrap();
        let node = Arc::new(Node::default());
        let follower = self.follow("edge", &node);
        until(|| node.is_lifted()).await;
        (link, node, follower)
    }

    fn follow(&self, node: &str, acts: &Arc<Node>) -> Follower {
        self.follow_with(self.settings(), node, acts)
    }

    fn follow_with(&self, link: LinkSettings, node: &str, acts: &Arc<Node>) -> Follower {
        let settings = NodeSettings { link, node: node.into(), version: "test".into() };
        Follower::start(settings, Arc::clone(acts) as Arc<dyn Acts>).unwrap()
    }
}

/// `NATS_SERVER`, or what is installed. Debian keeps servers where ordinary users do not look.
fn program() -> PathBuf {
    if let Some(given) = std::env::var_os("NATS_SERVER") {
        return given.into();
    }
    let known = Path::new("/usr/sbin/nats-server");
    if known.is_file() { known.to_owned() } else { "nats-server".into() }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn port_in(file: &Path) -> Option<u16> {
    let ports: HashMap<String, Vec<String>> =
        serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    ports.get("nats")?.first()?.rsplit_once(':')?.1.parse().ok()
}

/// What a follower has its node do.
#[derive(Default)]
struct Node(Mutex<Did>);

#[derive(Clone, Debug, Default)]
struct Did {
    restored: Option<Place>,
    applied: Vec<(u64, String)>,
    place: Option<Place>,
    fence: Option<Fence>,
    /// Places it had to distrust at, and whether the log had lost something.
    distrusted: Vec<(u64, bool)>,
    /// How much was applied when the fence went down.
    applied_before_lifted: usize,
}

impl Node {
    fn did(&self) -> Did {
        self.0.lock().unwrap().clone()
    }

    fn is_lifted(&self) -> bool {
        self.did().fence == Some(Fence::Lifted)
    }
}

impl Acts for Node {
    fn restored(&self) -> Option<Place> {
        self.did().restored
    }

    fn apply(&self, changes: &[Change], place: Place) {
        let mut did = self.0.lock().unwrap();
        for change in changes {
            did.applied.push((place.sequence, text(change)));
        }
        did.place = Some(place);
    }

    fn fence(&self, fence: Fence) {
        let mut did = self.0.lock().unwrap();
        did.fence = Some(fence);
        if fence == Fence::Lifted {
            did.applied_before_lifted = did.applied.len();
        }
    }

    fn distrust(&self, place: Place, has_lost: bool) {
        let mut did = self.0.lock().unwrap();
        did.distrusted.push((place.sequence, has_lost));
        did.place = Some(place);
    }
}

fn text(change: &Change) -> String {
    match change {
        Change::PurgeTag { tag, .. } => tag.clone(),
        other => format!("{other:?}"),
    }
}

fn tag(name: impl Into<String>) -> Change {
    Change::PurgeTag { tag: name.into(), soft: false, scope: Scope::default() }
}

fn run<F: Future>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("the test hangs") });
}

async fn until(mut is: impl FnMut() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(2));
    while !is() {
        looks.tick().await;
    }
}

#[test]
fn all_nodes_carry_out_what_is_published_and_the_publisher_knows() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let link = server.link().await;
        assert!(matches!(link.nodes().await, Err(FleetError::NoFleet(_))));
        assert!(matches!(publish(&link, &[tag("a")]).await, Err(FleetError::NoFleet(_))));
        link.init(Retention::default()).await.unwrap();
        link.init(Retention::default()).await.unwrap();
        let nodes: Vec<_> = (0..4).map(|_| Arc::new(Node::default())).collect();
        let _followers: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(number, node)| server.follow(&format!("edge-{number}"), node))
            .collect();
        until(|| nodes.iter().all(|node| node.is_lifted())).await;
        while link.nodes().await.unwrap().len() < 4 {}
        for number in 1..=20 {
            let changes = [tag(format!("t{number}")), tag("x")];
            let Waited { place, outcome, .. } = wait(&link, &changes, LIMIT).await.unwrap();
            assert_eq!((place.sequence, outcome), (number, Outcome::Applied));
            for node in &nodes {
                let did = node.did();
                assert_eq!(did.place, Some(place));
                assert_eq!(did.applied.last(), Some(&(number, "x".to_owned())));
            }
        }
        let reports = link.reports(LIMIT).await.unwrap().reports;
        let names: Vec<_> = reports.iter().map(|report| report.node.as_str()).collect();
        assert_eq!(names, ["edge-0", "edge-1", "edge-2", "edge-3"]);
        assert!(reports.iter().all(|report| report.sequence == 20 && !report.fenced));
    });
}

#[test]
fn a_node_that_was_away_catches_up_before_its_fence_goes_down() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let link = server.link().await;
        link.init(Retention::default()).await.unwrap();
        let mut third = Place::default();
        for number in 1..=1200 {
            let place = publish(&link, &[tag(number.to_string())]).await.unwrap();
            if number == 3 {
                third = place;
            }
        }
        let node = Arc::new(Node::default());
        node.0.lock().unwrap().restored = Some(third);
        let _follower = server.follow("edge", &node);
        until(|| node.is_lifted()).await;
        let did = node.did();
        assert_eq!((did.applied.len(), did.applied_before_lifted), (1197, 1197));
        let sequences = did.applied.iter().map(|(sequence, _)| *sequence);
        assert!(sequences.eq(4..=1200) && did.distrusted.is_empty());
        // One that knows nothing trusts nothing.
        let fresh = Arc::new(Node::default());
        let _follower = server.follow("new", &fresh);
        until(|| fresh.is_lifted()).await;
        assert_eq!(fresh.did().distrusted, [(1200, false)]);
        assert_eq!(fresh.did().applied, []);
    });
}

#[test]
fn a_server_that_is_killed_fences_its_nodes_and_goes_on_where_it_was() {
    run(async {
        let Some(mut server) = Server::start().await else { return };
        let (link, node, _follower) = server.fleet_of_one().await;
        publish(&link, &[tag("a")]).await.unwrap();
        until(|| node.did().applied.len() == 1).await;
        server.kill();
        let killed = Instant::now();
        until(|| !node.is_lifted()).await;
        assert!(killed.elapsed() <= Duration::from_secs(5), "{:?}", killed.elapsed());
        assert!(publish(&link, &[tag("b")]).await.is_err());
        server.run().await.unwrap();
        until(|| node.is_lifted()).await;
        assert_eq!(node.did().distrusted, [(0, false)]);
        let link = server.link().await;
        assert_eq!(publish(&link, &[tag("c")]).await.unwrap().sequence, 2);
        until(|| node.did().applied.len() == 2).await;
        assert_eq!(node.did().applied[1], (2, "c".to_owned()));
    });
}

#[test]
fn a_log_that_lost_everything_is_noticed() {
    run(async {
        let Some(mut server) = Server::start().await else { return };
        let (link, node, _follower) = server.fleet_of_one().await;
        for number in 1..=5 {
            publish(&link, &[tag(number.to_string())]).await.unwrap();
        }
        until(|| node.did().applied.len() == 5).await;
        server.kill();
        std::fs::remove_dir_all(server.folder.path().join("log")).unwrap();
        server.run().await.unwrap();
        let link = server.link().await;
        link.init(Retention::default()).await.unwrap();
        // As many as before, and others.
        for number in 1..=5 {
            publish(&link, &[tag(format!("other {number}"))]).await.unwrap();
        }
        until(|| node.did().distrusted.iter().any(|(_, has_lost)| *has_lost)).await;
        until(|| node.is_lifted()).await;
        publish(&link, &[tag("last")]).await.unwrap();
        until(|| node.did().applied.last().is_some_and(|(_, tag)| tag == "last")).await;
    });
}

#[test]
fn who_waits_is_told_of_nodes_that_are_gone() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let (link, _node, _follower) = server.fleet_of_one().await;
        while link.nodes().await.unwrap().is_empty() {}
        link.set_member("gone", true).await.unwrap();
        let gone = || vec!["gone".to_owned()];
        let short = Duration::from_millis(300);
        let Waited { outcome, .. } = wait(&link, &[tag("a")], short).await.unwrap();
        assert_eq!(outcome, Outcome::Waiting(gone()));
        let Waited { outcome, .. } = wait(&link, &[tag("b")], LIMIT).await.unwrap();
        assert_eq!(outcome, Outcome::Fenced(gone()));
        link.set_member("gone", false).await.unwrap();
        let Waited { outcome, .. } = wait(&link, &[tag("c")], LIMIT).await.unwrap();
        assert_eq!(outcome, Outcome::Applied);
    });
}

#[test]
fn bundles_that_no_version_refers_to_are_removed() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let link = server.link().await;
        link.init(Retention::default()).await.unwrap();
        let trial = Trial { hold_ms: 0, band: Band::default() };
        let plan = Plan { stages: Vec::new(), trial, patience_ms: 0 };
        let put = async |group: &str, bundle: &str| {
            let mut read = link.release(group).await.unwrap();
            link.put_bundle(bundle, bundle.as_bytes()).await.unwrap();
            read.release.begin(bundle.into(), plan.clone(), Author::default()).unwrap();
            read.release.finish();
            link.set_release(group, &read).await.unwrap();
        };
        let is_there = async |bundle: &str| link.bundle(bundle).await.unwrap().is_some();
        put("edges", "a").await;
        put("edges", "b").await;
        put("parents", "c").await;
        assert_eq!(link.remove_bundles(Duration::ZERO).await.unwrap(), 0);
        // A history forgets its first versions, and another group has one of them.
        put("parents", "b").await;
        for _ in 0..HISTORY_MAX {
            put("edges", "d").await;
        }
        link.put_bundle("next", b"next").await.unwrap();
        // What was put lately may be of a version that comes in a moment.
        assert_eq!(link.remove_bundles(BUNDLE_KEPT_MIN).await.unwrap(), 0);
        assert_eq!(link.remove_bundles(Duration::ZERO).await.unwrap(), 2);
        for (bundle, stays) in
            [("a", false), ("b", true), ("c", true), ("d", true), ("next", false)]
        {
            assert_eq!(is_there(bundle).await, stays, "{bundle}");
        }
        // What was removed may be put again.
        put("edges", "a").await;
        assert!(is_there("a").await);
        assert_eq!(link.remove_bundles(Duration::ZERO).await.unwrap(), 0);
    });
}

#[test]
fn what_is_said_in_anothers_name_or_of_what_is_not_there_counts_for_nothing() {
    run(async {
        let Some(server) = Server::start().await else { return };
        let (link, _node, _follower) = server.fleet_of_one().await;
        link.set_member("other", true).await.unwrap();
        let liar = async_nats::connect(&server.settings().servers[0]).await.unwrap();
        let lies = async {
            let mut each = tokio::time::interval(Duration::from_millis(2));
            loop {
                each.tick().await;
                for (subject, sequence) in [("edge", 1), ("other", u64::MAX)] {
                    let said = serde_json::json!({
                        "node": "other", "sequence": sequence, "fenced": false, "version": "1" });
                    let subject = format!("freshet.test.state.{subject}");
                    liar.publish(subject, said.to_string().into()).await.unwrap();
                }
            }
        };
        let asked = async {
            let Waited { outcome, .. } =
                wait(&link, &[tag("a")], Duration::from_secs(1)).await.unwrap();
            assert_eq!(outcome, Outcome::Waiting(vec!["other".into()]));
            link.set_member("other", false).await.unwrap();
            let reports = link.reports(LIMIT).await.unwrap().reports;
            assert_eq!(reports.iter().map(|one| &one.node).collect::<Vec<_>>(), ["edge"]);
        };
        tokio::select! {
            () = lies => {}
            () = asked => {}
        }
    });
}

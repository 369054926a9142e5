//! A node on ephemeral ports, a runtime for a test, and waiting for things to happen.

use crate::authority::Authority;
use crate::origin::Origin;
use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_net::address::Address;
use freshet_net::handover::Inherited;
use freshet_node::node::Node;
use freshet_node::preflight::Prepared;
use freshet_node::site::Site;
use freshet_node::sites::Sites;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Long enough for a loaded machine; no test waits for it to pass.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on a runtime of its own.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    run_within(LIMIT, test)
}

/// As [`run`], for a test that may take longer.
pub(crate) fn run_within<F: Future>(limit: Duration, test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("the test hangs") })
}

/// Looks every millisecond until `is` holds: for facts that other threads make and no event tells.
pub(crate) async fn until(mut is: impl FnMut() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(1));
    while !is() {
        looks.tick().await;
    }
}

/// What a node is started with: one origin, one clear listener, no access log.
pub(crate) struct Setup {
    pub(crate) workers: usize,
    /// Groups of workers: one, or what `NODE_GROUPS` says, so that all that holds for one is tested for more.
    pub(crate) groups: usize,
    pub(crate) memory: &'static str,
    pub(crate) listen: String,
    pub(crate) origins: String,
    /// Further tables.
    pub(crate) rest: String,
}

/// What a load balancer sends before what a client at this address sends.
pub(crate) fn proxied(address: &str) -> String {
    format!("PROXY TCP4 {address} 192.0.2.254 1000 80\r\n")
}

impl Setup {
    pub(crate) fn of(origin: &Origin) -> Self {
        Self::url(&origin.url())
    }

    pub(crate) fn url(url: &str) -> Self {
        Self {
            workers: 2,
            groups: std::env::var("NODE_GROUPS").map_or(1, |groups| groups.parse().unwrap()),
            memory: "256MiB",
            listen: "[[listen]]\naddress = \"127.0.0.1:0\"\n".into(),
            origins: format!("[[origin]]\nurl = \"{url}\"\n"),
            rest: String::new(),
        }
    }

    /// Takes a client's address from the PROXY header that [`proxied`] is.
    pub(crate) fn behind_proxy(mut self) -> Self {
        self.listen.push_str("proxy_protocol = true\n");
        self
    }

    pub(crate) fn and(mut self, rest: &str) -> Self {
        self.rest.push_str(rest);
        self.rest.push('\n');
        self
    }

    /// Listens with TLS, as `example.test`, and with these further keys of a listener.
    pub(crate) fn encrypted(mut self, authority: &Authority, more: &str) -> Self {
        self.listen.push_str("tls = true\n");
        self.listen.push_str(more);
        self.and(&authority.issue("a", &["example.test"]))
    }

    pub(crate) fn origin(mut self, url: &str) -> Self {
        self.origins.push_str(&format!("[[origin]]\nurl = \"{url}\"\n"));
        self
    }

    pub(crate) fn settings(&self) -> Settings {
        let Self { workers, groups, memory, listen, origins, rest } = self;
        let text = format!(
            "workers = {workers}\nnuma_groups = {groups}\nmemory = \"{memory}\"\n{listen}{origins}{rest}"
        );
        let document = Document::parse(&text).unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
        Settings::from_document(&document).unwrap()
    }

    pub(crate) fn start(&self) -> TestNode {
        TestNode { node: Node::start(self.settings(), &mut Inherited::default()).unwrap() }
    }

    /// A node with these sites, made of the first that it would have.
    pub(crate) fn start_with(&self, sites: impl FnOnce(&Site) -> Vec<Arc<Site>>) -> TestNode {
        let mut prepared = Prepared::new(self.settings(), None).unwrap();
        let sites = sites(&prepared.draft.sites.all()[0]);
        prepared.draft.sites = Arc::new(Sites::new(sites));
        let node = Node::start_with(prepared, &mut Inherited::default(), None).unwrap();
        node.open();
        TestNode { node }
    }
}

/// A running node; stopped when dropped.
pub(crate) struct TestNode {
    pub(crate) node: Arc<Node>,
}

impl TestNode {
    /// A node in front of `origin`, with defaults.
    pub(crate) fn before(origin: &Origin) -> Self {
        Setup::of(origin).start()
    }

    /// The address of the only, or first, TCP listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.node.socket_addresses()[0]
    }

    /// The path of the Unix listener.
    pub(crate) fn path(&self) -> PathBuf {
        let path = self.node.addresses().into_iter().find_map(|address| match address {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) => None,
        });
        path.unwrap()
    }

    /// A counter of the node.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let sums = self.node.sums();
        assert!(sums.counters.iter().any(|(known, ..)| *known == name), "no counter {name}");
        sums.counter(name)
    }

    /// Waits until a counter has reached `value`.
    pub(crate) async fn counted(&self, name: &str, value: u64) {
        until(|| self.count(name) >= value).await;
    }

    /// Waits until all that was offered to its disks is written.
    pub(crate) fn drain_disks(&self) {
        for disk in self.node.shared.disks.as_ref().unwrap().disks() {
            disk.drain().wait(LIMIT).result.unwrap();
        }
    }

    /// Bytes the arena has from the kernel and for what describes them, with its limit.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let stats = self.node.shared.cache.memory();
        (stats.committed_bytes + stats.metadata_bytes, stats.limit_bytes)
    }

    /// Objects in the index, copies for other groups not counted.
    pub(crate) fn objects(&self) -> u64 {
        let mut objects = 0;
        self.node.shared.cache.each_object(&mut |_| objects += 1);
        objects
    }

    /// Variants of this target of the tests' host that are in the index.
    pub(crate) fn variants(&self, target: &str) -> usize {
        let cache = &self.node.shared.cache;
        cache.peek(&cache.key(crate::client::HOST, target)).variants.len()
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.node.stop();
        self.node.join();
    }
}

/// What a configuration says of a store of this size.
pub(crate) fn store_at(path: &Path, size: &str) -> String {
    format!("[[store]]\npath = \"{}\"\nsize = \"{size}\"\n", path.display())
}

/// Bytes that tell their own place: any 8 in a row from a multiple of 8 are that offset and `seed`.
pub(crate) fn pattern(seed: u64, range: Range<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(usize::try_from(range.end - range.start).unwrap() + 8);
    let mut at = range.start / 8 * 8;
    while at < range.end {
        out.extend_from_slice(&(at ^ (seed << 40)).to_be_bytes());
        at += 8;
    }
    let skip = usize::try_from(range.start % 8).unwrap();
    let len = usize::try_from(range.end - range.start).unwrap();
    out[skip..skip + len].to_vec()
}

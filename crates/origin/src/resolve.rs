//! From an origin's name to addresses, asked again as time goes.
//!
//! The system's resolver says nothing about how long its answers hold, so they hold for
//! [`NAME_TTL`]. After that a look-up runs behind while the old addresses are still used: a slow
//! or dead name server takes no working origin away. The first look-up, and those after a failed
//! first one, are waited for; so are, for a moment, one after a long silence and one after all
//! addresses have failed, when the origin is likely to be elsewhere.

use crate::error::OriginError;
use arc_swap::ArcSwapOption;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

/// How long resolved addresses are used before they are looked up again. The usual lifetime of an
/// origin's record in a data centre; a change is followed within twice this, also by connections that
/// are open.
pub const NAME_TTL: Duration = Duration::from_secs(30);

/// How old addresses are that are not used at once: nobody has asked for as long, and they may be
/// another's by now.
const OLD: Duration = Duration::from_secs(60);

/// How long a look-up of such addresses is waited for: what a name server that is there takes.
const OLD_PATIENCE: Duration = Duration::from_millis(100);

/// How old addresses that have all failed have to be to be looked up before their time: an origin that is
/// down has its name server asked as often, however many requests come.
const FAILED_AGAIN: Duration = Duration::from_secs(1);

/// How long such a look-up is waited for. A name server that does not answer makes nobody wait for longer to hear that
/// an origin is down.
const FAILED_PATIENCE: Duration = Duration::from_secs(1);

/// Addresses of one name that are kept and tried. Public services publish eight at most in each
/// family; more would only make a dead origin slower to give up.
pub const ADDRESSES_MAX: usize = 16;

/// Looks a host and port up, blocking; runs on a thread made for that.
pub type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The addresses of one name, shared by all workers.
pub struct Resolver {
    shared: Arc<Shared>,
}

struct Shared {
    host: String,
    port: u16,
    lookup: Box<Lookup>,
    known: ArcSwapOption<Resolved>,
    /// Why the last look-up gave nothing.
    failure: Mutex<String>,
    /// One look-up at a time: a name server that hangs must not collect threads.
    running: AtomicBool,
    ended: Notify,
}

/// A look-up from its start to its end, whatever that is.
struct Running(Arc<Shared>);

/// What a look-up gave.
#[derive(Debug)]
pub struct Resolved {
    addresses: Vec<Candidate>,
    at: Instant,
    /// How often they were asked for.
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    failed: AtomicBool,
}

impl Resolver {
    /// A resolver that asks the system (`getaddrinfo`, so `/etc/hosts` and the like count).
    pub fn system(host: impl Into<String>, port: u16) -> Self {
        use std::net::ToSocketAddrs;
        Self::new(host, port, Box::new(|host, port| Ok((host, port).to_socket_addrs()?.collect())))
    }

    /// A resolver that asks `lookup`.
    pub fn new(host: impl Into<String>, port: u16, lookup: Box<Lookup>) -> Self {
        let shared = Shared {
            host: host.into(),
            port,
            lookup,
            known: ArcSwapOption::empty(),
            failure: Mutex::default(),
            running: AtomicBool::new(false),
            ended: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The addresses to try at `now`, at least one. Without I/O while they are young.
    ///
    /// # Errors
    /// [`OriginError::OriginNameUnknown`] when the name has no address and never had one.
    pub async fn resolve(&self, now: Instant) -> Result<Arc<Resolved>, OriginError> {
        let mut ended = pin!(self.shared.ended.notified());
        // From here on the end of a look-up is not missed.
        ended.as_mut().enable();
        if let Some(known) = self.known(now) {
            if now.saturating_duration_since(known.at) < OLD {
                return Ok(known);
            }
            let _ = timeout(OLD_PATIENCE, ended).await;
            return Ok(self.shared.known.load_full().unwrap_or(known));
        }
        self.start(now);
        ended.await;
        self.shared.known.load_full().ok_or_else(|| OriginError::OriginNameUnknown {
            name: self.shared.host.clone(),
            reason: self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    /// What the name has now, where that is more than `failed`, none of which can be had: looked up anew, and
    /// waited for until `deadline` at most. `None` where there is nothing else to try.
    pub(crate) async fn elsewhere(
        &self,
        failed: &Resolved,
        deadline: tokio::time::Instant,
    ) -> Option<Arc<Resolved>> {
        let mut ended = pin!(self.shared.ended.notified());
        ended.as_mut().enable();
        let now = Instant::now();
        let is_due = |known: &Resolved| now.saturating_duration_since(known.at) >= FAILED_AGAIN;
        let other = |known: &Arc<Resolved>| !known.is_within(failed);
        let known = self.shared.known.load_full()?;
        if !other(&known) && is_due(&known) {
            self.start(now);
            let until = deadline.min(tokio::time::Instant::now() + FAILED_PATIENCE);
            let _ = timeout_at(until, ended).await;
        }
        self.shared.known.load_full().filter(other)
    }

    /// The addresses that are known, which are looked up again where that is due.
    pub(crate) fn known(&self, now: Instant) -> Option<Arc<Resolved>> {
        let known = self.shared.known.load_full()?;
        if now.saturating_duration_since(known.at) >= NAME_TTL {
            self.start(now);
        }
        Some(known)
    }

    /// The host that is looked up.
    pub fn host(&self) -> &str {
        &self.shared.host
    }

    /// Starts a look-up unless one is running.
    fn start(&self, now: Instant) {
        if !self.shared.running.swap(true, SeqCst) {
            let running = Running(Arc::clone(&self.shared));
            // Nobody has to wait for it; whoever does hears of its end.
            drop(tokio::task::spawn_blocking(move || running.0.look_up(now)));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, SeqCst);
        self.0.ended.notify_waiters();
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (host, port) = (&self.shared.host, self.shared.port);
        f.debug_struct("Resolver").field("host", host).field("port", &port).finish()
    }
}

impl Shared {
    fn look_up(&self, now: Instant) {
        let reason = match (self.lookup)(&self.host, self.port) {
            Ok(addresses) if !addresses.is_empty() => {
                self.known.store(Some(Arc::new(Resolved::new(addresses, now))));
                return;
            }
            Ok(_) => "the name has no address".into(),
            Err(error) => error.to_string(),
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        // The old addresses, as if they were new, so that a dead name server is asked once a TTL
        // and not by every connection.
        if let Some(known) = self.known.load_full() {
            let addresses = known.addresses.iter().map(|candidate| candidate.address).collect();
            self.known.store(Some(Arc::new(Resolved::new(addresses, now))));
        }
    }
}

impl Resolved {
    /// These addresses, known since `at`; what exceeds [`ADDRESSES_MAX`] is left out.
    pub fn new(addresses: Vec<SocketAddr>, at: Instant) -> Self {
        let candidates = interleave(addresses, 0).into_iter().take(ADDRESSES_MAX);
        let addresses = candidates
            .map(|address| Candidate { address, failed: AtomicBool::new(false) })
            .collect();
        Self { addresses, at, turn: AtomicUsize::new(0) }
    }

    /// The order to try: families in turn (RFC 8305 §4), those that failed before last. Of each family
    /// another one is first each time, so that all of them have their share of connections.
    pub fn order(&self) -> Vec<SocketAddr> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let pick = |failed: bool| {
            let has = |one: &&Candidate| one.failed.load(Relaxed) == failed;
            let picked = self.addresses.iter().filter(has).map(|one| one.address);
            interleave(picked.collect(), turn)
        };
        [pick(false), pick(true)].concat()
    }

    /// Whether an address is among them.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        self.addresses.iter().any(|candidate| candidate.address == address)
    }

    /// Whether all of them are among those of another.
    fn is_within(&self, other: &Self) -> bool {
        self.addresses.iter().all(|candidate| other.has(candidate.address))
    }

    /// Whether there is one that has not failed.
    pub(crate) fn has_good(&self) -> bool {
        self.addresses.iter().any(|candidate| !candidate.failed.load(Relaxed))
    }

    /// Notes how a connection to `address` went.
    pub fn note(&self, address: SocketAddr, failed: bool) {
        for candidate in self.addresses.iter().filter(|candidate| candidate.address == address) {
            candidate.failed.store(failed, Relaxed);
        }
    }
}

/// Families in turn, beginning with that of the first address, as the system has sorted by RFC 6724;
/// order within a family is kept, but for where it begins. Duplicates are left out.
fn interleave(addresses: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    let mut seen = std::collections::HashSet::new();
    let unique: Vec<_> = addresses.into_iter().filter(|address| seen.insert(*address)).collect();
    let Some(first) = unique.first().copied() else { return unique };
    let (mut same, mut other): (Vec<_>, Vec<_>) =
        unique.into_iter().partition(|address| address.is_ipv4() == first.is_ipv4());
    let mut out = Vec::with_capacity(same.len() + other.len());
    for family in [&mut same, &mut other].into_iter().filter(|family| !family.is_empty()) {
        let first = turn % family.len();
        family.rotate_left(first);
    }
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    loop {
        let before = out.len();
        out.extend(same.next());
        out.extend(other.next());
        if out.len() == before {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("a test address")
    }

    /// A resolver that gives the answers in turn (the last again and again) and counts.
    fn scripted(answers: &[Option<&str>]) -> (Resolver, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let answers: Vec<Option<SocketAddr>> =
            answers.iter().map(|answer| answer.map(address)).collect();
        let last = *answers.last().expect("a script has an answer");
        let script = Mutex::new(answers.into_iter());
        let lookup = move |_: &str, _| {
            count.fetch_add(1, Relaxed);
            let answer = script.lock().unwrap().next().unwrap_or(last);
            answer.map(|address| vec![address]).ok_or_else(|| io::Error::other("no such host"))
        };
        (Resolver::new("origin.example", 80, Box::new(lookup)), asked)
    }

    /// Waits for the look-up that runs behind.
    async fn settle(resolver: &Resolver) {
        while resolver.shared.running.load(Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn addresses_are_looked_up_again_behind_after_their_time() {
        let (resolver, asked) = scripted(&[Some("192.0.2.1:80"), Some("192.0.2.2:80")]);
        let now = Instant::now();
        let first = resolver.resolve(now).await.unwrap();
        assert_eq!(first.order(), [address("192.0.2.1:80")]);
        resolver.resolve(now + NAME_TTL / 2).await.unwrap();
        assert_eq!(asked.load(Relaxed), 1);
        let later = now + NAME_TTL;
        assert_eq!(resolver.resolve(later).await.unwrap().order(), first.order());
        settle(&resolver).await;
        assert_eq!(resolver.resolve(later).await.unwrap().order(), [address("192.0.2.2:80")]);
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[tokio::test]
    async fn what_nobody_has_asked_for_in_long_is_looked_up_before_it_is_used() {
        let (resolver, asked) = scripted(&[Some("192.0.2.1:80"), Some("192.0.2.2:80")]);
        let now = Instant::now();
        resolver.resolve(now).await.unwrap();
        let morning = resolver.resolve(now + Duration::from_secs(8 * 3600)).await.unwrap();
        assert_eq!(morning.order(), [address("192.0.2.2:80")]);
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[tokio::test]
    async fn a_name_server_that_hangs_is_not_waited_for_while_addresses_are_known() {
        let asked = AtomicU32::new(0);
        let (_hold, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let lookup = move |_: &str, _| match asked.fetch_add(1, Relaxed) {
            0 => Ok(vec![address("192.0.2.1:80")]),
            _ => {
                let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(3));
                Err(io::Error::other("no answer"))
            }
        };
        let resolver = Resolver::new("origin.example", 80, Box::new(lookup));
        let now = Instant::now();
        resolver.resolve(now).await.unwrap();
        let began = Instant::now();
        let later = resolver.resolve(now + OLD).await.unwrap();
        assert_eq!(later.order(), [address("192.0.2.1:80")]);
        let soon = tokio::time::Instant::now() + OLD_PATIENCE;
        assert!(resolver.elsewhere(&later, soon).await.is_none());
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_name_whose_addresses_have_all_failed_is_looked_up_once_a_second() {
        let (resolver, asked) =
            scripted(&[Some("192.0.2.1:80"), Some("192.0.2.1:80"), Some("192.0.2.2:80")]);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        let old = Instant::now().checked_sub(FAILED_AGAIN).unwrap();
        let failed = resolver.resolve(old).await.unwrap();
        // The same once more.
        assert!(resolver.elsewhere(&failed, deadline).await.is_none());
        assert_eq!(asked.load(Relaxed), 2);
        // And it was asked for just now.
        assert!(resolver.elsewhere(&failed, deadline).await.is_none());
        assert_eq!(asked.load(Relaxed), 2);
        resolver.shared.known.store(Some(Arc::new(Resolved::new(failed.order(), old))));
        let found = resolver.elsewhere(&failed, deadline).await.unwrap();
        assert_eq!(found.order(), [address("192.0.2.2:80")]);
        // Others that have tried the old ones meanwhile need not ask.
        assert!(resolver.elsewhere(&failed, deadline).await.is_some());
        assert_eq!(asked.load(Relaxed), 3);
    }

    #[tokio::test]
    async fn a_name_server_that_dies_takes_no_known_origin_away() {
        let (resolver, asked) = scripted(&[Some("192.0.2.1:80"), None]);
        let now = Instant::now();
        resolver.resolve(now).await.unwrap();
        for ttl in 1..4 {
            let then = now + NAME_TTL * ttl;
            assert_eq!(resolver.resolve(then).await.unwrap().order(), [address("192.0.2.1:80")]);
            settle(&resolver).await;
            resolver.resolve(then).await.unwrap();
            assert_eq!(asked.load(Relaxed), ttl + 1);
        }
    }

    #[tokio::test]
    async fn many_first_askers_make_one_look_up_and_a_failure_is_not_kept() {
        let (resolver, asked) = scripted(&[None, Some("192.0.2.1:80")]);
        let now = Instant::now();
        let error = resolver.resolve(now).await.unwrap_err();
        assert!(error.to_string().contains("origin.example"), "{error}");
        let (a, b, c) =
            tokio::join!(resolver.resolve(now), resolver.resolve(now), resolver.resolve(now));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[test]
    fn families_take_turns_and_the_failed_come_last() {
        let [a, b, c, d] =
            ["[2001:db8::1]:80", "[2001:db8::2]:80", "192.0.2.1:80", "192.0.2.2:80"].map(address);
        let resolved = Resolved::new(vec![a, b, a, c, d], Instant::now());
        assert_eq!(resolved.order(), [a, c, b, d]);
        assert_eq!(resolved.order(), [b, d, a, c]);
        resolved.note(a, true);
        assert_eq!(resolved.order(), [c, b, d, a]);
        assert_eq!(resolved.order(), [d, b, c, a]);
        resolved.note(a, false);
        assert_eq!(resolved.order(), [a, c, b, d]);
        assert!(resolved.has(d) && !resolved.has(address("192.0.2.3:80")));
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let many = (0..40).map(|host| SocketAddr::from(([192, 0, 2, host], 80))).collect();
        assert_eq!(Resolved::new(many, Instant::now()).order().len(), ADDRESSES_MAX);
    }
}

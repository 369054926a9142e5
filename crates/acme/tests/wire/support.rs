//! A manager, its directory and its authority.

use crate::authority::{Authority, Fate, Twist, problem};
use freshet_acme::{ChallengeKind, KeyType, Manager, Pace, Plan, Running};
use freshet_net::tls::certificate::CertificateStore;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const NAME: &str = "www.acme.example";

/// How long a test waits for something before it says that it never came.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Bench {
    pub(crate) authority: Authority,
    pub(crate) store: Arc<CertificateStore>,
    /// The store that the authority looks into for proofs.
    looked_into: Arc<Mutex<Vec<Arc<CertificateStore>>>>,
    /// Kinds of challenges the authority was asked to look at.
    pub(crate) kinds: Arc<Mutex<Vec<String>>>,
    refuses_first: Arc<AtomicBool>,
    folder: Arc<TempDir>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let store = Self::empty_store();
        let looked_into = Arc::new(Mutex::new(vec![Arc::clone(&store)]));
        let kinds = Arc::new(Mutex::new(Vec::new()));
        let refuses_first = Arc::new(AtomicBool::new(false));
        let (stores, seen, refuses) =
            (Arc::clone(&looked_into), Arc::clone(&kinds), Arc::clone(&refuses_first));
        let validator = move |name: &str, kind: &str, token: &str, text: &str| {
            assert!(name == NAME || name.ends_with(".demand.example"), "{name}");
            seen.lock().unwrap().push(kind.to_owned());
            let stores = stores.lock().unwrap();
            let mut answers = stores.iter().filter_map(|store| store.challenges().answer(token));
            answers.any(|answer| *answer == *text) && !refuses.swap(false, SeqCst)
        };
        let authority = Authority::start(Arc::new(validator));
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self { authority, store, looked_into, kinds, refuses_first, folder }
    }

    /// Another process of the same directory and authority.
    pub(crate) fn beside(other: &Self) -> Self {
        let store = Self::empty_store();
        other.looked_into.lock().unwrap().push(Arc::clone(&store));
        Self {
            authority: other.authority.clone(),
            store,
            looked_into: Arc::clone(&other.looked_into),
            kinds: Arc::clone(&other.kinds),
            refuses_first: Arc::clone(&other.refuses_first),
            folder: Arc::clone(&other.folder),
        }
    }

    pub(crate) fn empty_store() -> Arc<CertificateStore> {
        CertificateStore::of(Vec::new())
    }

    /// The authority orders nothing any more.
    pub(crate) fn refuse_all(&self) {
        self.authority.twist(Arc::new(|_, what, reply| match what {
            "POST /order" => Fate::Answer(problem(403, "rejectedIdentifier", "no")),
            _ => Fate::Answer(reply),
        }));
    }

    pub(crate) fn refuse_first(&self) {
        self.refuses_first.store(true, SeqCst);
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn plan(&self) -> Plan {
        let quick = Duration::from_millis(5);
        Plan {
            directory: self.authority.directory(),
            ca: None,
            contact: vec!["mailto:ops@acme.example".into()],
            external_account: None,
            key_type: KeyType::P256,
            challenges: vec![ChallengeKind::Http, ChallengeKind::TlsAlpn],
            names: vec![NAME.into()],
            on_demand: None,
            state: self.path(),
            pace: Pace {
                first: quick,
                first_unreached: quick,
                max: Duration::from_millis(10),
                poll: Duration::from_millis(2),
                between_renewals: Duration::ZERO,
            },
        }
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(self.plan())
    }

    pub(crate) fn start_with(&self, plan: Plan) -> Running {
        Manager::open(plan, &self.store).unwrap().start().unwrap()
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.store.has(NAME)
    }
}

/// Waits until it is so, or something is there.
pub(crate) fn until<T: Truth>(what: impl Fn() -> T) -> T::Value {
    let started = Instant::now();
    loop {
        if let Some(value) = what().truth() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "it never came");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

pub(crate) trait Truth {
    type Value;
    fn truth(self) -> Option<Self::Value>;
}

impl Truth for bool {
    type Value = ();
    fn truth(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Truth for Option<T> {
    type Value = T;
    fn truth(self) -> Self {
        self
    }
}

/// What failed last, where something has.
pub(crate) fn error_of(running: &Running) -> Option<String> {
    running.status().names().into_iter().find_map(|(_, name)| Some(name.error?.1))
}

/// Every third answer or so is another than it should be, by a seed.
pub(crate) fn faults(seed: u64) -> Arc<Twist> {
    Arc::new(move |number, _, reply| {
        let mut mixed =
            (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.rotate_left(32);
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 32;
        if !mixed.is_multiple_of(3) {
            return Fate::Answer(reply);
        }
        let half = reply.body.len() / 2;
        match mixed / 3 % 8 {
            0 => Fate::Answer(problem(500, "serverInternal", "trouble")),
            1 => Fate::Answer(problem(400, "badNonce", "another, please")),
            2 => Fate::Answer(problem(429, "rateLimited", "later")),
            3 => Fate::Raw(b"\x00\xffnot HTTP at all\r\n\r\n".to_vec()),
            4 => Fate::Cut,
            5 => {
                let mut bytes = crate::authority::bytes_of(&reply, false);
                bytes.truncate(bytes.len() - half);
                Fate::Raw(bytes)
            }
            6 => {
                let mut body = reply.body.clone();
                body.truncate(half);
                Fate::Answer(crate::authority::Reply { body, ..reply })
            }
            _ => Fate::Answer(crate::authority::Reply { fields: Vec::new(), ..reply }),
        }
    })
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nContent-Type: application/jose+json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(body).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

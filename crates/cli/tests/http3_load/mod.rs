//! Clients of HTTP/3 that ask on and on, and count every request that fails.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

use super::drill::Node;
use super::support::PATIENCE;
use freshet_load::TlsOptions;
use freshet_load::http3::{Figures, Load, Moves, run};
use freshet_load::target::Target;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

pub struct Http3Load {
    answered: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Figures>,
}

impl Http3Load {
    /// So many connections that ask for `path`, each of which makes room for another after
    /// `requests`.
    pub fn start(node: &Node, path: &str, connections: usize, requests: Option<u64>) -> Self {
        Self::at(node.tls_address.unwrap(), path, connections, requests)
    }

    /// The same at an address.
    pub fn at(address: SocketAddr, path: &str, connections: usize, requests: Option<u64>) -> Self {
        Self::moving(address, path, connections, requests, None)
    }

    /// The same, whose clients go elsewhere.
    pub fn moving(
        address: SocketAddr,
        path: &str,
        connections: usize,
        requests: Option<u64>,
        moves: Option<Moves>,
    ) -> Self {
        let load = Load {
            target: Target::parse(&format!("https://{address}"), false).unwrap(),
            tls: TlsOptions::default(),
            path: path.to_owned(),
            objects: 1,
            connections,
            opened_per_second: None,
            streams: 2,
            requests_per_connection: requests,
            ack_every: None,
            duration: Duration::MAX / 4,
            is_idle: false,
            moves,
        };
        let (answered, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, end) = (Arc::clone(&answered), Arc::clone(&stop));
        let thread = spawn(move || run(&load, &end, &count).unwrap());
        Self { answered, stop, thread }
    }

    /// Waits until `more` requests were answered from now on.
    pub fn go_on(&self, more: u64) {
        let (began, wanted) = (Instant::now(), self.answered.load(SeqCst) + more);
        while self.answered.load(SeqCst) < wanted {
            assert!(began.elapsed() < PATIENCE, "{} of {wanted}", self.answered.load(SeqCst));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Begins no more requests.
    pub fn begin_no_more(&self) {
        self.stop.store(true, SeqCst);
    }

    /// Ends it, whatever became of requests.
    pub fn figures(self) -> Figures {
        self.begin_no_more();
        self.thread.join().unwrap()
    }

    /// Ends it. No request may have failed.
    pub fn finish(self) -> Figures {
        let figures = self.figures();
        assert_eq!(figures.failed, 0, "of {}: {:?}", figures.requests, figures.failures);
        figures
    }
}

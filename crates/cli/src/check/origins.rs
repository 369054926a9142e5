//! Whether origins can be reached from here. A node starts all the same, and they may come up later.

use freshet_config::SiteSettings;
use freshet_config::mistake::{Mistake, Place};
use freshet_net::address::Address;
use freshet_node::snapshot::Draft;
use freshet_origin::definition::OriginAddress;
use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// How long all origins together may take to be asked.
const ASKED_WITHIN: Duration = Duration::from_secs(5);
/// How long one may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Origins that are asked; of ten thousand sites the first are enough to see a wrong network.
const ORIGINS_MAX: usize = 64;

/// One origin to be asked.
struct Asked {
    name: String,
    address: OriginAddress,
    place: Place,
}

/// What is known of those that do not answer.
pub(super) fn examine(draft: &Draft) -> Vec<Mistake> {
    let (sender, answers) = channel();
    let mut waiting = Vec::new();
    for (number, one) in asked(draft).into_iter().enumerate() {
        waiting.push(Some((one.name.clone(), one.place)));
        let sender = sender.clone();
        // A name server that hangs keeps its thread until the program ends.
        let ask = move || drop(sender.send((number, one.ask())));
        drop(thread::Builder::new().name("origin".into()).spawn(ask));
    }
    drop(sender);
    let deadline = Instant::now() + ASKED_WITHIN;
    let mut found = Vec::new();
    while let Ok((number, mistake)) =
        answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        waiting[number] = None;
        found.extend(mistake);
    }
    found.extend(waiting.into_iter().flatten().map(|(name, place)| {
        let message =
            format!("origin {name}: nothing was heard within {} s", ASKED_WITHIN.as_secs());
        Mistake::warning(place, message).help("is the name server reachable?")
    }));
    found
}

/// The origins of all sites, each address once.
fn asked(draft: &Draft) -> Vec<Asked> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for site in draft.sites.all() {
        for origin in site.upstreams.board.origins() {
            let settings = &origin.settings;
            if all.len() < ORIGINS_MAX && known.insert(format!("{:?}", settings.address)) {
                all.push(Asked {
                    name: settings.name.clone(),
                    address: settings.address.clone(),
                    place: place_of(&site.settings, &settings.name),
                });
            }
        }
    }
    all
}

/// Where the origin of this name is written: a policy's own is where the policy is named.
fn place_of(site: &SiteSettings, name: &str) -> Place {
    let row = site
        .origins
        .iter()
        .chain(site.parents.all())
        .find(|origin| origin.name == name && site.vcl.is_none());
    row.map_or(site.vcl_place, |origin| origin.place)
}

impl Asked {
    fn ask(&self) -> Option<Mistake> {
        let (problem, help) = match self.connect() {
            Ok(()) => return None,
            Err(Failure::Name(error)) => (
                format!("its name does not resolve: {error}"),
                "correct the name, or wait for the name server; until then clients get 502",
            ),
            Err(Failure::Connection(error)) => (
                format!("it does not accept connections now: {error}"),
                "start it, or correct its address; until then clients get 502 for what is not kept",
            ),
        };
        Some(Mistake::warning(self.place, format!("origin {}: {problem}", self.name)).help(help))
    }

    fn connect(&self) -> Result<(), Failure> {
        match &self.address {
            OriginAddress::Name { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs().map_err(Failure::Name)?;
                any(found)
            }
            OriginAddress::Fixed(Address::Tcp(address)) => any(std::iter::once(*address)),
            OriginAddress::Fixed(Address::Unix(path)) => {
                UnixStream::connect(path).map(drop).map_err(Failure::Connection)
            }
        }
    }
}

enum Failure {
    Name(io::Error),
    Connection(io::Error),
}

/// Whether one of these addresses accepts a connection.
fn any(addresses: impl Iterator<Item = SocketAddr>) -> Result<(), Failure> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(Failure::Connection(last))
}

//! Policies run by this node and by Debian's varnishd: the same requests get the same answers, and
//! the same of them reach the origin.
//!
//! The short form here takes a few policies and requests; `bench/vcl/differential` takes all.

mod policies;
mod traffic;

use crate::client::{Answer, Client};
use crate::harness::{Setup, run_within};
use crate::origin::Origin;
use freshet_net::address::Address;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use traffic::{Ask, Draw};

/// Requests for each policy in the short form.
const REQUESTS_SHORT: usize = 60;
/// Policies of the short form: each takes a second or more to compile for Varnish.
const POLICIES_SHORT: [&str; 3] = ["strip cookies", "cookies by pattern", "redirects"];
/// Long enough to compile a policy with a C compiler on a loaded machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// Fields that say who answered or when, and not what.
const OWN: [&str; 13] = [
    "age",
    "via",
    "x-varnish",
    "server",
    "date",
    "connection",
    "keep-alive",
    "cache-status",
    "accept-ranges",
    "content-length",
    "transfer-encoding",
    "x-cache-hits",
    "proxy-status",
];

/// Further ones in a 304.
const OWN_304: [&str; 1] = ["x-powered-by"];

/// Debian's Varnish, with a policy.
struct Varnish {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Varnish {
    /// The inner `None` is a policy it does not take.
    fn start(policy: &Path) -> Option<Option<Self>> {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().display().to_string();
        let policy = policy.display().to_string();
        let child = Command::new("varnishd")
            .args(["-F", "-j", "none", "-a", "127.0.0.1:0", "-n", &name, "-f", &policy])
            .args(["-p", "thread_pool_min=5", "-p", "vsl_space=1m", "-s", "malloc,16m"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .ok()?;
        let mut varnish = Self { child, address: ([0, 0, 0, 0], 0).into(), _folder: folder };
        let Some(address) = varnish.listening(&name) else { return Some(None) };
        varnish.address = address;
        Some(Some(varnish))
    }

    /// Asks it where it listens until it does.
    fn listening(&mut self, name: &str) -> Option<SocketAddr> {
        loop {
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            let told = Command::new("varnishadm")
                .args(["-t", "30", "-n", name, "debug.listen_address"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&told.stdout).into_owned();
            let mut words = text.split_whitespace();
            if let (Some("a0"), Some(host), Some(port)) = (words.next(), words.next(), words.next())
                && let (Ok(host), Ok(port)) = (host.parse(), port.parse::<u16>())
                && port > 0
            {
                return Some(SocketAddr::new(host, port));
            }
        }
    }
}

impl Drop for Varnish {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A policy's text in front of an origin.
fn text(policy: &str, origin: &Origin) -> String {
    let Address::Tcp(address) = &origin.address else { panic!("the tests' origins are on TCP") };
    let (host, port) = (address.ip(), address.port());
    let backend = format!(
        "backend default {{ .host = \"{host}\"; .port = \"{port}\"; .max_connections = 100; }}"
    );
    format!("vcl 4.1;\n{backend}\n{policy}")
}

/// What a client sees of an answer, less what is each server's own.
fn visible(answer: &Answer) -> String {
    let mut fields: Vec<_> = answer
        .head
        .fields
        .iter()
        .filter(|(name, _)| !OWN.contains(&&*name.to_ascii_lowercase()))
        // RFC 9110 §15.4.5: a 304 says again only what may have changed.
        .filter(|(name, _)| {
            answer.status != 304 || OWN_304.iter().all(|one| !name.eq_ignore_ascii_case(one))
        })
        .map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()))
        .collect();
    fields.sort();
    // The page of an error names the request by a number.
    let body: Vec<_> =
        answer.text().lines().filter(|line| !line.contains("XID:")).map(str::to_owned).collect();
    format!("{}\n{}\n\n{}", answer.status, fields.join("\n"), body.join("\n"))
}

/// Compares one policy; what differs first, or that there is no Varnish.
async fn compare(name: &str, policy: &str, requests: usize) -> Result<(), Difference> {
    let (ours, theirs) = (traffic::origin(), traffic::origin());
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, origin: &Origin| {
        let path = folder.path().join(file);
        std::fs::write(&path, text(policy, origin)).unwrap();
        path
    };
    let Some(varnish) = Varnish::start(&write("theirs.vcl", &theirs)) else {
        return Err(Difference::NoVarnish);
    };
    let Some(varnish) = varnish else {
        return Err(Difference::Found(format!("policy {name}: varnishd does not take it")));
    };
    let mut setup = Setup::of(&ours);
    setup.origins = String::new();
    setup.listen = format!("vcl = \"{}\"\n{}", write("ours.vcl", &ours).display(), setup.listen);
    let node = setup.start();
    let mut draw = Draw::seeded(name);
    let mut asked: Vec<Ask> = Vec::new();
    for number in 0..requests {
        let ask = draw.request();
        let mut answers = Vec::new();
        for address in [node.address(), varnish.address] {
            // A connection each: what ends one is not what is compared.
            let mut client = Client::connect(address).await;
            client.ask(ask.method, &ask.target, &ask.fields()).await;
            answers.push(visible(&client.answer(ask.method).await));
        }
        asked.push(ask);
        let counts = [ours.count(), theirs.count()];
        if answers[0] == answers[1] && counts[0] == counts[1] {
            continue;
        }
        return Err(Difference::Found(format!(
            "policy {name}, request {number}: {:?}\nours ({} at the origin):\n{}\n\nVarnish's ({} at \
             the origin):\n{}\n\nbefore it: {:?}",
            asked[number],
            counts[0],
            answers[0],
            counts[1],
            answers[1],
            asked.iter().filter(|one| one.target == asked[number].target).collect::<Vec<_>>(),
        )));
    }
    Ok(())
}

enum Difference {
    NoVarnish,
    Found(String),
}

#[test]
fn policies_do_what_they_do_under_varnish() {
    let all = policies::ALL;
    let long = std::env::var("FRESHET_DIFFERENTIAL").ok();
    let requests = long.as_ref().and_then(|count| count.parse().ok()).unwrap_or(REQUESTS_SHORT);
    run_within(LIMIT, async {
        let mut found = Vec::new();
        let wanted = |name: &str| long.is_some() || POLICIES_SHORT.contains(&name);
        for (name, policy) in all.iter().filter(|(name, _)| wanted(name)) {
            match compare(name, policy, requests).await {
                Ok(()) => println!("{name}: {requests} requests alike"),
                Err(Difference::NoVarnish) => {
                    return crate::skip::missing("varnishd");
                }
                Err(Difference::Found(text)) => {
                    println!("{text}\n");
                    found.push(*name);
                }
            }
        }
        assert!(found.is_empty(), "these differ: {found:?}");
    });
}

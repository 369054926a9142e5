//! Random policies run here and by Debian's Varnish: the same requests get the same answers, and
//! the same is asked of the origin, logged and counted.
//!
//! The short form takes a few; `bench/vcl/differential run` takes as many as wanted.

mod client;
mod counters;
mod message;
mod origin;
mod records;
mod requests;
mod retarget;
mod server;
mod shares;
mod shrink;

use crate::{corpus, grammar, run::requests::Ask, support};
use client::Client;
use server::Server;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const POLICIES_SHORT: u64 = 12;
const REQUESTS: usize = 8;
/// Pairs of servers for each processor, where there are enough policies for them.
const PAIRS_EACH: u64 = 3;
/// Kinds of differences that are made smaller and shown, where nothing else is said.
const SHOWN_MAX: u64 = 25;
/// What is compared where nothing else is said; `log` and `count` are the others.
const PARTS: &str = "answer asked";
/// Lines shown before and behind where a difference begins, where nothing else is said.
const BEFORE: u64 = 8;
const AFTER: u64 = 5;
/// How much later a request is sent than the one it is beside.
const BESIDE_AFTER: Duration = Duration::from_millis(200);
/// What is said of one whose log is not all there in time.
const NO_END: &str = "the log has no end";
/// How often a policy is run that seems to differ: what is not the same each time is chance.
const TRIES: usize = 3;

/// Counters that both have, and that count what a policy does.
fn is_counted(name: &str) -> bool {
    if name.ends_with("bytes") {
        return false;
    }
    let prefixes = ["client_req", "cache_", "s_", "fetch_", "esi_", "n_purges", "n_obj_purged"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || matches!(name, "bans_added" | "sess_conn" | "backend_fail" | "losthdr" | "vcl_fail")
}

/// Two servers, and how often each policy was made anew.
struct Pair {
    ours: Server,
    debians: Server,
    /// Debian's.
    program: PathBuf,
    runs: usize,
    /// How many were taken by both and run to their end.
    compared: usize,
    /// How often Debian's ended by an assertion of its own.
    panics: usize,
    /// How often it gave no answer, or the machine had no time for it.
    silent: usize,
    /// What was said of the policy last refused, here and by Debian's.
    refusals: Vec<String>,
}

/// What was seen of a policy.
#[derive(Debug, PartialEq)]
struct Seen {
    answers: Vec<String>,
    asked: Vec<String>,
    records: Vec<String>,
    counts: Vec<String>,
}

impl Seen {
    /// The first thing that is not in both.
    fn difference(&self, debians: &Self) -> Option<String> {
        let parts = [
            ("answer", &self.answers, &debians.answers),
            ("asked", &self.asked, &debians.asked),
            ("log", &self.records, &debians.records),
            ("count", &self.counts, &debians.counts),
        ];
        parts.iter().filter(|(of, ..)| is_compared(of)).find_map(|(of, ours, debians)| {
            let longest = ours.len().max(debians.len());
            let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_default();
            let at = (0..longest).find(|at| ours.get(*at) != debians.get(*at))?;
            let wanted = number("FRESHET_AROUND");
            let [before, after] = [BEFORE, AFTER].map(|lines| wanted.unwrap_or(lines) as usize);
            let around = |lines: &[String]| {
                let from = at.saturating_sub(before);
                let part = lines.iter().skip(from).take(at - from + after);
                part.map(|line| format!("\n    {line}")).collect::<String>()
            };
            let (first, second) = (line(debians, at), line(ours, at));
            let (theirs, our) = (around(debians), around(ours));
            Some(format!("{of}: {first} / {second}\n  Varnish:{theirs}\n  here:{our}"))
        })
    }
}

/// What a variable of the environment says, where that is a number.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn is_compared(part: &str) -> bool {
    let compared = std::env::var("FRESHET_PARTS").unwrap_or_else(|_| PARTS.into());
    compared.split(' ').any(|one| one == part)
}

/// A line without what tells one run from another.
fn plain_line(line: &str) -> String {
    // What Varnish 7.1 writes into a body for what is unset.
    let line = &*line.replace("(null)", "");
    // Space at the start of a value is not sent here.
    let line = &*match line.split_once(":  ") {
        Some((name, value)) if !name.contains(' ') => format!("{name}: {}", value.trim_start()),
        _ => line.to_owned(),
    };
    let name = line.split(':').next().unwrap_or("").trim().to_ascii_lowercase();
    match &*name {
        // Kept apart from other fields, and by the name it has in standards.
        "host" => format!("Host{}", &line[4..]),
        "connection" => format!("Connection{}", &line[10..]),
        "date" => "Date: now".into(),
        // How long a tunnel was open before is in it.
        "age" if line.ends_with(" 1") => "Age: 0".into(),
        "x-varnish" => {
            format!(
                "X-Varnish: {}",
                ["an id", "two ids"][usize::from(line.matches(' ').count() > 1)]
            )
        }
        // What is made here has the number of its request in it.
        "content-range" => line.split('/').next().unwrap_or("").to_owned(),
        "<p>xid" => "<p>XID: id</p>".into(),
        // Varnish 7.1 writes a blob with an alphabet in which these two letters are swapped.
        _ if has_blob(line) => line.replace('q', "r"),
        _ => line.trim_end().to_owned(),
    }
}

/// Whether a line has a blob as text in it.
fn has_blob(line: &str) -> bool {
    let is_blob = |word: &str| word.len() > 2 && word.starts_with(':') && word.ends_with(':');
    line.contains("=:") || line.split(' ').any(is_blob)
}

/// A difference without what is only in this one.
fn kind(difference: &str) -> String {
    let mut out = String::new();
    let first = difference.lines().next().unwrap_or("");
    let is_short = |word: &&str| word.len() < 24;
    let words: Vec<_> = first.split(' ').filter(is_short).collect();
    for c in words.join(" ").chars() {
        match c {
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            other => out.push(other),
        }
    }
    out.chars().take(110).collect()
}

impl Pair {
    fn started() -> Option<Self> {
        let program = support::program("varnishd")?;
        support::program("varnishlog")?;
        let (ours, debians) = (Server::ours(), Server::debians(&program));
        Some(Self {
            ours,
            debians,
            program,
            runs: 0,
            compared: 0,
            panics: 0,
            silent: 0,
            refusals: Vec::new(),
        })
    }

    /// How a policy differs, if it does each time.
    fn difference(&mut self, policy: &str, asks: &[Ask]) -> Option<String> {
        let mut found = None;
        let compared = self.compared;
        for _ in 0..TRIES {
            found = self.once(policy, asks);
            if found.is_none() {
                break;
            }
        }
        self.compared = compared + usize::from(self.compared > compared);
        found
    }

    fn once(&mut self, policy: &str, asks: &[Ask]) -> Option<String> {
        self.runs += 1;
        let text = policy.replace("SEED", &self.runs.to_string());
        let (debians, ours) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| seen(&mut self.ours, &text, asks));
            (seen(&mut self.debians, &text, asks), ours.join().unwrap())
        });
        // What is not taken by both is compared where policies are compiled.
        let (ours, debians) = match (ours, debians) {
            (Ok(ours), Ok(debians)) => (ours, debians),
            (ours, debians) => {
                self.refusals = [ours.err(), debians.err()].into_iter().flatten().collect();
                return None;
            }
        };
        let has_none = |seen: &Seen| seen.answers.iter().any(|line| line.starts_with("no answer"));
        if has_none(&debians) && !has_none(&ours) {
            // It hangs, or has ended and been started again; ours has answered.
            self.silent += 1;
            return None;
        }
        if [&ours, &debians].iter().all(|seen| seen.answers.iter().any(|line| line == NO_END)) {
            // The machine has too much to do: how far either has come is chance.
            self.silent += 1;
            return None;
        }
        let difference = ours.difference(&debians);
        if difference.is_some() && self.debians.has_panicked() {
            self.debians = Server::debians(&self.program);
            self.panics += 1;
            return None;
        }
        self.compared += 1;
        difference
    }
}

/// Runs a policy, if it is taken.
fn seen(server: &mut Server, policy: &str, asks: &[Ask]) -> Result<Seen, String> {
    server.load(policy)?;
    server.origin.asked();
    // What is fetched behind an answer has to be there when the next is asked for.
    let waits = policy.contains("grace") || policy.contains("ttl");
    let address = server.address.clone();
    let mut client = Client::new(&address);
    let mut answers = Vec::new();
    let mut sessions = 0;
    let mut is_logged = true;
    let mut answered = 0;
    for group in asks.chunk_by(|_, next| next.is_beside) {
        let Some((first, beside)) = group.split_first() else { continue };
        let (said, others) = std::thread::scope(|scope| {
            let others = (1..).zip(beside).map(|(place, ask)| {
                let mut client = Client::new(&address);
                scope.spawn(move || {
                    std::thread::sleep(BESIDE_AFTER * place);
                    (client.ask(ask), client)
                })
            });
            let others: Vec<_> = others.collect();
            let said = client.ask(first);
            (said, others.into_iter().map(|other| other.join().unwrap()).collect::<Vec<_>>())
        });
        sessions += others.iter().map(|(_, client)| client.sessions).sum::<usize>();
        for said in std::iter::once(&said).chain(others.iter().map(|(said, _)| said)) {
            answered += usize::from(said.is_answered);
            answers.extend(said.messages.iter().cloned());
        }
        drop(others);
        if waits && is_logged {
            is_logged = server.logs(0, answered);
        }
    }
    sessions += client.sessions;
    drop(client);
    if is_compared("log") || is_compared("count") {
        is_logged &= server.logs(sessions, answered);
        if !is_logged {
            answers.push(NO_END.into());
        }
    }
    let counts = if is_compared("count") { server.counts() } else { BTreeMap::new() };
    let counts = counts.into_iter().map(|(name, by)| format!("{name} {by}")).collect();
    let records = server.records.lines();
    let asked = server.origin.asked().iter().flat_map(|head| lines(head)).collect();
    Ok(Seen {
        answers: answers.iter().flat_map(|text| lines(text)).collect(),
        asked,
        records,
        counts,
    })
}

/// A message in lines, its fields by name: in which order different ones are means nothing. How long
/// a body was said to be is compared by the body.
fn lines(text: &str) -> Vec<String> {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let mut lines: Vec<String> =
        head.lines().map(plain_line).filter(|line| !is_framing(line)).collect();
    if lines.first().is_some_and(|line| line.contains("500 Internal")) && body.starts_with('\n') {
        // Ours says when it was, and that it is the last.
        lines.truncate(1);
    }
    if let Some(fields) = lines.get_mut(1..) {
        fields.sort();
    }
    lines.extend(body.lines().map(plain_line));
    lines
}

/// Whether a line says how a body is sent, which depends on how much of it is there.
fn is_framing(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or("").to_ascii_lowercase();
    matches!(&*name, "content-length" | "transfer-encoding")
}

/// What several pairs of servers found.
#[derive(Default)]
struct Found {
    compared: usize,
    panics: usize,
    silent: usize,
    /// Of each kind of difference how many, and a seed that shows it.
    kinds: BTreeMap<String, (u64, u64)>,
    refusals: Vec<String>,
}

impl Found {
    fn add(&mut self, pair: Pair, kinds: Vec<(String, u64)>) {
        self.compared += pair.compared;
        self.panics += pair.panics;
        self.silent += pair.silent;
        self.refusals = pair.refusals;
        for (kind, seed) in kinds {
            self.kinds.entry(kind).or_insert((0, seed)).0 += 1;
        }
    }
}

/// A policy with its name, if it has one, and the requests for it.
type Drawn = (String, String, Vec<Ask>);

/// Compares those of so many seeds, by several pairs at once: most of the time goes by in waiting.
/// None where there is no Varnish.
fn differences(first: u64, count: u64, drawn: &(dyn Fn(u64) -> Drawn + Sync)) -> Option<Found> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let pairs = (PAIRS_EACH * processors).min(count.div_ceil(POLICIES_SHORT));
    let next = AtomicU64::new(first);
    let search = || {
        let mut pair = Pair::started()?;
        let mut kinds = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return Some((pair, kinds));
            }
            let (name, policy, asks) = drawn(seed);
            if let Some(difference) = pair.difference(&policy, &asks) {
                println!("seed {seed}: {} {name}", difference.lines().next().unwrap_or(""));
                kinds.push((kind(&difference), seed));
            }
        }
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..pairs).map(|_| scope.spawn(search)).collect();
        spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut found = Found::default();
    for one in done {
        let (pair, kinds) = one?;
        found.add(pair, kinds);
    }
    Some(found)
}

#[test]
fn policies_do_what_they_do_under_varnish() {
    let first = number("FRESHET_SEED").unwrap_or(0);
    let count = number("FRESHET_POLICIES").unwrap_or(POLICIES_SHORT);
    let corpus = std::env::var("FRESHET_CORPUS").ok().map(|folders| corpus::policies(&folders));
    let is_usual = std::env::var("FRESHET_USUAL").is_ok();
    let drawn = |seed: u64| match corpus.as_deref() {
        // Each of a folder in turn, with other requests each time.
        Some(policies) => {
            let (name, text) = &policies[seed as usize % policies.len()];
            (name.clone(), retarget::retargeted(text), requests::usual(seed, REQUESTS))
        }
        None if is_usual => (String::new(), grammar::usual(seed), requests::usual(seed, REQUESTS)),
        None => {
            let policy = grammar::running(seed);
            let mut asks = requests::requests(seed, REQUESTS);
            if policy.contains("ban(") {
                // A ban is about what is being fetched as well here, as the documentation says.
                asks.iter_mut().for_each(|ask| ask.is_beside = false);
            }
            (String::new(), policy, asks)
        }
    };
    let Some(found) = differences(first, count, &drawn) else { return };
    let differing: u64 = found.kinds.values().map(|(count, _)| count).sum();
    println!(
        "{count} policies, {} of them compared, {differing} differ; Varnish panicked {} times and gave no answer {} times",
        found.compared, found.panics, found.silent
    );
    let mut kinds: Vec<_> = found.kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let mut pair = Pair::started().expect("it was there before");
    let shown_max = number("FRESHET_SHOWN").unwrap_or(SHOWN_MAX);
    for (at, (kind, (count, seed))) in (0..).zip(&kinds) {
        println!("\n== {count} × {kind} (seed {seed})");
        if at < shown_max {
            let (_, policy, asks) = drawn(*seed);
            println!("{}", shrink::shrunk(&mut pair, &policy, asks, kind));
        }
    }
    // Where a server takes no policy at all, nothing was compared.
    assert!(found.compared > 0, "none compared; the last was refused with {:#?}", found.refusals);
    assert_eq!(differing, 0);
}

//! Random policies compiled here and by Debian's Varnish: the same are taken, and of what is wrong
//! with the others the same line is told first.
//!
//! The short form takes a few hundred; `bench/vcl/differential` takes as many as wanted.

mod mutation;
mod shrink;
mod varnish;

use crate::{corpus, grammar};
use freshet_vcl::{NoFiles, Settings, Severity, Source};
use mutation::Mutations;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use varnish::{Compiler, Verdict};

const POLICIES_SHORT: u64 = 200;
/// After how many it is said how far it is: a campaign takes hours, and may be ended before.
const TOLD_EVERY: u64 = 5000;
/// Kinds of differences shown whole.
const SHOWN_MAX: usize = 60;

/// What our compiler says: nothing, or lines with what is wrong in each. `None` where it panics.
fn ours(text: &str) -> Option<Vec<(usize, String)>> {
    std::panic::catch_unwind(|| mistakes(text)).ok()
}

fn mistakes(text: &str) -> Vec<(usize, String)> {
    let settings = Settings { test_module: true, labels: Some(Vec::new()), ..Settings::default() };
    let source = Source { name: "policy.vcl".into(), text: text.into() };
    let (program, report) = freshet_vcl::compile(source, &NoFiles, &settings);
    let errors = report.diagnostics.iter().filter(|one| one.severity == Severity::Error);
    let errors: Vec<_> =
        errors.map(|one| (report.sources.place(one.span).1, one.message.clone())).collect();
    assert_eq!(program.is_none(), !errors.is_empty());
    errors
}

/// A message without what is only in this one.
fn kind(text: &str) -> String {
    let first = text.lines().next().unwrap_or("");
    let plain: String = first.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    plain.split('\'').step_by(2).collect::<Vec<_>>().join("…")
}

/// What is refused here on purpose.
fn is_meant(message: &str) -> bool {
    // Varnish takes it, and its process ends where it is run.
    message == "Division by zero"
}

/// How two verdicts differ, in words that are the same for differences of one kind.
fn difference(theirs: &Verdict, ours: Option<&[(usize, String)]>) -> Option<String> {
    let Some(ours) = ours else { return Some("panics here".into()) };
    let kept: Vec<_> = ours.iter().filter(|(_, message)| !is_meant(message)).cloned().collect();
    let ours = &*kept;
    match theirs {
        Verdict::Taken => {
            let (_, message) = ours.first()?;
            Some(format!("taken there, here: {}", kind(message)))
        }
        Verdict::Refused(_, message) if ours.is_empty() => {
            Some(format!("taken here, there: {}", kind(message)))
        }
        Verdict::Refused(line, message) => {
            if message.starts_with("Assert error") {
                return None;
            }
            let end = |message: &str| message.contains("end of input");
            let is_theirs = |(at, said): &&(usize, String)| {
                at == line
                    || *line == 0
                    || (*line == varnish::BEHIND && end(said))
                    // Varnish shows what follows it, which may be in another line.
                    || [&**said, message].iter().all(|one| one.starts_with("Symbol cannot be used"))
            };
            let at_line: Vec<_> = ours.iter().filter(is_theirs).collect();
            if !is_theirs(&&ours[0]) {
                let what = if at_line.is_empty() { "line" } else { "order" };
                return Some(format!("{what}: {} / {}", kind(message), kind(&ours[0].1)));
            }
            let first = message.lines().next().unwrap_or("");
            let is_said =
                at_line.iter().any(|(_, text)| text.lines().any(|row| row.contains(first)));
            let texts = std::env::var("FRESHET_TEXTS").is_ok();
            (texts && !is_said)
                .then(|| format!("text: {} / {}", kind(message), kind(&at_line[0].1)))
        }
    }
}

/// Compares one policy; how it differs.
fn compare(text: &str, varnish: &mut Compiler) -> Option<String> {
    let theirs = varnish.verdict(text);
    difference(&theirs, ours(text).as_deref())
}

#[derive(Default)]
struct Found {
    policies: u64,
    taken: u64,
    /// Of each kind of difference how many, and a policy that shows it.
    kinds: BTreeMap<String, (u64, String)>,
    /// Of each reason to refuse how many.
    refused: BTreeMap<String, u64>,
}

impl Found {
    /// Compares one more; how it differs.
    fn judge(&mut self, text: String, varnish: &mut Compiler) -> Option<String> {
        let theirs = varnish.verdict(&text);
        self.policies += 1;
        self.taken += u64::from(theirs == Verdict::Taken);
        if let Verdict::Refused(_, message) = &theirs {
            *self.refused.entry(kind(message)).or_default() += 1;
        }
        let kind = difference(&theirs, ours(&text).as_deref())?;
        self.differs(kind.clone(), 1, text);
        Some(kind)
    }

    /// Counts a difference, and keeps the shortest policy that shows it.
    fn differs(&mut self, kind: String, count: u64, text: String) {
        let entry = self.kinds.entry(kind).or_insert_with(|| (0, text.clone()));
        entry.0 += count;
        if text.len() < entry.1.len() {
            entry.1 = text;
        }
    }

    fn add(&mut self, other: Self) {
        self.policies += other.policies;
        self.taken += other.taken;
        for (kind, count) in other.refused {
            *self.refused.entry(kind).or_default() += count;
        }
        for (kind, (count, text)) in other.kinds {
            self.differs(kind, count, text);
        }
    }
}

/// Asks of as many policies as are wanted, by as many threads as there are processors. None where
/// there is no Varnish.
fn differences(count: u64, policy: &(dyn Fn(u64) -> String + Sync)) -> Option<Found> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let first = std::env::var("FRESHET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let next = AtomicU64::new(first);
    let search = || {
        let mut varnish = Compiler::start()?;
        let mut found = Found::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return Some(found);
            }
            if let Some(kind) = found.judge(policy(seed), &mut varnish) {
                println!("seed {seed}: {kind}");
            }
            let done = seed - first + 1;
            if done.is_multiple_of(TOLD_EVERY) {
                println!("{done} of {count} policies");
            }
        }
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = Found::default();
    for one in found {
        all.add(one?);
    }
    Some(all)
}

#[test]
fn policies_compile_where_they_do_under_varnish() {
    let count = std::env::var("FRESHET_POLICIES").ok().and_then(|count| count.parse().ok());
    let corpus = std::env::var("FRESHET_CORPUS").ok().map(|folders| {
        Mutations::of(corpus::policies(&folders).into_iter().map(|(_, text)| text).collect())
    });
    let all = corpus.as_ref().map_or(POLICIES_SHORT, |corpus| corpus.count() as u64);
    let policy = |seed: u64| match &corpus {
        Some(corpus) => corpus.nth(seed),
        None => grammar::policy(seed),
    };
    let Some(found) = differences(count.unwrap_or(all), &policy) else { return };
    let differing: u64 = found.kinds.values().map(|(count, _)| count).sum();
    println!("{} policies, {} taken by Varnish, {differing} differ", found.policies, found.taken);
    let mut refused: Vec<_> = found.refused.iter().collect();
    refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (kind, count) in refused.iter().take(SHOWN_MAX) {
        println!("{count:6} refused: {kind}");
    }
    let mut kinds: Vec<_> = found.kinds.iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (kind, (count, _)) in &kinds {
        println!("{count:6} differ: {kind}");
    }
    let mut varnish = Compiler::start().expect("it was there before");
    for (kind, (count, text)) in kinds.iter().take(SHOWN_MAX) {
        println!("\n== {count} × {kind}");
        println!("{}", shrink::shrunk(text, kind, &mut varnish));
    }
    assert_eq!(differing, 0);
}

//! Random policies compiled here and by Debian's Varnish: the same are taken, and what is wrong
//! with the others is found in the same lines.
//!
//! The short form takes a few hundred; `bench/vcl/differential` takes as many as wanted.

mod shrink;
mod varnish;

use crate::{grammar, support::skip};
use freshet_vcl::{NoFiles, Settings, Severity, Source};
use std::collections::BTreeMap;
use std::path::Path;
use varnish::Verdict;

const POLICIES_SHORT: u64 = 200;
/// Kinds of differences shown whole.
const SHOWN_MAX: usize = 60;

/// What our compiler says: nothing, or lines with what is wrong in each.
fn ours(text: &str) -> Vec<(usize, String)> {
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
fn difference(theirs: &Verdict, ours: &[(usize, String)]) -> Option<String> {
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
            let at_line: Vec<_> = ours
                .iter()
                .filter(|(at, message)| {
                    at == line || *line == 0 || (*line == varnish::BEHIND && end(message))
                })
                .collect();
            if at_line.is_empty() {
                return Some(format!("line: {} / {}", kind(message), kind(&ours[0].1)));
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

/// Compares one policy; how it differs. `None` inside where there is no Varnish.
fn compare(text: &str, folder: &Path) -> Option<Option<String>> {
    let theirs = varnish::verdict(text, folder)?;
    Some(difference(&theirs, &ours(text)))
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

fn search(
    first: u64,
    step: u64,
    end: u64,
    policies: &(dyn Fn(u64) -> String + Sync),
) -> Option<Found> {
    let folder = tempfile::tempdir().unwrap();
    let mut found = Found::default();
    let mut seed = first;
    while seed < end {
        let text = policies(seed);
        seed += step;
        let theirs = varnish::verdict(&text, folder.path())?;
        found.policies += 1;
        found.taken += u64::from(theirs == Verdict::Taken);
        if let Verdict::Refused(_, message) = &theirs {
            *found.refused.entry(kind(message)).or_default() += 1;
        }
        if let Some(kind) = difference(&theirs, &ours(&text)) {
            let entry = found.kinds.entry(kind).or_insert_with(|| (0, text.clone()));
            entry.0 += 1;
            if text.len() < entry.1.len() {
                entry.1 = text;
            }
        }
    }
    Some(found)
}

/// Asks for as many policies as there is time for, by as many threads as there are processors.
fn differences(count: u64, policies: &(dyn Fn(u64) -> String + Sync)) -> Option<Found> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let start = std::env::var("FRESHET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let found: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|one| scope.spawn(move || search(start + one, threads, start + count, policies)))
            .collect();
        spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = Found::default();
    for one in found {
        let one = one?;
        all.policies += one.policies;
        all.taken += one.taken;
        for (kind, count) in one.refused {
            *all.refused.entry(kind).or_default() += count;
        }
        for (kind, (count, text)) in one.kinds {
            let entry = all.kinds.entry(kind).or_insert_with(|| (0, text.clone()));
            entry.0 += count;
            if text.len() < entry.1.len() {
                entry.1 = text;
            }
        }
    }
    Some(all)
}

#[test]
fn policies_compile_where_they_do_under_varnish() {
    let count = std::env::var("FRESHET_POLICIES").ok().and_then(|count| count.parse().ok());
    let corpus = std::env::var("FRESHET_CORPUS").ok().map(|folder| shrink::corpus(&folder));
    let policies = |seed: u64| match &corpus {
        Some(corpus) => shrink::mutated(corpus, seed),
        None => grammar::policy(seed),
    };
    let Some(found) = differences(count.unwrap_or(POLICIES_SHORT), &policies) else {
        skip::missing("varnishd");
        return;
    };
    let differing: u64 = found.kinds.values().map(|(count, _)| count).sum();
    println!("{} policies, {} taken by Varnish, {differing} differ", found.policies, found.taken);
    let mut refused: Vec<_> = found.refused.iter().collect();
    refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (kind, count) in refused.iter().take(SHOWN_MAX) {
        println!("{count:6} refused: {kind}");
    }
    let mut kinds: Vec<_> = found.kinds.iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let folder = tempfile::tempdir().unwrap();
    for (kind, (count, text)) in kinds.iter().take(SHOWN_MAX) {
        println!("\n== {count} × {kind}");
        println!("{}", shrink::shrunk(text, kind, folder.path()));
    }
    assert_eq!(differing, 0);
}

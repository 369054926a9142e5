//! What ten thousand sites cost: `cargo bench -p freshet-node --bench sites`.
//!
//! Prints the time from the text of a configuration to a snapshot, the resident memory a site takes
//! (its origin, its hosts and what was read of it included, without a certificate), and the time of a look-up
//! by host.

#![allow(clippy::print_stdout, reason = "its figures are what it is for")]

use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_node::preflight::{InForce, Prepared};
use freshet_node::snapshot::Snapshot;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SITES: usize = 10_000;
/// To read a text takes more than what becomes of it, and leaves room that comes to use later: what sites take
/// is what each further configuration adds, when some were read.
const LOADS_BEFORE: usize = 3;
const LOADS: usize = 12;
const LOOKUPS: usize = 2_000_000;
const ROUNDS: usize = 5;

fn main() {
    let mut text = String::from("[cache]\ngrace = \"10s\"\n");
    for number in 0..SITES {
        let _ = write!(
            text,
            "[[site]]\nhosts = [\"www.site-{number}.example\", \"*.cdn-{number}.example\"]\n\
             [[site.origin]]\nurl = \"http://10.{}.{}.{}:8080\"\n[site.cache]\nnegative = \"{}s\"\n",
            number >> 16,
            (number >> 8) & 255,
            number & 255,
            number % 60,
        );
    }
    let begun = Instant::now();
    let snapshot = load(&text, |parsed| {
        let (all, parsed) = (begun.elapsed().as_secs_f64(), parsed.as_secs_f64());
        println!("load: {all:.2} s, {parsed:.2} s of it the text");
    });
    let mut others: Vec<_> = (1..LOADS_BEFORE).map(|_| load(&text, |_| ())).collect();
    let before = resident_bytes();
    others.extend((0..LOADS).map(|_| load(&text, |_| ())));
    let bytes = resident_bytes().saturating_sub(before);
    println!("memory: {} bytes for each site", bytes / (LOADS * SITES) as u64);
    drop(others);
    let begun = Instant::now();
    let in_force = InForce { snapshot: &snapshot, certificates: None };
    let again = Prepared::new((*snapshot.settings).clone(), Some(&in_force));
    assert!(again.is_ok(), "a reload works");
    println!("reload without the text: {:.2} s", begun.elapsed().as_secs_f64());
    for (what, host) in [
        ("by name", "www.site-7777.example"),
        ("by its end", "deep.img.cdn-77.example"),
        ("of no site", "www.nobody.example"),
    ] {
        let best = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            for _ in 0..LOOKUPS {
                black_box(snapshot.sites.of(black_box(host)));
            }
            begun.elapsed().as_nanos() as f64 / LOOKUPS as f64
        });
        println!("look-up {what}: {:.0} ns", best.fold(f64::MAX, f64::min));
    }
}

/// A snapshot of a text; `done` is told how long its words took.
fn load(text: &str, done: impl FnOnce(Duration)) -> Snapshot {
    let begun = Instant::now();
    let document = Document::parse(text).expect("the text is well-formed");
    let parsed = begun.elapsed();
    let settings = Settings::from_document(&document).expect("the settings are sound");
    let Ok(prepared) = Prepared::new(settings, None) else { panic!("the sites can be made") };
    let snapshot = prepared.draft.on([].into(), None);
    done(parsed);
    snapshot
}

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number is pages") * 4096
}

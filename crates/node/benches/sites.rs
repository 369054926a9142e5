//! What ten thousand sites cost: `cargo bench -p freshet-node --bench sites`.
//!
//! Prints the time from the text of a configuration to a snapshot, the resident memory a site takes
//! (its origin and host included, without a certificate), and the time of a look-up by host.

#![allow(clippy::print_stdout, reason = "its figures are what it is for")]

use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_node::snapshot::Draft;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

const SITES: usize = 10_000;
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
    let (before, begun) = (resident_bytes(), Instant::now());
    let document = Document::parse(&text).expect("the text is well-formed");
    let parsed = begun.elapsed();
    let settings = Settings::from_document(&document).expect("the settings are sound");
    let draft = Draft::new(settings, None).expect("the sites can be made");
    let snapshot = draft.on([].into(), None);
    println!(
        "load: {:.2} s, {:.2} s of it the text",
        begun.elapsed().as_secs_f64(),
        parsed.as_secs_f64()
    );
    let bytes = resident_bytes().saturating_sub(before);
    println!("memory: {} bytes for each site", bytes / SITES as u64);
    let begun = Instant::now();
    let again = Draft::new((*snapshot.settings).clone(), Some(&snapshot));
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

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number is pages") * 4096
}

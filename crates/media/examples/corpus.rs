//! Reads manifests from files and says which of them can be read, what they are, and what reading costs.
//!
//! ```text
//! cargo run --release -p freshet-media --example corpus -- FILE...
//! ```
//!
//! A line for each file, with tabs between: `read` or `refused`, what it is or why, its name. The last line has the
//! bytes of those that are read and how many of them are read in a second of processor time.
//! `bench/media/corpus` gathers files, and explains.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use freshet_media::{Course, Format, Manifest, read};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

/// How long reading is repeated for the figure.
const MEASURED: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let mut good = Vec::new();
    for name in std::env::args().skip(1) {
        let text = match std::fs::read(&name) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("corpus: {name}: {error}");
                return ExitCode::FAILURE;
            }
        };
        let format = if name.ends_with(".mpd") { Format::Mpd } else { Format::Hls };
        match read(format, &text) {
            Ok(manifest) => {
                println!("read\t{}\t{name}", words(&manifest));
                good.push((format, text));
            }
            Err(error) => println!("refused\t{error}\t{name}"),
        }
    }
    let bytes: usize = good.iter().map(|(_, text)| text.len()).sum();
    if good.is_empty() {
        println!("all\t0 bytes\tnothing to measure");
        return ExitCode::SUCCESS;
    }
    let (mut rounds, begun) = (0, on_processor());
    while on_processor() - begun < MEASURED {
        for (format, text) in &good {
            let _ = black_box(read(*format, black_box(text)));
        }
        rounds += 1;
    }
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = (bytes * rounds) as f64 / (on_processor() - begun).as_secs_f64() / 1e6;
    println!("all\t{bytes} bytes\t{rate:.0} MB/s");
    ExitCode::SUCCESS
}

/// How long this process was on a processor, which other work does not change.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the kernel counts times of processes"))
}

fn words(manifest: &Manifest) -> String {
    let course = match manifest.course {
        Course::Sliding => "live",
        Course::Growing => "growing",
        Course::Ended => "ended",
        Course::OfOthers => "multivariant",
    };
    let templates = manifest.templates.len();
    format!("{course}, {} names, {templates} templates", manifest.names.len())
}

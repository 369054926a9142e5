//! Replays a trace through memory over a disk as they decide, and prints what both would have had.
//!
//! ```text
//! cargo run --release -p freshet-cache --example tiers -- TRACE [OPTIONS]
//!   --sizes 0.03,0.1,0.3  memory and disk together, as parts of the footprint
//!   --memory 0.1          the part of that which is memory
//!   --segments 64         segments of the disk
//!   --objective bytes     what to optimise: bytes or requests
//!   --sample 16384        objects of the samples at most
//!   --disk NAME           one tactic of disks only, or `all` for each; else the measured one
//! ```
//!
//! TRACE is one of those of the example `replay`. Memory is run by its queues and their tuner, the disk
//! by its tactics and theirs. Each line of the result: bytes of both, tactic of the disk at the end, changes of
//! it, request miss ratio, byte miss ratio, bytes let in and bytes kept for each byte asked for.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

#[path = "../replay/workload.rs"]
#[allow(dead_code, reason = "the other example writes traces too")]
mod workload;

use freshet_cache::eviction::{Objective, Tiers};
use freshet_disk::tactic::{TACTICS, Tactic};
use std::collections::HashSet;
use std::error::Error;
use std::process::ExitCode;
use workload::{Trace, load};

struct Options {
    sizes: Vec<f64>,
    memory: f64,
    segments: u64,
    objective: Objective,
    sample: usize,
    disks: Vec<Option<Tactic>>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tiers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err("which trace? The top of examples/replay says what can be given".into());
    };
    let options = parse(rest)?;
    let trace = load(name, options.objective)?;
    println!("{name}: {} requests, footprint {} bytes", trace.uses.len(), trace.footprint_bytes);
    println!(
        "{:>14} {:10} {:>7} {:>8} {:>8} {:>8} {:>8}",
        "bytes", "disk", "changes", "request", "byte", "let in", "kept"
    );
    for size in &options.sizes {
        let total = (trace.footprint_bytes as f64 * size) as u64;
        for disk in &options.disks {
            replay(&trace, total, &options, *disk);
        }
    }
    Ok(())
}

fn parse(rest: &[String]) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        sizes: vec![0.03, 0.1, 0.3],
        memory: 0.1,
        segments: 64,
        objective: Objective::Bytes,
        sample: 16_384,
        disks: vec![None],
    };
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
        match name.as_str() {
            "--sizes" => {
                options.sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--memory" => options.memory = value.parse()?,
            "--segments" => options.segments = value.parse()?,
            "--sample" => options.sample = value.parse()?,
            "--objective" => {
                let known = [Objective::Requests, Objective::Bytes];
                let found = known.into_iter().find(|one| one.code() == value);
                options.objective = found.ok_or("--objective is requests or bytes")?;
            }
            "--disk" => {
                let named = |tactic: &&Tactic| value == "all" || tactic.name == value;
                options.disks = TACTICS.iter().filter(named).map(|tactic| Some(*tactic)).collect();
                if options.disks.is_empty() {
                    let names: Vec<&str> = TACTICS.iter().map(|tactic| tactic.name).collect();
                    return Err(format!("--disk is all or one of {}", names.join(", ")).into());
                }
            }
            other => return Err(format!("there is no {other}").into()),
        }
    }
    Ok(options)
}

fn replay(trace: &Trace, total: u64, options: &Options, fixed: Option<Tactic>) {
    let memory_bytes = (total as f64 * options.memory) as u64;
    let names: HashSet<u64> = trace.uses.iter().map(|one| one.fingerprint).collect();
    let objects = (names.len() as f64 * total as f64 / trace.footprint_bytes.max(1) as f64) as u64;
    let disk = (total - memory_bytes, options.segments, objects);
    let mut tiers = Tiers::new(options.objective, memory_bytes, disk, fixed.ok_or(options.sample));
    let (mut misses, mut missed_bytes, mut bytes) = (0, 0u64, 0u64);
    for request in &trace.uses {
        bytes += request.bytes;
        if !tiers.request(request) {
            misses += 1;
            missed_bytes += request.bytes;
        }
    }
    let written = tiers.disk().written();
    let part = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    println!(
        "{total:>14} {:10} {:>7} {:>8.5} {:>8.5} {:>8.5} {:>8.5}",
        tiers.disk().tactic().name,
        tiers.changes(),
        part(misses, trace.uses.len() as u64),
        part(missed_bytes, bytes),
        part(written.admitted_bytes, bytes),
        part(written.kept_bytes, bytes),
    );
}

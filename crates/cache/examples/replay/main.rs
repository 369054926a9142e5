//! Replays a trace through the eviction code of the cache and prints what it would have had.
//!
//! ```text
//! cargo run --release -p freshet-cache --example replay -- TRACE [OPTIONS]
//!   --sizes 0.01,0.1     capacities as parts of the footprint, or in bytes if above 1
//!   --objective bytes    what to optimise: bytes or requests
//!   --tactic NAME        one tactic only, or `all` for each; else the measured one
//!   --sample 4096        objects of the sample at most
//!   --write FILE         writes the trace as oracleGeneral and replays nothing
//! ```
//!
//! TRACE is a file: `*.oracleGeneral*` (records of 24 bytes), `*.csv` (time, object, bytes), `*.lis`
//! (first block, blocks), `*.i32be`, `*.u32le`, `*.u64` (numbers of one size), or `zipf-churn:SEED`,
//! `scan-mix:SEED`, `live-window:SEED`, `vod-mix:SEED`, which are made here.
//! Each line of the result: capacity in bytes, tactic at the end, changes of tactic, part of the
//! keys in the sample, request miss ratio, byte miss ratio.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

mod workload;

use freshet_cache::eviction::{Objective, Shadow, TACTICS, Tactic, Tuner};
use std::error::Error;
use std::process::ExitCode;
use workload::{Trace, load};

struct Options {
    sizes: Vec<f64>,
    objective: Objective,
    tactics: Vec<Option<Tactic>>,
    sample: usize,
    write: Option<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err("which trace? The top of examples/replay.rs says what can be given".into());
    };
    let options = parse(rest)?;
    let trace = load(name, options.objective)?;
    if let Some(path) = &options.write {
        return Ok(std::fs::write(path, trace.to_oracle_general())?);
    }
    println!("{name}: {} requests, footprint {} bytes", trace.uses.len(), trace.footprint_bytes);
    println!(
        "{:>14} {:18} {:>7} {:>7} {:>8} {:>8}",
        "bytes", "tactic", "changes", "sample", "request", "byte"
    );
    for size in &options.sizes {
        let footprint = trace.footprint_bytes as f64;
        let capacity = if *size > 1.0 { *size } else { footprint * size } as u64;
        for tactic in &options.tactics {
            replay(&trace, capacity, &options, *tactic);
        }
    }
    Ok(())
}

fn parse(rest: &[String]) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        sizes: vec![0.01, 0.03, 0.1, 0.3],
        objective: Objective::Bytes,
        tactics: vec![None],
        sample: 4096,
        write: None,
    };
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
        match name.as_str() {
            "--sizes" => {
                options.sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--objective" => {
                let known = [Objective::Requests, Objective::Bytes];
                let found = known.into_iter().find(|one| one.code() == value);
                options.objective = found.ok_or("--objective is requests or bytes")?;
            }
            "--tactic" => {
                let named = |tactic: &&Tactic| value == "all" || tactic.name == value;
                options.tactics =
                    TACTICS.iter().filter(named).map(|tactic| Some(*tactic)).collect();
                if options.tactics.is_empty() {
                    let names: Vec<&str> = TACTICS.iter().map(|tactic| tactic.name).collect();
                    return Err(format!("--tactic is all or one of {}", names.join(", ")).into());
                }
            }
            "--sample" => options.sample = value.parse()?,
            "--write" => options.write = Some(value.clone()),
            other => return Err(format!("there is no {other}").into()),
        }
    }
    Ok(options)
}

fn replay(trace: &Trace, capacity: u64, options: &Options, fixed: Option<Tactic>) {
    let mut cache = Shadow::new(fixed.unwrap_or_else(|| Tactic::first(options.objective)));
    let mut tuner = Tuner::new(options.objective, options.sample);
    let (mut changes, mut misses, mut missed_bytes, mut bytes) = (0, 0u64, 0u64, 0u64);
    for request in &trace.uses {
        bytes += request.bytes;
        if !cache.request(request, capacity) {
            misses += 1;
            missed_bytes += request.bytes;
        }
        if fixed.is_none()
            && let Some(tactic) = tuner.observe(request, capacity)
        {
            cache.set_tactic(tactic);
            changes += 1;
        }
    }
    println!(
        "{capacity:>14} {:18} {changes:>7} {:>7.4} {:>8.5} {:>8.5}",
        cache.tactic().name,
        tuner.sample_rate(),
        misses as f64 / trace.uses.len().max(1) as f64,
        missed_bytes as f64 / bytes.max(1) as f64,
    );
}

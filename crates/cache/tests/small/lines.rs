//! Lines of memory that a hit of a small object waits for, where there are more objects than the processor's
//! caches hold.
//!
//! Seconds depend on the machine and on what else it does. So the program runs itself under cachegrind, which
//! plays the caches: with objects of many times the size of the last of them, all a hit touches of an object
//! is missed.

use super::{BODY_BYTES, NOW, cache, key, skip, store};
use freshet_cache::{Lookup, Use};
use freshet_http::freshness::Reuse;
use freshet_http::message::RequestHead;
use freshet_store::prefetch;
use std::process::{Command, Stdio};

const OBJECTS: usize = 6000;
const HITS: usize = 6000;

/// A hit may miss so many lines besides those of the body: of index, object, head and its fields,
/// of body and key, and of what the cache learns by it of other capacities, which of so few objects are all.
const LINES_MAX: f64 = 29.0;

/// Set for the program under cachegrind: how many hits.
const SCENARIO: &str = "FRESHET_LINES";

/// Stores objects, and answers requests for them as a node does.
fn scenario(hits: usize) {
    let cache = cache();
    for number in 0..OBJECTS {
        store(&cache, number);
    }
    let request = RequestHead::default();
    let mut sum = 0_u64;
    for hit in 0..hits {
        let key = key(&cache, hit * 3571 % OBJECTS);
        let lookup = cache.lookup(&key, &request, NOW, &mut |object| match object.reuse(NOW) {
            Reuse::Fresh => Use::Serve,
            _ => Use::Ignore,
        });
        let Lookup::Hit { object, .. } = lookup else { panic!("all are there") };
        let head = object.head();
        for (name, value) in head.fields.iter() {
            sum += name.iter().chain(value).map(|byte| u64::from(*byte)).sum::<u64>();
        }
        let body = object.body();
        assert!(body.is_complete());
        let lease = body.lease(0..BODY_BYTES as u64).expect("it is in one piece");
        prefetch(&*lease);
        sum += lease.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
    assert!(hits == 0 || sum > 0);
}

/// Misses of the last cache in a run with so many hits.
fn misses(test: &str, hits: usize) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,16,64"])
        .arg(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--test-threads=1"])
        .env(SCENARIO, hits.to_string())
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed: {said}");
    let line = said.lines().find(|line| line.contains("LLd misses:")).expect("it says so");
    let figure = line.split("misses:").nth(1).and_then(|rest| rest.split('(').next());
    let figure = figure.map(|text| text.replace(',', "").trim().parse());
    figure.and_then(Result::ok).expect("a number of misses")
}

#[test]
fn a_hit_waits_for_few_lines_besides_its_body() {
    if let Ok(hits) = std::env::var(SCENARIO) {
        return scenario(hits.parse().expect("a number of hits"));
    }
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip::missing("valgrind");
    }
    let thread = std::thread::current();
    let test = thread.name().expect("tests run in threads named after them");
    let each = (misses(test, HITS) - misses(test, 0)) as f64 / HITS as f64;
    let body = BODY_BYTES as f64 / 64.0;
    println!("{each:.1} lines missed by a hit, {body} of them of the body");
    assert!(each - body <= LINES_MAX, "{each:.1} lines with the {body} of the body");
}

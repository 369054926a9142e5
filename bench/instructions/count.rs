//! Instructions of a scenario, counted by valgrind and held against a committed figure.
//!
//! A test calls [`check`] with a name and what to do so many times. The test program then runs
//! itself under callgrind twice, with fewer and with more rounds; the difference is what a round
//! costs, without start and end. Only Rust code is counted: which machine code ciphers and
//! `memcpy` take depends on the processor, ours does not.
//!
//! Each profile has figures of its own here, as the compiler does other things to the code: those of `cargo test`,
//! which every change is held against, and those of `cargo test --release`, which are what users run.
//! `FRESHET_COUNT=update cargo test ...` writes what it finds.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// What a figure may grow by, and shrink before it should be lowered, in percent. The same program
/// differs by less than one percent from run to run; another patch release of the compiler or of a
/// dependency by some.
const TOLERANCE_PERCENT: u64 = 5;

/// Rounds of the two runs.
const ROUNDS: [u64; 2] = [20, 120];

/// Set for the program under valgrind: the scenario to run and how many rounds.
const SCENARIO: &str = "FRESHET_COUNT_SCENARIO";
const UPDATE: &str = "FRESHET_COUNT";

/// Runs `scenario` with a number of rounds, counts, and compares with the figure of that `name`.
/// Call it from a test that does nothing else. Skipped with a word where valgrind is missing.
pub(crate) fn check(name: &str, scenario: impl FnOnce(u64)) {
    match asked() {
        Some((asked, rounds)) => {
            assert_eq!(asked, name, "valgrind was started for another test");
            scenario(rounds);
        }
        None if is_missing() => crate::skip::missing("valgrind"),
        None => hold(name, a_round(name)),
    }
}

/// As [`check`] for the scenario of that `name`, which also may take at most so many percent more than the `usual` one.
/// `scenario` is told which of both it is to run.
#[allow(dead_code, reason = "not every program with figures compares two")]
pub(crate) fn check_beside(
    name: &str,
    (usual, percent): (&str, u64),
    scenario: impl FnOnce(&str, u64),
) {
    match asked() {
        Some((asked, rounds)) => scenario(&asked, rounds),
        None if is_missing() => crate::skip::missing("valgrind"),
        None => {
            let [found, beside] = [name, usual].map(a_round);
            eprintln!("{usual} beside it: {beside}");
            assert!(
                found * 100 <= beside * (100 + percent),
                "{name} takes {found} instructions a round, {usual} {beside}: more than {percent} % less"
            );
            hold(name, found);
        }
    }
}

/// What the program under valgrind is to run: a scenario, and how many rounds of it.
fn asked() -> Option<(String, u64)> {
    let asked = std::env::var(SCENARIO).ok()?;
    let (name, rounds) = asked.split_once(' ').expect("a name and a number of rounds");
    Some((name.to_owned(), rounds.parse().expect("a number of rounds")))
}

fn is_missing() -> bool {
    Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err()
}

/// Instructions of a round of a scenario of this test.
fn a_round(name: &str) -> u64 {
    let [few, many] = ROUNDS.map(|rounds| count(name, rounds));
    many.saturating_sub(few) / (ROUNDS[1] - ROUNDS[0])
}

/// Compares with the figure of that name, or writes it.
fn hold(name: &str, found: u64) {
    let file = if cfg!(debug_assertions) { "figures.txt" } else { "figures-release.txt" };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/instructions").join(file);
    if std::env::var(UPDATE).is_ok_and(|what| what == "update") {
        return write(&file, name, found);
    }
    let text = fs::read_to_string(&file).expect("the figures are readable");
    let figure =
        figure(&text, name).unwrap_or_else(|| panic!("{name} has no figure; {found} were counted"));
    eprintln!("{name}: {found} instructions a round, the figure is {figure}");
    let (low, high) = (100 - TOLERANCE_PERCENT, 100 + TOLERANCE_PERCENT);
    assert!(
        found * 100 <= figure * high,
        "{name} takes {found} instructions a round instead of {figure}. Where that is worth it, \
         commit the new figure: FRESHET_COUNT=update cargo test"
    );
    assert!(
        found * 100 >= figure * low,
        "{name} takes only {found} instructions a round instead of {figure}. Keep it so by \
         committing the new figure: FRESHET_COUNT=update cargo test"
    );
}

/// Instructions of Rust code when this test runs again under callgrind.
fn count(name: &str, rounds: u64) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("callgrind.out");
    let thread = std::thread::current();
    let test = thread.name().expect("tests run in threads named after them");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--demangle=no", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(SCENARIO, format!("{name} {rounds}"))
        .output()
        .expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "valgrind failed: {said}");
    let profile = fs::read_to_string(&out).expect("callgrind writes a profile");
    let sum = rust_instructions(&profile);
    assert!(sum > 0, "nothing of Rust in the profile");
    sum
}

/// Sums what the functions of a callgrind profile cost themselves, those of Rust only.
fn rust_instructions(profile: &str) -> u64 {
    let mut is_rust_by_id = HashMap::new();
    let (mut is_rust, mut is_callee, mut sum) = (false, false, 0);
    for line in profile.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            is_rust = look_up(&mut is_rust_by_id, function);
        } else if let Some(function) = line.strip_prefix("cfn=") {
            look_up(&mut is_rust_by_id, function);
        } else if line.starts_with("calls=") {
            // The next line is what the callee cost.
            is_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok());
            sum += cost.filter(|_| is_rust && !is_callee).unwrap_or(0);
            is_callee = false;
        }
    }
    sum
}

/// `(12) name` the first time, `(12)` from then on. Rust's symbols begin with `_R` or `_ZN`.
fn look_up<'a>(known: &mut HashMap<&'a str, bool>, function: &'a str) -> bool {
    match function.split_once(' ') {
        Some((id, name)) => {
            let is_rust = name.starts_with("_R") || name.starts_with("_ZN");
            known.insert(id, is_rust);
            is_rust
        }
        None => known.get(function).copied().unwrap_or(false),
    }
}

/// The figure of that name in a file with this text.
pub(crate) fn figure(text: &str, name: &str) -> Option<u64> {
    figures(text).find(|(known, _)| *known == name).map(|(_, figure)| figure)
}

/// Lines of a name and a number.
fn figures(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, figure)| Some((name, figure.trim().parse().ok()?)))
}

fn write(file: &PathBuf, name: &str, found: u64) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WRITING.lock().expect("nobody fails while writing");
    let text = fs::read_to_string(file).expect("figures.txt is readable");
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let others = figures(&text).filter(|(known, _)| *known != name);
    let mut lines: Vec<String> = others.map(|(name, figure)| format!("{name} {figure}")).collect();
    lines.push(format!("{name} {found}"));
    lines.sort();
    let all: Vec<String> = comments.map(Into::into).chain(lines).collect();
    fs::write(file, all.join("\n") + "\n").expect("figures.txt can be written");
}

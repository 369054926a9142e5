//! `freshet router demo`: one address, two who answer, and nothing left afterwards.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FRESHET: &str = env!("CARGO_BIN_EXE_freshet");

fn can_run() -> bool {
    let missing = freshet_router::kernel::namespace::missing();
    if let Some(why) = &missing {
        skip::skip(why);
    }
    missing.is_none()
}

/// What a process has made and not removed.
fn left_by(process: u32) -> Vec<String> {
    let own = format!("freshet{process}-");
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let namespaces = String::from_utf8(namespaces.stdout).unwrap();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let folder = std::env::temp_dir().join(format!("{own}0"));
    let mut left: Vec<String> = namespaces
        .lines()
        .chain(mounts.lines())
        .filter(|line| line.contains(&own))
        .map(str::to_owned)
        .collect();
    left.extend(Path::new(&folder).exists().then(|| folder.display().to_string()));
    left
}

#[test]
fn the_same_address_is_answered_by_the_core_without_a_rule_and_by_the_edge_with_one() {
    if !can_run() {
        return;
    }
    let child = Command::new(FRESHET)
        .args(["router", "demo", "--once"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let process = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let answers = |line: &&str| line.starts_with("  X-Answered-By: ");
    let answered: Vec<&str> = said.lines().filter(answers).collect();
    let expected = ["core", "edge", "core"].map(|who| format!("  X-Answered-By: {who}"));
    assert_eq!(answered, expected, "{said}");
    assert_eq!(left_by(process), Vec::<String>::new());
}

#[test]
fn nothing_is_left_of_one_that_was_killed() {
    if !can_run() {
        return;
    }
    let mut child =
        Command::new(FRESHET).args(["router", "demo"]).stdout(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said: Vec<String> =
        lines.map(Result::unwrap).take_while(|line| !line.contains("Ctrl-C")).collect();
    assert!(said.iter().any(|line| line.starts_with("ask as the client")), "{said:?}");
    assert!(!left_by(process).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while !left_by(process).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", left_by(process));
    }
}

#[test]
fn who_is_not_root_is_told() {
    if !can_run() {
        return;
    }
    // Where everybody may read it.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let program = folder.path().join("freshet");
    std::fs::copy(FRESHET, &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["router", "demo"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("run it as root"), "{said}");
}

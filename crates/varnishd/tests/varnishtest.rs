//! Scripts of ours, run by Debian's varnishtest.
#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::Path;
use std::process::Command;

/// Runs every script of `tests/vtc`. Each makes its own directory and removes it; what it starts
/// ends with it.
#[test]
fn every_script_passes() {
    let Some(varnishtest) = support::program("varnishtest") else { return };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vtc");
    let mut names: Vec<_> =
        std::fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(varnishtest)
        .args(["-j2", "-k", "-t60"])
        .args(&names)
        .env("PATH", support::path())
        .env("TMPDIR", home.path())
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
}

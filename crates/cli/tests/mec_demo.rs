//! `freshet mec demo`: what it says, and, where this machine lets it, a mobile client whose requests the
//! edge answers as soon as an app's rule is answered.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::process::Command;

#[test]
fn a_rule_that_was_answered_is_what_the_next_packet_meets() {
    let demo = Command::new(env!("CARGO_BIN_EXE_freshet"))
        .args(["mec", "demo", "--once"])
        .output()
        .unwrap();
    let said = String::from_utf8(demo.stdout).unwrap();
    assert!(demo.status.success(), "{said}{}", String::from_utf8_lossy(&demo.stderr));
    let clients: u32 = said
        .lines()
        .filter_map(|line| line.strip_prefix("zone ")?.split(' ').nth(1)?.parse::<u32>().ok())
        .sum();
    assert_eq!(clients, 12, "{said}");
    assert!(said.contains("the viewer finds the camera's service"), "{said}");
    assert!(said.contains("/console, as operator"), "{said}");
    let answered: Vec<&str> =
        said.lines().filter(|line| line.starts_with("the rule is ")).collect();
    if let Some(without) = said.lines().find(|line| line.starts_with("Without a mobile network")) {
        return skip::skip(without);
    }
    if !cfg!(feature = "router") {
        return skip::skip("this program was built without the edge router");
    }
    let expected = [("INACTIVE", "core"), ("ACTIVE", "edge"), ("INACTIVE", "core")];
    assert_eq!(
        answered,
        expected.map(|(state, who)| format!("the rule is {state}: answered by {who}"))
    );
}

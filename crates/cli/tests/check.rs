//! `freshet check` on policies.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn check(arguments: &[&str], file: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_freshet");
    Command::new(program).arg("check").args(arguments).arg(file).output().unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/vcl").join(name)
}

#[test]
fn a_good_policy_is_good_and_explained() {
    let output = check(&[], &example("cms.vcl"));
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cms.vcl: good"));
    let output = check(&["--explain"], &example("cms.vcl"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for wanted in ["backend default: 127.0.0.1:8080, checked", "vcl_recv", "return (purge);"] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn all_mistakes_of_a_policy_are_shown_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.vcl");
    let text = "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\ninclude \"./more.vcl\";\nsub vcl_recv {\n    \
                set req.ulr = \"/\";\n}\n";
    std::fs::write(&path, text).unwrap();
    std::fs::write(folder.path().join("more.vcl"), "sub vcl_deliver {\n    return (delivr);\n}\n")
        .unwrap();
    let output = check(&[], &path);
    assert!(!output.status.success());
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    for wanted in [
        "policy.vcl:5",
        "did you mean `req.url`?",
        "more.vcl:2",
        "did you mean `deliver`?",
        "2 mistakes",
    ] {
        assert!(shown.contains(wanted), "wanted {wanted}\n{shown}");
    }
}

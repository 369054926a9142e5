//! `freshet vcl test` with policies, tests and scripts.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{program, run, skip};

const FRESHET: &str = env!("CARGO_BIN_EXE_freshet");
const POLICY: &str = "vcl 4.1; backend b none; sub vcl_recv { return (pass); }";

fn script(body: &str) -> String {
    format!(
        "varnishtest \"x\"\nserver s1 {{ rxreq\ntxresp -body \"{body}\" }} -start\nvarnish v1 \
         -vcl+backend {{ }} -start\nclient c1 {{ txreq\nrxresp\nexpect resp.body == \"hello\" }} -run\n"
    )
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn test(&self, names: &[&str]) -> Output {
        let files = names.iter().map(|name| self.file(name));
        run(Command::new(FRESHET).args(["vcl", "test"]).args(files))
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn tests_of_a_policy_are_run() {
    let folder = Folder::with(&[
        ("p.vcl", POLICY),
        ("good.test", "test \"a\"\nrequest GET /\nrun recv\nexpect pass\n"),
        ("bad.test", "test \"b\"\nrequest GET /\nrun recv\nexpect hash\n"),
    ]);
    let output = folder.test(&["p.vcl", "good.test"]);
    assert!(output.status.success(), "{}", said(&output));
    let output = folder.test(&["p.vcl", "good.test", "bad.test"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = said(&output);
    assert!(shown.contains("bad.test:4: b: "), "{shown}");
    assert!(shown.contains("1 of 2 tests passed"), "{shown}");
    assert!(said(&folder.test(&["p.vcl"])).contains("no tests of"));
}

#[test]
fn scripts_are_run() {
    let Some(_) = program("varnishtest") else { return };
    if !Path::new(FRESHET).with_file_name("varnishd").is_file() {
        return skip::skip("varnishd was not built beside freshet");
    }
    let folder = Folder::with(&[
        ("good.vtc", &script("hello")),
        ("bad.vtc", &script("bye")),
        ("p.vcl", POLICY),
        ("good.test", "test \"a\"\nrequest GET /\nrun recv\nexpect pass\n"),
    ]);
    let output = folder.test(&["good.vtc"]);
    assert!(output.status.success(), "{}", said(&output));
    let output = folder.test(&["good.vtc", "p.vcl", "good.test", "bad.vtc"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = said(&output);
    assert!(shown.contains("bad.vtc: c1 EXPECT resp.body (bye) == \"hello\" failed"), "{shown}");
    assert!(shown.contains("2 of 3 tests passed"), "{shown}");
}

#[test]
fn scripts_need_the_program_that_reads_them() {
    let folder = Folder::with(&[("good.vtc", &script("hello"))]);
    let output = run(Command::new(FRESHET)
        .args(["vcl", "test"])
        .arg(folder.file("good.vtc"))
        .env("PATH", folder.0.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("varnish"), "{}", said(&output));
}

//! `freshet plan` as its user meets it.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use std::process::{Command, Output};

const MODELS: [&str; 11] = [
    "channels",
    "tco",
    "energy",
    "cost",
    "carbon",
    "endurance",
    "fleet",
    "forwarding",
    "cores",
    "memory",
    "latency",
];

fn plan(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freshet")).arg("plan").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn fits(shown: &str) {
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn every_model_answers_without_more_and_fits_the_terminal() {
    for model in MODELS {
        let output = plan(&[model]);
        assert!(output.status.success(), "{model}: {}", text(&output.stderr));
        fits(&text(&output.stdout));
        let json: serde_json::Value =
            serde_json::from_slice(&plan(&[model, "--format", "json"]).stdout).unwrap();
        assert_eq!(json["model"], model);
        assert!(text(&plan(&[model, "--format", "html"]).stdout).starts_with("<!DOCTYPE html>"));
        assert!(text(&plan(&[model, "--format", "csv"]).stdout).starts_with("table,row,"));
    }
    fits(&text(&plan(&["--help"]).stdout));
    fits(&text(&plan(&["fit", "--help"]).stdout));
}

#[test]
fn printed_inputs_are_a_file_that_gives_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    for model in MODELS {
        let path = folder.path().join(format!("{model}.toml"));
        std::fs::write(&path, plan(&[model, "--inputs"]).stdout).unwrap();
        let path = path.to_str().unwrap();
        let figures = |arguments: &[&str]| {
            let json: serde_json::Value = serde_json::from_slice(&plan(arguments).stdout).unwrap();
            json["figures"].clone()
        };
        assert_eq!(
            figures(&[model, path, "--format", "json"]),
            figures(&[model, "--format", "json"])
        );
    }
}

#[test]
fn mistakes_are_shown_in_place_and_fail() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "pue = 1.2\nprcie = \"1 USD/kWh\"\n").unwrap();
    let output = plan(&["cost", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stderr);
    assert!(shown.contains("mine.toml:2:1") && shown.contains("did you mean `price`?"), "{shown}");
    for wrong in [
        &["cost", "--set", "pue"][..],
        &["cost", "--set", "pue=0.5"],
        &["cost", "--vary", "pue=1.5"],
        &["tco", "--set", "price=1 EUR/kWh"],
        &["cost", "no-such-file.toml"],
        &["fit", "no-such-file.json"],
    ] {
        let output = plan(wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert!(text(&output.stdout).is_empty());
        fits(&text(&output.stderr));
    }
}

//! The dashboard and the alerts of `packaging/monitoring` name metrics that a node exports.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use support::{Process, freshet, program, ready, succeed};

fn packaged(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    let is_metric = |word: &&str| {
        let rest = word.strip_prefix("freshet_").or_else(|| word.strip_prefix("process_"));
        rest.is_some_and(|rest| !rest.is_empty())
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

fn get(address: &str, host: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

/// A node with a site, a disk, TLS, and an authority and an origin that are not there.
fn exported() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let file = folder.path().join("freshet.toml");
    let text = format!(
        "workers = 1\nmemory = \"32MiB\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [acme]\nterms_agreed = true\ndirectory = \"http://127.0.0.1:9/\"\nstate = \"{at}/state\"\n\
         [[store]]\npath = \"{at}/store\"\nsize = \"300MB\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\nhttp3 = false\n\
         [[certificate]]\ncert = \"{at}/cert.pem\"\nkey = \"{at}/key.pem\"\n\
         [[site]]\nhosts = [\"a.example\"]\n[[site.origin]]\nurl = \"http://127.0.0.1:9\"\n"
    );
    fs::write(&file, text).unwrap();
    let made = rcgen::generate_simple_self_signed(["b.example".to_owned()]).unwrap();
    fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let mut command = freshet();
    command.args(["serve", "--name", "monitoring", "--config"]).arg(&file);
    let mut node = Process::start(command.env("XDG_RUNTIME_DIR", folder.path()));
    let address = |node: &mut Process, before: &'static str| {
        node.wait_for(|line| {
            let rest = line.strip_prefix(before)?;
            rest.split(['/', ' ']).next().map(str::to_owned)
        })
    };
    let listener = address(&mut node, "listening  http://");
    let admin = address(&mut node, "admin      http://");
    ready(&mut node);
    assert!(get(&listener, "a.example", "/").starts_with("HTTP/1.1 50"));
    names(&get(&admin, "localhost", "/metrics"))
}

#[test]
fn all_that_is_asked_for_is_exported() {
    let exported = exported();
    for file in ["dashboard.json", "alerts.yml"] {
        let wanted = names(&packaged(file));
        assert!(wanted.len() > 8, "{file}: {wanted:?}");
        let missing: Vec<_> = wanted.difference(&exported).collect();
        assert!(missing.is_empty(), "{file} asks for what no node exports: {missing:?}");
    }
}

#[test]
fn the_dashboard_is_one_and_has_a_query_for_each_panel() {
    let dashboard: serde_json::Value = serde_json::from_str(&packaged("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["title"].is_string(), "{panel}");
        for target in targets {
            assert!(!names(target["expr"].as_str().unwrap()).is_empty(), "{panel}");
        }
        let end = panel["gridPos"]["x"].as_u64().unwrap() + panel["gridPos"]["w"].as_u64().unwrap();
        assert!(end <= 24, "{panel}");
    }
}

/// Series of a gateway over eight hours, of which some are errors after six, and what becomes of them.
const OBJECTIVES_TEST: &str = r#"
rule_files: [objectives.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'freshet_access_calls_total{mec_service="detector",mec_client="a",class="2xx"}'
        values: '0+1000x360 360000+980x120'
      - series: 'freshet_access_calls_total{mec_service="detector",mec_client="b",class="5xx"}'
        values: '0x360 0+20x120'
      - series: 'freshet_access_call_first_byte_seconds_bucket{mec_service="detector",le="0.05"}'
        values: '0+999x480'
      - series: 'freshet_access_call_first_byte_seconds_count{mec_service="detector"}'
        values: '0+1000x480'
    promql_expr_test:
      - expr: freshet_mec:broken:ratio_rate5m{objective="availability"}
        eval_time: 5h
        exp_samples:
          - labels: 'freshet_mec:broken:ratio_rate5m{mec_service="detector",objective="availability"}'
            value: 0
      - expr: round(1e5 * freshet_mec:broken:ratio_rate1h{objective="latency"})
        eval_time: 5h
        exp_samples:
          - labels: '{mec_service="detector",objective="latency"}'
            value: 100
      - expr: round(1e4 * freshet_mec:broken:ratio_rate1h{objective="availability"})
        eval_time: 8h
        exp_samples:
          - labels: '{mec_service="detector",objective="availability"}'
            value: 200
    alert_rule_test:
      - {eval_time: 5h, alertname: FreshetObjectiveAvailability, exp_alerts: []}
      - {eval_time: 8h, alertname: FreshetObjectiveLatency, exp_alerts: []}
      - eval_time: 8h
        alertname: FreshetObjectiveAvailability
        exp_alerts:
          - exp_labels: {severity: critical, mec_service: detector, objective: availability}
            exp_annotations:
              summary: "detector breaks its promise: 99.9 % of calls are answered without an error"
              description: "Its budget of 30 days is used up 14.4 times as fast as it lasts, over 1h or more. `freshet_access_calls_total` says by whose calls."
          - exp_labels: {severity: warning, mec_service: detector, objective: availability}
            exp_annotations:
              summary: "detector breaks its promise: 99.9 % of calls are answered without an error"
              description: "Its budget of 30 days is used up 3 times as fast as it lasts, over 1d or more. `freshet_access_calls_total` says by whose calls."
"#;

#[test]
fn prometheus_raises_an_alarm_where_an_objective_is_not_met() {
    let Some(promtool) = program("promtool") else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let head = "listen = \"127.0.0.1:0\"\nstate = \"state\"\n";
    let objective =
        "[service.detector]\navailability = 99.9\nlatency = \"50ms\"\nlatency_share = 99\n";
    fs::write(at("mec.toml"), format!("{head}{objective}")).unwrap();
    let rules = succeed(freshet().args(["mec", "alerts", "--config"]).arg(at("mec.toml")));
    fs::write(at("objectives.yml"), rules).unwrap();
    fs::write(at("test.yml"), OBJECTIVES_TEST).unwrap();
    succeed(Command::new(&promtool).args(["check", "rules"]).arg(at("objectives.yml")));
    succeed(Command::new(&promtool).args(["test", "rules"]).arg(at("test.yml")));

    fs::write(at("mec.toml"), head).unwrap();
    let none = freshet().args(["mec", "alerts", "--config"]).arg(at("mec.toml")).output().unwrap();
    assert!(
        !none.status.success() && String::from_utf8_lossy(&none.stderr).contains("[service.NAME]")
    );
}

#[test]
fn prometheus_takes_the_alerts() {
    let Some(promtool) = program("promtool") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    succeed(Command::new(promtool).args(["check", "rules"]).arg(folder.join("alerts.yml")));
}

/// A node in every trouble, and one in none, for a day and an hour: how much each figure of theirs is at the
/// beginning and grows a minute.
const TROUBLES: [(&str, [&str; 2]); 18] = [
    ("up{job=\"freshet\"", ["0", "1"]),
    ("freshet_origin_up{origin=\"o\"", ["0", "1"]),
    ("freshet_responses_total{class=\"5xx\"", ["0+10", "0"]),
    ("freshet_requests_total{", ["0+100", "0+6000"]),
    ("freshet_fetches_failed_total{", ["0+60", "0"]),
    ("freshet_fetches_total{", ["0+600", "0+600"]),
    ("freshet_certificate_end_seconds{name=\"soon\"", ["180000", "9000000"]),
    ("freshet_certificate_end_seconds{name=\"over\"", ["60", "9000000"]),
    ("freshet_acme_names_failing{", ["1", "0"]),
    ("freshet_store_healthy{store=\"s\"", ["0", "1"]),
    ("freshet_store_read_errors{store=\"s\"", ["0+1", "7"]),
    ("freshet_store_write_errors{store=\"s\"", ["0", "7"]),
    ("freshet_memory_refusals_total{", ["0+60", "0"]),
    ("freshet_connections_refused_total{", ["0+120", "0"]),
    ("freshet_log_lost_total{", ["0+60", "0"]),
    ("freshet_draining{", ["1", "0"]),
    ("process_open_fds{job=\"freshet\"", ["95", "50"]),
    ("process_max_fds{job=\"freshet\"", ["100", "100"]),
];

/// Each alert of the package is raised where there is reason to, and none where there is none.
#[test]
fn every_alert_is_raised_by_its_trouble_and_none_without() {
    let Some(promtool) = program("promtool") else { return };
    let mut alerts: Vec<_> = packaged("alerts.yml")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: ").map(str::to_owned))
        .collect();
    alerts.sort();
    assert!(alerts.len() > 12, "{alerts:?}");
    let mut test =
        "rule_files: [alerts.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    \
                    input_series:\n"
            .to_owned();
    for (series, figures) in TROUBLES {
        for (instance, figure) in ["bad", "good"].iter().zip(figures) {
            let comma = if series.ends_with('{') { "" } else { "," };
            test.push_str(&format!(
                "      - {{series: '{series}{comma}instance=\"{instance}\"}}', values: '{figure}x1560'}}\n"
            ));
        }
    }
    test.push_str(
        "    promql_expr_test:\n      - expr: ALERTS{instance=\"good\"}\n        eval_time: 25h\n      \
         - expr: group by (alertname) (ALERTS{instance=\"bad\",alertstate=\"firing\"})\n        \
         eval_time: 25h\n        exp_samples:\n",
    );
    for alert in alerts {
        test.push_str(&format!("          - {{labels: '{{alertname=\"{alert}\"}}', value: 1}}\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("alerts.yml"), packaged("alerts.yml")).unwrap();
    fs::write(folder.path().join("test.yml"), test).unwrap();
    succeed(Command::new(promtool).args(["test", "rules"]).arg(folder.path().join("test.yml")));
}

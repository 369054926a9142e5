//! Spans of requests and metrics, as a collector gets them, and spans as an origin hears of them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use support::{Process, freshet, program, ready, run};

/// A request as a server of this test got it: its head, in small letters, and its body.
type Got = (String, Vec<u8>);

fn serve(mut stream: TcpStream, answer: &str, got: &Sender<Got>) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if input.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        input.read_exact(&mut body).ok()?;
        got.send((head, body)).ok()?;
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

/// A server that answers everything alike, and tells what it was asked.
fn server(answer: &'static str) -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, got) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let told = told.clone();
            std::thread::spawn(move || serve(stream, answer, &told));
        }
    });
    (address, got)
}

const PAGE: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nhello";
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

fn get(address: &str, path: &str, more: &str) {
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{more}Connection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

/// Where a node that is ready listens.
fn address(node: &mut Process) -> String {
    let address = node.wait_for(|line| {
        let rest = line.strip_prefix("listening  http://")?;
        rest.split(['/', ' ']).next().map(str::to_owned)
    });
    ready(node);
    address
}

/// A node with `[tracing]` is asked; the spans a collector has by the time it has ended, in the order of
/// their beginnings, what the origin was asked, and the lines of the access log.
fn spans_of(tracing: &str, ask: impl FnOnce(&str)) -> (Vec<Value>, Vec<String>, Vec<String>) {
    let (collector, messages) = server(TAKEN);
    let (origin, asked) = server(PAGE);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let fields = folder.path().join("fields");
    let log = folder.path().join("access.log");
    fs::write(&fields, "X-Api-Key: secret\n").unwrap();
    let text = format!(
        "workers = 1\nmemory = \"32MiB\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[origin]]\nurl = \"http://{origin}\"\n\
         [tracing]\notlp = \"http://{collector}\"\nservice = \"edge\"\nfields = {fields:?}\n{tracing}\n\
         [log]\naccess = {log:?}\nformat = \"%U %{{trace_id}}x\"\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--name", "traces", "--config"]).arg(&file);
    let mut node = Process::start(command.env("XDG_RUNTIME_DIR", folder.path()));
    let address = address(&mut node);
    ask(&address);
    node.signal(Signal::TERM);
    assert!(support::is_clean(node.end().0));
    let mut spans = Vec::new();
    for (head, body) in messages.try_iter() {
        assert!(
            head.starts_with("post /v1/traces ") && head.contains("x-api-key: secret"),
            "{head}"
        );
        let message: Value = serde_json::from_slice(&body).unwrap();
        let of = &message["resourceSpans"][0];
        let service = &of["resource"]["attributes"][0];
        assert_eq!(
            (&service["key"], &service["value"]["stringValue"]),
            (&"service.name".into(), &"edge".into())
        );
        spans.extend(of["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    // Of two that begin in the same microsecond the request was first.
    spans.sort_by_key(|span| {
        let began = span["startTimeUnixNano"].as_str().unwrap().parse::<u64>().unwrap();
        (began, span["kind"].as_u64())
    });
    let lines = fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect();
    (spans, asked.try_iter().map(|(head, _)| head).collect(), lines)
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    let all = span["attributes"].as_array().unwrap();
    let value = &all.iter().find(|one| one["key"] == key)?["value"];
    value.get("stringValue").or_else(|| value.get("intValue"))
}

#[test]
fn a_request_has_a_span_and_its_fetch_one_below() {
    let (spans, asked, lines) = spans_of("sample = 1", |address| {
        get(address, "/a?token=secret", "");
        get(address, "/a?token=secret", "");
    });
    let [miss, fetch, hit] = spans.as_slice() else { panic!("{spans:#?}") };
    let line = |span: &Value| format!("/a?token=secret {}", span["traceId"].as_str().unwrap());
    assert_eq!(lines, [line(miss), line(hit)]);
    assert_eq!((&miss["kind"], &fetch["kind"], &hit["kind"]), (&2.into(), &3.into(), &2.into()));
    assert_eq!(fetch["parentSpanId"], miss["spanId"]);
    assert_eq!(fetch["traceId"], miss["traceId"]);
    assert_ne!(hit["traceId"], miss["traceId"]);
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a"),
        ("server.address", "a.example"),
        ("client.address", "127.0.0.1"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "5"),
    ] {
        assert_eq!(attribute(hit, key), Some(&value.into()), "{key}: {hit:#?}");
    }
    assert_eq!(attribute(fetch, "server.address"), Some(&"127.0.0.1".into()), "{fetch:#?}");
    let of = |span: &Value, key: &str| span[key].as_str().unwrap().to_owned();
    let field = format!("traceparent: 00-{}-{}-01", of(fetch, "traceId"), of(fetch, "spanId"));
    let [asked] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(asked.contains(&field), "{field}\n{asked}");
}

#[test]
fn a_request_is_in_the_trace_of_who_is_followed() {
    const FIELD: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0";
    let ask = |address: &str| {
        get(address, "/sampled", &format!("{FIELD}1\r\n"));
        get(address, "/other", &format!("{FIELD}0\r\n"));
    };
    let (spans, asked, lines) = spans_of("sample = 1\nfollow = [\"127.0.0.0/8\"]", ask);
    let [request, fetch] = spans.as_slice() else { panic!("{spans:#?}") };
    assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(lines, ["/sampled 4bf92f3577b34da6a3ce929d0e0e4736", "/other -"]);
    assert_eq!(fetch["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(asked[0].contains("-4bf92f3577b34da6a3ce929d0e0e4736-") && !asked[0].contains(FIELD));
    assert!(asked[1].contains(&format!("{FIELD}0")), "{}", asked[1]);
    // Of a stranger it is only a field.
    let (spans, asked, _) = spans_of("sample = 0", ask);
    assert!(spans.is_empty() && asked.iter().all(|head| head.contains(FIELD)), "{asked:?}");
}

#[test]
fn a_span_has_the_status_that_was_sent() {
    let more = "sample = 1\n[[redirect]]\nfrom = \"/old\"\nto = \"/new\"";
    let (spans, _, _) = spans_of(more, |address| {
        get(address, "/a", "");
        for (path, field, status) in [
            ("/a", "Range: bytes=0-1\r\n", 206),
            ("/a", "Range: bytes=9-\r\n", 416),
            ("/old", "", 301),
        ] {
            let text = answer(address, path, field);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        }
    });
    let requests: Vec<_> = spans.iter().filter(|span| span["kind"] == 2).collect();
    let all = |key| requests.iter().map(|span| attribute(span, key).cloned()).collect::<Vec<_>>();
    let texts = |texts: [&str; 4]| texts.map(|text| Some(Value::from(text)));
    assert_eq!(all("http.response.status_code"), texts(["200", "206", "416", "301"]));
    assert_eq!(all("url.scheme"), texts(["http"; 4]));
}

#[test]
fn a_collector_that_is_not_there_costs_nobody_an_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (origin, _asked) = server(PAGE);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let text = format!(
        "workers = 1\nmemory = \"32MiB\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[origin]]\nurl = \"http://{origin}\"\n[tracing]\notlp = \"http://{closed}\"\nsample = 1\n"
    );
    fs::write(&file, &text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--name", "alone", "--config"]).arg(&file);
    let mut node = Process::start(command.env("XDG_RUNTIME_DIR", folder.path()));
    let address = address(&mut node);
    get(&address, "/a", "");
    node.wait_for(|line| line.contains("spans of traces are lost").then_some(()));
    get(&address, "/b", "");
    node.signal(Signal::TERM);
    assert!(support::is_clean(node.end().0));
    fs::write(&file, text.replace(&format!("http://{closed}"), &closed.to_string())).unwrap();
    let said = run(freshet().args(["check", "--offline"]).arg(&file));
    assert!(String::from_utf8_lossy(&said.stderr).contains("is no URL"), "{said:?}");
}

/// The sum of a counter's points in a message with metrics.
fn counted(message: &Value, name: &str) -> Option<u64> {
    let metrics = message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    let metric = metrics.iter().find(|metric| metric["name"] == name)?;
    let points = metric["sum"]["dataPoints"].as_array()?;
    points.iter().map(|point| point["asInt"].as_str()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_collector_is_sent_metrics_each_period_and_how_they_stand_at_the_end() {
    let (collector, messages) = server(TAKEN);
    let (origin, _asked) = server(PAGE);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let text = format!(
        "workers = 1\nmemory = \"32MiB\"\n[admin]\nlisten = \"off\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[origin]]\nurl = \"http://{origin}\"\n\
         [tracing]\notlp = \"http://{collector}\"\nsample = 0\nmetrics = \"1s\"\n"
    );
    fs::write(&file, &text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--name", "metrics", "--config"]).arg(&file);
    let mut node = Process::start(command.env("XDG_RUNTIME_DIR", folder.path()));
    let address = address(&mut node);
    let (head, _) = messages.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    assert!(head.starts_with("post /v1/metrics "), "{head}");
    get(&address, "/a", "");
    get(&address, "/a", "");
    node.signal(Signal::TERM);
    assert!(support::is_clean(node.end().0));
    let (_, last) = messages.try_iter().last().unwrap();
    let last: Value = serde_json::from_slice(&last).unwrap();
    assert_eq!(counted(&last, "freshet_requests"), Some(2), "{last:#}");
    let service = &last["resourceMetrics"][0]["resource"]["attributes"][0]["value"];
    assert_eq!(service["stringValue"], "freshet");

    // Where metrics would go has to be known.
    fs::write(&file, text.replace(&collector.to_string(), &format!("{collector}/spans"))).unwrap();
    let said = run(freshet().args(["check", "--offline"]).arg(&file));
    assert!(String::from_utf8_lossy(&said.stderr).contains("not where metrics do"), "{said:?}");
}

/// What a server at this address answers, with its head.
fn answer(address: &str, path: &str, more: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn latencies_have_the_traces_of_requests_beside_them() {
    let (collector, _spans) = server(TAKEN);
    let (origin, _asked) = server(PAGE);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = format!(
        "workers = 1\nmemory = \"32MiB\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[origin]]\nurl = \"http://{origin}\"\n[tracing]\notlp = \"http://{collector}\"\nsample = 1\n\
         follow = [\"127.0.0.1\"]\n"
    );
    fs::write(at("freshet.toml"), &text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--name", "exemplars", "--config"]).arg(at("freshet.toml"));
    let mut node = Process::start(command.env("XDG_RUNTIME_DIR", folder.path()));
    let address = node.wait_for(|line| {
        let rest = line.strip_prefix("listening  http://")?;
        rest.split(['/', ' ']).next().map(str::to_owned)
    });
    let admin = node.wait_for(|line| {
        let rest = line.strip_prefix("admin      http://")?;
        rest.split('/').next().map(str::to_owned)
    });
    ready(&mut node);
    let trace = |digit: char| digit.to_string().repeat(32);
    for digit in ['a', 'b'] {
        get(&address, "/a", &format!("traceparent: 00-{}-1111111111111111-01\r\n", trace(digit)));
    }
    let plain = answer(&admin, "/metrics", "");
    assert!(plain.contains("freshet_first_byte_seconds_bucket") && !plain.contains("trace_id"));
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let open = answer(&admin, "/metrics", accept);
    for (result, digit) in [("miss", 'a'), ("hit", 'b')] {
        let of = format!("# {{trace_id=\"{}\"}} ", trace(digit));
        let lines: Vec<_> = open.lines().filter(|line| line.contains(&of)).collect();
        assert!(lines.len() == 1 && lines[0].contains(&format!("result=\"{result}\"")), "{open}");
    }

    // Prometheus reads them, where it is here.
    if let Some(prometheus) = program("prometheus") {
        let scrape = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: edge, static_configs: \
             [{{targets: [\"{admin}\"]}}]}}]\n"
        );
        fs::write(at("prometheus.yml"), scrape).unwrap();
        let mut command = std::process::Command::new(prometheus);
        command.arg("--config.file").arg(at("prometheus.yml"));
        command.arg("--storage.tsdb.path").arg(at("data"));
        command.args(["--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage"]);
        let mut prometheus = Process::start(&mut command);
        let its = prometheus.wait_for(|line| {
            let rest = line.split_once("Listening on\" address=")?.1;
            rest.split(' ').next().map(str::to_owned)
        });
        let query = "/api/v1/query_exemplars?query=freshet_first_byte_seconds_bucket\
                     &start=2020-01-01T00:00:00Z&end=2100-01-01T00:00:00Z";
        let deadline = Instant::now() + support::PATIENCE;
        loop {
            let said = answer(&its, query, "");
            if ['a', 'b'].iter().all(|digit| said.contains(&trace(*digit))) {
                break;
            }
            assert!(Instant::now() < deadline, "{said}");
        }
    }
    node.signal(Signal::TERM);
    assert!(support::is_clean(node.end().0));
}

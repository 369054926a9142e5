//! Bodies that are kept in several codings: which client gets which, against a model.

use crate::client::{Answer, Client, get_with};
use crate::harness::{Setup, TestNode, run, run_within, until};
use crate::origin::{Origin, Request, response};
use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

const FRESH: &str = "Cache-Control: max-age=600";
const CODINGS: &str = "[cache]\ncodings = [\"zstd\", \"br\"]";

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // The generator of Knuth's MMIX; its high bits are good.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len())]
    }
}

/// Runs a program with something to read, and returns what it writes.
fn through(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; tools/setup installs it"));
    let mut to = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || to.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success(), "{program} does not take it");
    output.stdout
}

/// What is under a coding, as its own program reads it.
fn unpacked(coding: &str, bytes: &[u8]) -> Vec<u8> {
    match coding {
        "br" => through("brotli", &["-dc"], bytes),
        "zstd" => through("zstd", &["-dcq"], bytes),
        "gzip" => {
            let mut out = Vec::new();
            GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
            out
        }
        _ => bytes.to_vec(),
    }
}

fn packed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    match coding {
        "br" => through("brotli", &["-5c"], bytes),
        "zstd" => through("zstd", &["-19cq"], bytes),
        "gzip" => through("gzip", &["-9c"], bytes),
        _ => bytes.to_vec(),
    }
}

/// A response of the origin, which sends it alike to everybody.
#[derive(Clone, Debug)]
struct Resource {
    text: Vec<u8>,
    is_text: bool,
    coding: &'static str,
    no_transform: bool,
}

impl Resource {
    fn any(dice: &mut Dice, number: usize) -> Self {
        let lengths = [60, 127, 128, 3000, 70_000, 300_000];
        let length = lengths[dice.roll(lengths.len())];
        let text = format!("resource {number}, line {}\n", dice.roll(1 << 20));
        let text = text.repeat(length / text.len() + 1);
        Self {
            text: text.as_bytes()[..length].to_vec(),
            is_text: dice.roll(4) > 0,
            coding: ["", "", "gzip", "br", "zstd"][dice.roll(5)],
            no_transform: dice.roll(4) == 0,
        }
    }

    fn sent(&self) -> Vec<u8> {
        let kind = if self.is_text { "application/json" } else { "image/png" };
        let mut fields = vec![format!("Content-Type: {kind}"), "ETag: \"a\"".into()];
        if !self.coding.is_empty() {
            fields.push(format!("Content-Encoding: {}", self.coding));
        }
        let also = if self.no_transform { ", no-transform" } else { "" };
        fields.push(format!("{FRESH}{also}"));
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        response("200 OK", &fields, packed(self.coding, &self.text))
    }

    fn may_change(&self) -> bool {
        let gains = self.is_text && self.text.len() >= 128;
        !self.no_transform && (!self.coding.is_empty() || gains)
    }

    /// The coding a client gets that sends these words; empty for none.
    fn given(&self, accepts: Option<&str>) -> &'static str {
        if self.may_change() { best(accepts) } else { self.coding }
    }
}

/// How much each coding is wanted, in the plainest way there is to read RFC 9110 §12.5.3.
fn weights(accepts: &str) -> HashMap<String, f64> {
    let mut all = HashMap::new();
    for member in accepts.split(',').map(str::trim).filter(|member| !member.is_empty()) {
        let (name, weight) = member.split_once(";q=").unwrap_or((member, "1"));
        all.entry(name.to_ascii_lowercase()).or_insert_with(|| weight.parse().unwrap());
    }
    all
}

fn weight(all: &HashMap<String, f64>, name: &str) -> f64 {
    all.get(name).or_else(|| all.get("*")).copied().unwrap_or(0.0)
}

fn best(accepts: Option<&str>) -> &'static str {
    let Some(accepts) = accepts else { return "" };
    let all = weights(accepts);
    let mut best = ("", 0.0);
    for name in ["zstd", "br", "gzip"] {
        if weight(&all, name) > best.1 {
            best = (name, weight(&all, name));
        }
    }
    let plain_is_better = all.get("identity").is_some_and(|identity| *identity > best.1);
    if plain_is_better { "" } else { best.0 }
}

/// What a client may send.
fn any_accepts(dice: &mut Dice) -> Option<String> {
    match dice.roll(8) {
        0 => return None,
        1 => return Some("gzip, deflate, br, zstd".into()),
        2 => return Some(String::new()),
        _ => {}
    }
    let mut members = Vec::new();
    for _ in 0..=dice.roll(4) {
        let name = dice.pick(&["gzip", "br", "zstd", "identity", "*", "deflate", "BR", "x-other"]);
        let weight = dice.pick(&["", "", ";q=0", ";q=0.5", ";q=0.001", ";q=1.0", ";q=0.9"]);
        members.push(format!("{name}{weight}"));
    }
    Some(members.join(", "))
}

/// What was first given under a coding.
#[derive(Clone, Debug)]
struct Known {
    bytes: Vec<u8>,
    etag: String,
}

fn body_and_etag(answer: &Answer) -> Known {
    Known { bytes: answer.body.clone(), etag: answer.field("etag").unwrap().to_owned() }
}

#[test]
fn every_client_gets_the_coding_it_likes_best_and_all_its_bytes() {
    run_within(Duration::from_secs(240), async {
        let mut dice = Dice(20_261_123);
        let all: Vec<_> = (0..30).map(|number| Resource::any(&mut dice, number)).collect();
        let sent: Vec<_> = all.iter().map(Resource::sent).collect();
        let origin = Origin::serve(move |asked: &Request| {
            sent[asked.target()[1..].parse::<usize>().unwrap()].clone()
        });
        let node = Setup::of(&origin).and(CODINGS).start();
        for (number, resource) in all.iter().enumerate() {
            let target = format!("/{number}");
            let before = origin.count();
            let mut known = HashMap::new();
            for _ in 0..25 {
                check(&node, &target, resource, &mut known, &mut dice).await;
            }
            let asked = origin.count() - before;
            let is_once = resource.may_change() || resource.coding.is_empty();
            assert!(asked == 1 || !is_once, "{asked} fetches of {resource:?}");
        }
    });
}

async fn check(
    node: &TestNode,
    target: &str,
    resource: &Resource,
    known: &mut HashMap<&'static str, Known>,
    dice: &mut Dice,
) {
    let accepts = any_accepts(dice);
    let coding = resource.given(accepts.as_deref());
    let mut fields: Vec<String> = Vec::new();
    fields.extend(accepts.iter().map(|accepts| format!("Accept-Encoding: {accepts}")));
    let shown = format!(
        "{target} for {accepts:?}, of {} bytes {} {}",
        resource.text.len(),
        resource.coding,
        resource.no_transform
    );
    if !known.contains_key(coding) {
        let lines: Vec<_> = fields.iter().map(String::as_str).collect();
        let answer = get_with(node, target, &lines).await;
        assert_eq!(answer.field("content-encoding").unwrap_or(""), coding, "{shown}");
        assert!(answer.complete && answer.status == 200, "{shown}");
        assert_eq!(unpacked(coding, &answer.body), resource.text, "{shown}");
        assert_eq!(answer.field("etag").unwrap().trim_start_matches("W/"), "\"a\"");
        let varies = answer.field("vary").is_some_and(|vary| vary.contains("Accept-Encoding"));
        let is_coded = resource.may_change() || resource.coding == "gzip";
        assert!(varies || !is_coded, "{shown}: {:?}", answer.head);
        known.insert(coding, body_and_etag(&answer));
    }
    let Known { bytes, etag } = known[coding].clone();
    let length = bytes.len();
    let condition = dice.pick(&["", "", "", "\"a\"", "W/\"a\"", "*", "\"b\""]);
    if !condition.is_empty() {
        fields.push(format!("If-None-Match: {condition}"));
    }
    let first = dice.roll(length + 20);
    let last = first + dice.roll(length);
    let wanted = match dice.roll(5) {
        0 => Some((format!("bytes={first}-{last}"), first..(last + 1).min(length))),
        1 => Some((format!("bytes={first}-"), first..length)),
        2 => {
            Some((format!("bytes=-{}", first.max(1)), length.saturating_sub(first.max(1))..length))
        }
        _ => None,
    };
    let mut is_same = true;
    if let Some((range, _)) = &wanted {
        fields.push(format!("Range: {range}"));
        if dice.roll(3) == 0 {
            fields.push(format!("If-Range: {etag}"));
            // A weak validator says nothing about bytes (RFC 9110 §13.1.5).
            is_same = !etag.starts_with("W/");
        }
    }
    let is_head = dice.roll(5) == 0;
    let wanted = wanted.map(|(_, range)| range).filter(|_| is_same && !is_head);
    let lines: Vec<_> = fields.iter().map(String::as_str).collect();
    let mut client = Client::to(node).await;
    let method = if is_head { "HEAD" } else { "GET" };
    let answer = client.request(method, target, &lines).await;
    let shown = format!("{shown}: {method} {lines:?}: {:?}", answer.head);
    if !matches!(condition, "" | "\"b\"") {
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{shown}");
        return;
    }
    let (status, range) = match wanted {
        Some(range) if range.start >= length => (416, 0..0),
        Some(range) => (206, range),
        None => (200, 0..length),
    };
    assert_eq!(answer.status, status, "{shown}");
    if status == 416 {
        assert_eq!(answer.field("content-range"), Some(&*format!("bytes */{length}")), "{shown}");
        return;
    }
    assert_eq!(answer.field("content-encoding").unwrap_or(""), coding, "{shown}");
    let said = answer.head.number("content-length");
    assert_eq!(said, Some(range.len() as u64), "{shown}");
    if !is_head {
        assert!(answer.body == bytes[range], "other bytes: {shown}");
    }
}

#[test]
fn many_at_once_have_each_coding_made_once_of_one_fetch() {
    run(async {
        let text = "all work and no play ".repeat(20_000);
        let kept = text.clone();
        let origin = Origin::serve(move |_: &Request| {
            response("200 OK", &["Content-Type: text/html", FRESH], &kept)
        });
        let node = Setup::of(&origin).and(CODINGS).start();
        let ask = async |coding: &'static str| {
            let field = format!("Accept-Encoding: {coding}");
            let answer = get_with(&node, "/", &[&field]).await;
            assert_eq!(answer.field("content-encoding"), Some(coding));
            assert_eq!(unpacked(coding, &answer.body), text.as_bytes());
        };
        for _ in 0..4 {
            tokio::join!(ask("br"), ask("zstd"), ask("gzip"), ask("br"), ask("zstd"), ask("gzip"));
        }
        assert_eq!(origin.count(), 1);
        for coding in ["brotlis", "zstds", "gzips"] {
            assert_eq!(node.count(coding), 1, "{coding}");
        }
        assert_eq!(node.variants("/"), 3);
        // A purge takes all of them.
        let mut client = Client::to(&node).await;
        assert_eq!(client.request("PURGE", "/", &[]).await.status, 200);
        assert_eq!(node.variants("/"), 0);
        ask("br").await;
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn what_says_it_is_under_a_coding_and_is_not_breaks_off_and_is_not_kept() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            let coding = &asked.target()[1..];
            let mut broken = packed(coding, "hello ".repeat(50_000).as_bytes());
            broken.truncate(broken.len() - 3);
            let coding = format!("Content-Encoding: {coding}");
            response("200 OK", &["Content-Type: text/html", FRESH, &coding], broken)
        });
        let node = Setup::of(&origin).and(CODINGS).start();
        for coding in ["br", "zstd"] {
            for accepts in ["br", "zstd", "gzip", "identity"] {
                let field = format!("Accept-Encoding: {accepts}");
                let answer = get_with(&node, &format!("/{coding}"), &[&field]).await;
                // Who wants it as it is gets what the origin sent, and nobody else does.
                let is_as_sent = accepts == coding && answer.status == 200;
                assert!(
                    !answer.complete || answer.status >= 500 || is_as_sent,
                    "{coding} for {accepts}"
                );
                until(|| node.objects() == 0).await;
            }
        }
    });
}

#[test]
fn an_origin_is_asked_for_the_coding_its_client_likes_and_no_pass_is_recoded() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            let accepts = asked.field("accept-encoding").unwrap_or("none").to_owned();
            let coding = if accepts.starts_with("br") { "Content-Encoding: br" } else { "X-A: b" };
            let body = match accepts.starts_with("br") {
                true => packed("br", accepts.repeat(99).as_bytes()),
                false => accepts.repeat(99).into_bytes(),
            };
            response("200 OK", &["Content-Type: text/html", FRESH, coding, "ETag: \"a\""], body)
        });
        let node = Setup::of(&origin).and(CODINGS).start();
        let brotli = get_with(&node, "/", &["Accept-Encoding: zstd;q=0.1, br, gzip"]).await;
        assert_eq!(unpacked("br", &brotli.body), "br, gzip;q=0.5".repeat(99).as_bytes());
        assert_eq!(brotli.field("etag"), Some("\"a\""), "it is the origin's own");
        let mut client = Client::to(&node).await;
        let passed =
            client.request("POST", "/", &["Accept-Encoding: br", "Content-Length: 0"]).await;
        assert_eq!(passed.field("content-encoding"), Some("br"));
        assert_eq!(unpacked("br", &passed.body), "br".repeat(99).as_bytes());
    });
}

#[test]
fn curl_and_python_get_what_they_can_read() {
    run(async {
        let text = "all work and no play ".repeat(9_000);
        let kept = text.clone();
        let origin = Origin::serve(move |_: &Request| {
            response("200 OK", &["Content-Type: text/html", FRESH], &kept)
        });
        let node = Setup::of(&origin).and(CODINGS).start();
        let url = format!("http://{}/", node.address());
        let asks = async |program: &'static str, arguments: Vec<String>| {
            let run = move || Command::new(program).args(arguments).output();
            let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{program}: {errors}");
            (output.stdout, errors)
        };
        let curl = |more: &[&str]| {
            let usual = [
                "-sS",
                "--compressed",
                "-H",
                "Host: example.test",
                "-w",
                "%{stderr}%{size_download}",
            ];
            let all = usual.iter().chain(more).map(|text| (*text).to_owned());
            all.chain([url.clone()]).collect::<Vec<String>>()
        };
        let (body, size) = asks("curl", curl(&[])).await;
        assert_eq!(body, text.as_bytes());
        assert!(size.trim().parse::<usize>().unwrap() < text.len() / 10, "{size}");
        let (body, _) = asks("curl", curl(&["-H", "Accept-Encoding: br"])).await;
        assert_eq!(body, text.as_bytes());
        assert_eq!((node.count("zstds"), node.count("brotlis")), (1, 1));
        // Python's own client says `identity`.
        let script = format!(
            "import urllib.request as u, sys; r = u.urlopen(u.Request('{url}', \
             headers={{'Host': 'example.test'}})); assert r.headers['content-encoding'] is None; \
             sys.stdout.buffer.write(r.read())"
        );
        let (body, _) = asks("python3", vec!["-c".into(), script]).await;
        assert_eq!(body, text.as_bytes());
        assert_eq!(origin.count(), 1);
    });
}

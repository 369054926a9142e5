//! A router as clients, operators and monitors meet it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::{Process, freshet, program, run, succeed};

/// A server that is well until it is told not to be.
struct Node {
    address: SocketAddr,
    is_well: Arc<AtomicBool>,
}

impl Node {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_well = Arc::new(AtomicBool::new(true));
        let answers = Arc::clone(&is_well);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let status = if answers.load(SeqCst) { "200 OK" } else { "503 Unwell" };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        });
        Self { address, is_well }
    }
}

/// A router with its file.
struct Router {
    process: Process,
    address: String,
    admin: String,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Router {
    fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("route.toml");
        std::fs::write(&file, text).unwrap();
        let mut command = freshet();
        command.args(["route", "--config"]).arg(&file).stdout(Stdio::null());
        let mut process = Process::start(&mut command);
        let after = |what: &'static str| {
            move |line: &str| line.split_once(what).map(|(_, rest)| rest.trim().to_owned())
        };
        let address = process.wait_for(after("redirects at "));
        let admin = process.wait_for(after("the admin interface is at "));
        Self { process, address, admin, file, _folder: folder }
    }

    fn reload(&mut self, text: &str, says: &str) {
        std::fs::write(&self.file, text).unwrap();
        self.process.signal(Signal::HUP);
        self.process.wait_for(|line| line.contains(says).then_some(()));
    }

    /// Status and `Location` of an answer.
    fn ask(&self, curl: &Path, more: &[&str]) -> String {
        let mut command = Command::new(curl);
        command.args(["-sk", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}"]);
        command.args(["-H", "Host: www.example"]).args(more);
        succeed(command.arg(format!("http://{}/a/b.ts?x=1", self.address)))
    }

    fn admin(&self, curl: &Path, path: &str) -> String {
        succeed(Command::new(curl).args(["-sf", &format!("http://{}{path}", self.admin)]))
    }
}

fn text(nodes: [&Node; 2]) -> String {
    let [west, east] = nodes.map(|node| node.address);
    format!(
        r#"
        workers = 2
        [[listen]]
        address = "127.0.0.1:0"
        trusted = ["127.0.0.0/8"]
        [admin]
        listen = "127.0.0.1:0"
        [health]
        interval = "20ms"
        timeout = "30s"
        window = 1
        threshold = 1
        ramp = "0s"
        [[region]]
        name = "west"
        [[region]]
        name = "east"
        [[node]]
        name = "west-1"
        region = "west"
        host = "west-1.example"
        health = "http://{west}"
        [[node]]
        name = "east-1"
        region = "east"
        host = "east-1.example"
        health = "http://{east}"
        [[zone]]
        name = "isp"
        region = "east"
        networks = ["10.0.0.0/8"]
        "#
    )
}

#[test]
fn clients_are_redirected_to_nodes_that_are_well_and_near() {
    let Some(curl) = program("curl") else { return };
    let nodes = [Node::start(), Node::start()];
    let text = text([&nodes[0], &nodes[1]]);
    let mut router = Router::start(&text);
    let isp = ["-H", "X-Forwarded-For: 10.1.2.3, 127.0.0.9"];
    let west = "302 http://west-1.example/a/b.ts?x=1";
    let east = "302 http://east-1.example/a/b.ts?x=1";
    assert_eq!(router.ask(&curl, &[]), west);
    assert_eq!(router.ask(&curl, &isp), east);
    assert_eq!(router.ask(&curl, &["-X", "POST"]), west.replace("302", "307"));
    let origin = ["-X", "OPTIONS", "-H", "Origin: http://page.example"];
    assert_eq!(router.ask(&curl, &origin), west.replace("302", "307"));
    let mut preflight = Command::new(&curl);
    preflight.args(["-si", "-H", "Host: www.example"]).args(origin);
    preflight.args(["-H", "Access-Control-Request-Method: GET"]);
    preflight.args(["-H", "Access-Control-Request-Headers: range,x-a"]);
    let said = succeed(preflight.arg(format!("http://{}/a", router.address))).to_lowercase();
    assert!(said.starts_with("http/1.1 204"), "{said}");
    for field in
        ["allow-origin: *", "allow-methods: get", "allow-headers: range,x-a", "max-age: 86400"]
    {
        assert!(said.contains(&format!("access-control-{field}")), "{said}");
    }
    nodes[1].is_well.store(false, SeqCst);
    router.process.wait_for(|line| line.contains("down node=\"east-1\"").then_some(()));
    assert_eq!(router.ask(&curl, &isp), west);
    let explained = router.admin(&curl, "/v1/explain?client=10.1.2.3&url=http://www.example/");
    assert!(explained.contains("region east: nobody (east-1 is down)"), "{explained}");
    let listed = router.admin(&curl, "/v1/nodes");
    assert!(listed.contains("\"health\":\"down\"") && listed.contains("west-1"), "{listed}");
    nodes[1].is_well.store(true, SeqCst);
    router.process.wait_for(|line| line.contains("up node=\"east-1\"").then_some(()));
    assert_eq!(router.ask(&curl, &isp), east);
    // A bad file changes nothing, a good one all but the addresses.
    router.reload(&text.replace("region = \"east\"", "region = \"eats\""), "nothing was changed");
    assert_eq!(router.ask(&curl, &isp), east);
    router.reload(&text.replace("10.0.0.0/8", "192.0.2.0/24"), "was read again");
    assert_eq!(router.ask(&curl, &isp), west);
    let metrics = router.admin(&curl, "/metrics");
    for line in [
        "freshet_route_decisions_total{site=\"all\",outcome=\"sent\"} 8",
        "freshet_route_sent_total{node=\"east-1\",region=\"east\"} 3",
        "freshet_route_nodes{health=\"up\"} 2",
        "freshet_route_prefixes 1",
        "freshet_route_reloads_total 1",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
    router.process.signal(Signal::TERM);
    assert!(support::is_clean(router.process.end().0));
}

#[test]
fn a_router_speaks_tls_and_stays_with_https() {
    let Some(curl) = program("curl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let make = |host: &str| {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    };
    make("www.example");
    let text = format!(
        "workers = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\ncert = {cert:?}\nkey = {key:?}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[region]]\nname = \"a\"\n\
         [[node]]\nname = \"n\"\nregion = \"a\"\nhost = \"n.example\"\n\
         [[site]]\nhosts = [\"www.example\"]\nsticky = \"1h\"\n"
    );
    let mut router = Router::start(&text);
    let mut command = Command::new(&curl);
    command.args(["-ski", "-H", "Host: www.example"]);
    let answer = succeed(command.arg(format!("https://{}/a", router.address)));
    let lower = answer.to_lowercase();
    assert!(lower.contains("location: https://n.example/a"), "{answer}");
    assert!(
        lower.contains("set-cookie: freshet-node=n;") && lower.contains("; secure"),
        "{answer}"
    );
    // A new certificate is shown once the file is read again; one that is broken changes nothing.
    let port = router.address.rsplit_once(':').unwrap().1.to_owned();
    let shows = |host: &str| {
        let mut command = Command::new(&curl);
        command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"]).arg(&cert);
        command.args(["--resolve", &format!("{host}:{port}:127.0.0.1")]);
        let answer = run(command.arg(format!("https://{host}:{port}/")));
        String::from_utf8_lossy(&answer.stdout).into_owned()
    };
    assert_eq!(shows("www.example"), "302");
    make("new.example");
    assert_eq!(shows("new.example"), "000");
    router.reload(&text, "was read again");
    assert_eq!(shows("new.example"), "421");
    std::fs::write(&cert, "broken").unwrap();
    router.reload(&text, "nothing was changed");
}

#[test]
fn a_file_is_checked_and_a_decision_explained_without_a_router() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("route.toml");
    let good = text([&Node::start(), &Node::start()]);
    std::fs::write(&file, &good).unwrap();
    let said = succeed(freshet().args(["route", "check", "--config"]).arg(&file));
    assert!(said.ends_with("good: regions 2, nodes 2, zones 1, networks 1\n"), "{said}");
    let mut explain = freshet();
    explain.args(["route", "explain", "10.9.9.9", "http://www.example/a", "--config"]).arg(&file);
    let said = succeed(&mut explain);
    assert!(said.contains("the client is in zone isp, with all of its /8"), "{said}");
    assert!(said.ends_with("302 to http://east-1.example/a\n"), "{said}");
    let said: serde_json::Value = serde_json::from_str(&succeed(explain.arg("--json"))).unwrap();
    assert_eq!((&said["status"], &said["node"]), (&302.into(), &"east-1".into()), "{said}");
    assert_eq!(said["location"], "http://east-1.example/a");
    std::fs::write(&file, good.replace("[[zone]]", "[[zoen]]")).unwrap();
    let wrong = run(freshet().args(["route", "check", "--config"]).arg(&file));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("did you mean `zone`?"), "{said}");
    let said =
        succeed(freshet().args(["route", "bench", "--prefixes", "1000", "--decisions", "1000"]));
    assert!(said.contains("1000 networks take"), "{said}");
}

#[test]
fn what_is_about_no_resource_is_sent_nowhere() {
    let router = Router::start(
        "[[listen]]\naddress = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[region]]\nname = \"a\"\n[[node]]\nname = \"n\"\nregion = \"a\"\nhost = \"n.example\"\n\
         health = \"none\"\n[[site]]\nhosts = [\"www.example\"]\n",
    );
    for (head, status) in [
        ("GET /a HTTP/1.1\r\nHost: www.example\r\n", "302"),
        ("OPTIONS * HTTP/1.1\r\nHost: www.example\r\n", "400"),
        ("CONNECT www.example:443 HTTP/1.1\r\nHost: www.example:443\r\n", "501"),
        ("GET /a HTTP/1.1\r\nHost: www.example\r\nHost: www.example\r\n", "400"),
        ("GET /a HTTP/1.1\r\n", "400"),
    ] {
        let mut stream = std::net::TcpStream::connect(&router.address).unwrap();
        write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said.get(9..12), Some(status), "{head}{said}");
        assert_eq!(said.to_lowercase().contains("\r\nlocation:"), status == "302", "{said}");
    }
}

//! A node that gets its certificates from a small authority, which looks at what the node proves over
//! real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../acme/tests/wire/authority.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with tests that use all of it")]
mod authority;
mod support;

use authority::Authority;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use support::{PATIENCE, Process, freshet, program, run, succeed};

const NAME: &str = "www.acme.example";

/// Where the node listens, in the clear and with TLS.
#[derive(Default)]
struct Ports {
    known: Mutex<Option<(String, String)>>,
    told: Condvar,
}

impl Ports {
    fn set(&self, ports: (String, String)) {
        *self.known.lock().unwrap() = Some(ports);
        self.told.notify_all();
    }

    /// Waits until the node has said so: it asks for its certificate before anybody has read that.
    fn get(&self) -> (String, String) {
        let known = self.known.lock().unwrap();
        let known = self.told.wait_while(known, |known| known.is_none()).unwrap();
        known.clone().unwrap()
    }
}

fn authority(ports: &Arc<Ports>) -> Authority {
    let ports = Arc::clone(ports);
    Authority::start(Arc::new(move |name, kind, token, text| {
        let (clear, tls) = ports.get();
        match kind {
            "http-01" => get(&clear, name, &format!("/.well-known/acme-challenge/{token}"))
                .ends_with(&format!("\r\n\r\n{text}")),
            _ => handshake_proves(&tls, name, text),
        }
    }))
}

fn get(address: &str, host: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

/// Whether the certificate shown under `acme-tls/1` has the digest of the text (RFC 8737 §3).
fn handshake_proves(address: &str, name: &str, text: &str) -> bool {
    let openssl = program("openssl").unwrap();
    let shown = run(std::process::Command::new(&openssl).args([
        "s_client",
        "-connect",
        address,
        "-servername",
        name,
        "-alpn",
        "acme-tls/1",
    ]));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    if !shown.contains("ALPN protocol: acme-tls/1") {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shown.pem");
    fs::write(&file, &shown).unwrap();
    let der = run(std::process::Command::new(&openssl)
        .args(["x509", "-outform", "DER", "-in"])
        .arg(&file));
    let has = |part: &[u8]| der.stdout.windows(part.len()).any(|window| window == part);
    // id-pe-acmeIdentifier, critical: OpenSSL has no name for it.
    let extension = [0x06, 8, 0x2b, 6, 1, 5, 5, 7, 1, 0x1f, 1, 1, 0xff];
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    has(&extension) && has(digest.as_ref()) && has(name.as_bytes())
}

fn configure(folder: &Path, authority: &Authority, challenge: &str) {
    let text = format!(
        "workers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n[acme]\nterms_agreed = true\n\
         directory = \"{}\"\nstate = \"{}\"\nchallenges = [\"{challenge}\"]\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n\
         http3 = false\n[[site]]\nhosts = [\"{NAME}\"]\n[[site.origin]]\nurl = \"http://127.0.0.1:9\"\n\
         [[site.redirect]]\nscheme = \"http\"\nto = \"https://{NAME}/new\"\n",
        authority.directory(),
        folder.join("state").display(),
    );
    fs::write(folder.join("freshet.toml"), text).unwrap();
}

fn start(folder: &Path, ports: &Ports) -> Process {
    let mut command = freshet();
    command.args(["serve", "--name", "acme", "--config"]).arg(folder.join("freshet.toml"));
    command.env("XDG_RUNTIME_DIR", folder).stdout(Stdio::null());
    let mut process = Process::start(&mut command);
    let url = |process: &mut Process, scheme: &'static str| {
        process.wait_for(|line| {
            let line = line.strip_prefix("listening  ")?.split(' ').next()?;
            line.strip_prefix(scheme).map(str::to_owned)
        })
    };
    let clear = url(&mut process, "http://");
    let tls = url(&mut process, "https://");
    ports.set((clear, tls));
    support::ready(&mut process);
    process
}

fn list(folder: &Path) -> String {
    let mut command = freshet();
    command.args(["certificate", "list", "--json", "--name", "acme"]);
    succeed(command.env("XDG_RUNTIME_DIR", folder))
}

/// Waits until the node has a certificate, and returns what it says of it.
fn obtained(folder: &Path) -> String {
    let started = Instant::now();
    loop {
        let text = list(folder);
        if !text.contains("\"until_s\":null") {
            return text;
        }
        assert!(started.elapsed() < PATIENCE, "{text}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn a_node_proves_by(challenge: &str) {
    let Some(openssl) = program("openssl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let ports = Arc::<Ports>::default();
    let authority = authority(&ports);
    configure(folder.path(), &authority, challenge);
    let node = start(folder.path(), &ports);
    let said = obtained(folder.path());
    assert!(said.contains("\"by\":\"acme\"") && said.contains(NAME), "{said}");
    let (clear, tls) = ports.get();
    let shown = run(std::process::Command::new(openssl).args([
        "s_client",
        "-connect",
        &tls,
        "-servername",
        NAME,
    ]));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let kept = folder.path().join(format!("state/certificates/{NAME}.pem"));
    let kept = fs::read_to_string(kept).unwrap();
    let first = kept.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap();
    assert!(shown.contains(first.split("-----END").next().unwrap()), "{shown}");
    // What nobody is asked to prove any more goes the way of all requests.
    let other = get(&clear, NAME, "/.well-known/acme-challenge/none");
    assert!(other.starts_with("HTTP/1.1 30"), "{other}");
    drop(node);
    let state = authority.state();
    assert_eq!(state.orders.len(), 1);
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
}

#[test]
fn a_node_gets_a_certificate_by_http_and_serves_it() {
    a_node_proves_by("http-01");
}

#[test]
fn a_node_gets_a_certificate_by_a_handshake_and_serves_it() {
    a_node_proves_by("tls-alpn-01");
}

#[test]
fn a_client_brings_a_certificate_about_where_a_service_says_yes() {
    let Some(openssl) = program("openssl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let ports = Arc::<Ports>::default();
    let authority = authority(&ports);
    configure(folder.path(), &authority, "http-01");
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/may", service.local_addr().unwrap());
    let file = folder.path().join("freshet.toml");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("[acme]\n", &format!("[acme]\non_demand = \"{url}\"\n"));
    fs::write(&file, text.replace(NAME, "*.demand.example")).unwrap();
    std::thread::spawn(move || {
        for mut socket in service.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let count = socket.read(&mut head).unwrap_or(0);
            let is_good = head[..count].starts_with(b"GET /may?domain=shop.demand.example ");
            let status = if is_good { "200 OK" } else { "404 Not Found" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    let node = start(folder.path(), &ports);
    let tls = ports.get().1;
    let shown = |name: &str| {
        let mut command = std::process::Command::new(&openssl);
        command.args(["s_client", "-connect", &tls, "-servername", name]);
        String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
    };
    assert!(!shown("other.demand.example").contains("BEGIN CERTIFICATE"));
    // The first handshake of all has it.
    assert!(shown("shop.demand.example").contains("BEGIN CERTIFICATE"));
    assert!(list(folder.path()).contains("shop.demand.example"));
    drop(node);
    let state = authority.state();
    assert_eq!(state.orders.len(), 1);
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
}

#[test]
fn a_check_says_what_would_keep_certificates_from_coming() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let site = "[[site]]\nhosts = [\"www.acme.example\", \"*.acme.example\"]\n\
                [[site.origin]]\nurl = \"http://127.0.0.1:9\"\n";
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n";
    for (acme, listen, says, is_good) in [
        ("state = \"/etc/passwd/x\"", listen, "acme.state: /etc/passwd/x cannot be written", false),
        ("ca = \"/none.pem\"", listen, "acme.ca: /none.pem cannot be read", false),
        ("directory = \"http://ca.example/\"", listen, "it is not https", false),
        ("", listen, "nothing listens on port 80", true),
        ("", listen, "no certificate is got for `*.acme.example`", true),
        ("on_demand = \"ftp://a/\"", listen, "acme.on_demand: `ftp://a/` is no URL", false),
        ("names = [\"box.local\"]", listen, "`box.local`, which is no public name", true),
        ("", "[[listen]]\naddress = \"127.0.0.1:0\"\n", "no listener has TLS", true),
    ] {
        let state = folder.path().join("state");
        let state = if acme.contains("state") {
            String::new()
        } else {
            format!("state = \"{}\"\n", state.display())
        };
        let text = format!(
            "admin.listen = \"off\"\n[acme]\nterms_agreed = true\n{acme}\n{state}{listen}{site}"
        );
        fs::write(&file, &text).unwrap();
        let found = run(freshet().args(["check", "--offline"]).arg(&file));
        let errors = String::from_utf8_lossy(&found.stderr);
        assert!(errors.contains(says), "{text}\n{errors}");
        assert_eq!(found.status.success(), is_good, "{text}\n{errors}");
    }
}

//! A node as the gateway of a platform's apps: whom it lets through to a service that an app offers.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use freshet_mec::serve;
use freshet_net::address::Address;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use support::{Process, freshet};

/// Of `secret`.
const SECRET_SHA256: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

/// An app that answers each request with its first line.
fn app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut first, mut line) = (String::new(), String::new());
                while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                    if first.is_empty() {
                        first = line.trim_end().to_owned();
                    }
                    line.clear();
                }
                let mut stream = &stream;
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{first}",
                    first.len()
                );
            });
        }
    });
    address
}

/// A platform whose app `camera` offers services, and three clients of those.
fn platform(state: &Path) -> SocketAddr {
    let client = |name: &str, rest: &str| {
        format!("[client.{name}]\nsecret_sha256 = \"{SECRET_SHA256}\"\n{rest}\n")
    };
    let text = format!(
        "listen = \"127.0.0.1:0\"\nstate = \"{}\"\n[app.camera]\n{}{}{}{}",
        state.display(),
        client("camera", "app = \"camera\"\nscopes = [\"mec_service_mgmt\"]"),
        client("viewer", "scopes = [\"services:detector:read\"]"),
        client("slow", "scopes = [\"services:detector\"]\nrate = \"2/h\""),
        client("stranger", "scopes = [\"services:other\"]"),
    );
    let bound = serve::bind(serve::read(&text).unwrap()).unwrap();
    let Address::Tcp(address) = *bound.address() else { panic!("it listens on TCP") };
    std::thread::spawn(move || bound.run(std::future::pending()).unwrap());
    address
}

fn gateway(home: &Path, app: SocketAddr, platform: SocketAddr) -> (Process, SocketAddr) {
    let file = home.join("freshet.toml");
    let text = format!(
        "memory = \"64MiB\"\nworkers = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[origin]]\nurl = \"http://{app}\"\n[[access]]\npath = \"/services/\"\n\
         service = \"http://{platform}/gateway/decision\"\nservice_fields = [\"Mec-Client\"]\n\
         [[access]]\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n[admin]\nlisten = \"off\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--config"]).arg(&file).env("XDG_RUNTIME_DIR", home);
    let mut node = Process::start(&mut command);
    let address = node.wait_for(|line| {
        let url = line.strip_prefix("listening  ")?.split_whitespace().next()?;
        url.strip_prefix("http://")?.parse().ok()
    });
    (node, address)
}

/// Asks, and returns the status, the head and the body.
fn ask(
    to: SocketAddr,
    method: &str,
    path: &str,
    fields: &str,
    body: &str,
) -> (u16, String, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

#[test]
fn a_gateway_lets_through_whom_the_platform_knows_and_to_what_is_offered() {
    let home = tempfile::tempdir().unwrap();
    let platform = platform(&home.path().join("state"));
    let (_node, gateway) = gateway(home.path(), app(), platform);
    let token = |client: &str| {
        let form = format!("grant_type=client_credentials&client_id={client}&client_secret=secret");
        let (status, _, body) = ask(platform, "POST", "/oauth2/token", "", &form);
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        format!("Authorization: Bearer {}\r\n", body["access_token"].as_str().unwrap())
    };
    let [camera, viewer, slow, stranger] = ["camera", "viewer", "slow", "stranger"].map(token);
    let faces = "/services/detector/faces";
    let status = |method: &str, path: &str, fields: &str| ask(gateway, method, path, fields, "").0;

    // Nobody offers it yet.
    assert_eq!(status("GET", faces, &viewer), 404);
    let service = r#"{"serName": "detector", "version": "1.0", "state": "ACTIVE", "transportId": "rest", "serializer": "JSON"}"#;
    let registry = "/mec_service_mgmt/v1/applications/camera/services";
    let json = format!("{camera}Content-Type: application/json\r\n");
    assert_eq!(ask(platform, "POST", registry, &json, service).0, 201);
    let (code, _, body) = ask(gateway, "GET", faces, &viewer, "");
    assert_eq!((code, body.as_str()), (200, "GET /services/detector/faces HTTP/1.1"));

    let (code, head, _) = ask(gateway, "GET", faces, "", "");
    assert_eq!(code, 401);
    assert!(head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{head}");
    assert_eq!(status("GET", faces, "Authorization: Bearer a.b.c\r\n"), 401);
    assert_eq!(status("POST", faces, &viewer), 403);
    assert_eq!(status("GET", faces, &stranger), 403);
    assert_eq!(status("GET", "/services/detector/%2e%2e/other", &viewer), 400);
    // What a client says of what it asks for does not count.
    let lie = format!("{viewer}X-Forwarded-Uri: {faces}\r\nX-Forwarded-Method: GET\r\n");
    assert_eq!(status("GET", "/services/other/faces", &lie), 403);
    assert_eq!(status("POST", faces, &lie), 403);

    assert_eq!([(); 2].map(|()| status("POST", faces, &slow)), [200, 200]);
    let (code, head, _) = ask(gateway, "POST", faces, &slow, "");
    assert_eq!(code, 429);
    assert!(head.to_ascii_lowercase().contains("retry-after: "), "{head}");
    // Nothing else of the app is there for anybody.
    assert_eq!(status("GET", "/", &viewer), 403);
}

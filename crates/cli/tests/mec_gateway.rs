//! A node as the gateway of a platform's apps: whom it lets through to a service that an app offers, and where that
//! is.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use freshet_mec::serve;
use freshet_net::address::Address;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Process, freshet, program, succeed};

/// Of `secret`.
const SECRET_SHA256: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

/// An app that answers each request with its first line.
fn app() -> SocketAddr {
    tagged("")
}

/// As [`app`], with a word before that.
fn tagged(name: &'static str) -> SocketAddr {
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
                let first = format!("{name} {first}").trim_start().to_owned();
                let mut stream = &stream;
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{first}",
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
        "listen = \"127.0.0.1:0\"\nstate = \"{}\"\ncallbacks_allowed = [\"127.0.0.1\"]\n\
         gateways = [\"127.0.0.1\"]\n[app.camera]\n{}{}{}{}{}",
        state.display(),
        client("camera", "app = \"camera\"\nscopes = [\"mec_service_mgmt\"]"),
        client("viewer", "scopes = [\"services:detector:read\"]\ngroup = \"press\""),
        client("slow", "scopes = [\"services:detector\"]\nrate = \"2/h\""),
        client("stranger", "scopes = [\"services:other\"]"),
        client("bound", "scopes = [\"services\"]\ncertificate_bound = true"),
    );
    let bound = serve::bind(serve::read(&text).unwrap()).unwrap();
    let Address::Tcp(address) = *bound.address() else { panic!("it listens on TCP") };
    std::thread::spawn(move || bound.run(std::future::pending()).unwrap());
    address
}

fn gateway(home: &Path, app: SocketAddr, platform: SocketAddr) -> (Process, SocketAddr) {
    let rest = "[[access]]\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n";
    start(home, app, platform, ("", "", rest))
}

/// What a gateway needs that remembers and asks whom the registry says.
const FOLLOWING: &str = "service_origin = \"Mec-Endpoint\"\nservice_strip = 2\n\
    service_remember = \"1h\"\nservice_by = [\"{path:2}\", \"Authorization\"]\n\
    service_changes = \"/gateway/changes\"\n";

/// A node with more of its listener, of its rule, and besides.
fn start(
    home: &Path,
    app: SocketAddr,
    platform: SocketAddr,
    (of_listener, of_rule, rest): (&str, &str, &str),
) -> (Process, SocketAddr) {
    let file = home.join("freshet.toml");
    let text = format!(
        "memory = \"64MiB\"\nworkers = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\n{of_listener}\
         [[origin]]\nurl = \"http://{app}\"\n[[access]]\npath = \"/services/\"\n\
         service = \"http://{platform}/gateway/decision\"\nservice_fields = [\"Mec-Client\"]\n{of_rule}\
         {rest}[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.args(["serve", "--config"]).arg(&file).env("XDG_RUNTIME_DIR", home);
    let mut node = Process::start(&mut command);
    let address = node.wait_for(|line| {
        let url = line.strip_prefix("listening  ")?.split_whitespace().next()?;
        url.split_once("://")?.1.parse().ok()
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

/// A token of a client, as a field.
fn token(platform: SocketAddr, client: &str) -> String {
    let form = format!("grant_type=client_credentials&client_id={client}&client_secret=secret");
    let (status, _, body) = ask(platform, "POST", "/oauth2/token", "", &form);
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    format!("Authorization: Bearer {}\r\n", body["access_token"].as_str().unwrap())
}

#[test]
fn a_gateway_lets_through_whom_the_platform_knows_and_to_what_is_offered() {
    let home = tempfile::tempdir().unwrap();
    let platform = platform(&home.path().join("state"));
    let (_node, gateway) = gateway(home.path(), app(), platform);
    let [camera, viewer, slow, stranger] =
        ["camera", "viewer", "slow", "stranger"].map(|client| token(platform, client));
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

const REGISTRY: &str = "/mec_service_mgmt/v1/applications/camera/services";

/// Registers `detector` at this app, and returns its path and its document.
fn offer(platform: SocketAddr, camera: &str, app: SocketAddr) -> (String, Value) {
    let service = serde_json::json!({
        "serName": "detector", "version": "1.0", "state": "ACTIVE", "serializer": "JSON",
        "transportInfo": {
            "id": "own", "name": "REST", "type": "REST_HTTP", "protocol": "HTTP", "version": "1.1",
            "endpoint": { "uris": [format!("http://{app}/api")] },
            "security": { "oAuth2Info": {
                "grantTypes": ["OAUTH2_CLIENT_CREDENTIALS"],
                "tokenEndpoint": format!("http://{platform}/oauth2/token"),
            } },
        },
    });
    let json = format!("{camera}Content-Type: application/json\r\n");
    let (status, _, body) = ask(platform, "POST", REGISTRY, &json, &service.to_string());
    assert_eq!(status, 201, "{body}");
    let service: Value = serde_json::from_str(&body).unwrap();
    (format!("{REGISTRY}/{}", service["serInstanceId"].as_str().unwrap()), service)
}

/// Asks until this is the answer: a change is told at once, and comes when it comes.
fn until(what: &str, mut asked: impl FnMut() -> (u16, String), wanted: (u16, &str)) {
    let begun = Instant::now();
    loop {
        let (status, body) = asked();
        if status == wanted.0 && body.contains(wanted.1) {
            return;
        }
        // Far below what is remembered, so that it is the news which made the difference.
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {status} {body}");
        std::thread::yield_now();
    }
}

#[test]
fn a_gateway_follows_the_registry_without_a_reload() {
    let home = tempfile::tempdir().unwrap();
    let platform = platform(&home.path().join("state"));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_node, gateway) = start(home.path(), nobody, platform, ("", FOLLOWING, ""));
    let [camera, viewer, slow] = ["camera", "viewer", "slow"].map(|client| token(platform, client));
    let faces = || {
        let (status, _, body) = ask(gateway, "GET", "/services/detector/faces", &viewer, "");
        (status, body)
    };
    assert_eq!(faces().0, 404);
    let one = tagged("one");
    let (first, mut document) = offer(platform, &camera, one);
    assert_eq!(faces(), (200, "one GET /api/faces HTTP/1.1".to_owned()));
    // A second instance takes its turns, and is there by its own name at once.
    let (second, other) = offer(platform, &camera, tagged("two"));
    until("the second", faces, (200, "two GET /api/faces"));
    until("the first again", faces, (200, "one GET /api/faces"));
    let path = format!("/services/{}/faces", other["serInstanceId"].as_str().unwrap());
    for _ in 0..3 {
        assert_eq!(ask(gateway, "GET", &path, &viewer, "").2, "two GET /api/faces HTTP/1.1");
    }
    let json = format!("{camera}Content-Type: application/json\r\n");
    let put = |document: &Value| {
        assert_eq!(ask(platform, "PUT", &first, &json, &document.to_string()).0, 200);
    };
    assert_eq!(ask(platform, "DELETE", &second, &camera, "").0, 204);
    // What is no instance any more could be a service of that name, which is not the viewer's.
    until(
        "the second is gone",
        || (ask(gateway, "GET", &path, &viewer, "").0, String::new()),
        (403, ""),
    );
    document["state"] = "SUSPENDED".into();
    put(&document);
    until("suspended", faces, (503, "is not active"));
    document["state"] = "ACTIVE".into();
    document["transportInfo"]["endpoint"]["uris"][0] =
        format!("http://{}/v2", tagged("three")).into();
    put(&document);
    assert_eq!(faces(), (200, "three GET /v2/faces HTTP/1.1".to_owned()));
    // What is remembered counts as well.
    let post = || ask(gateway, "POST", "/services/detector/faces", &slow, "").0;
    assert_eq!([post(), post(), post()], [200, 200, 429]);
}

#[test]
fn a_gateway_says_who_calls_what_how_often_and_how_it_ends() {
    let home = tempfile::tempdir().unwrap();
    let platform = platform(&home.path().join("state"));
    let of_rule = format!(
        "{FOLLOWING}service_counted = [\"Mec-Service\", \"Mec-Client\", \"Mec-App\", \"Mec-Group\"]\n"
    );
    let app = tagged("one");
    let (mut node, gateway) = start(home.path(), app, platform, ("", &of_rule, ""));
    let admin: SocketAddr = node.wait_for(|line| {
        line.strip_prefix("admin      http://")?.split(['/', ' ']).next()?.parse().ok()
    });
    let [camera, viewer, stranger] =
        ["camera", "viewer", "stranger"].map(|client| token(platform, client));
    offer(platform, &camera, app);
    let faces = "/services/detector/faces";
    for (method, token, status) in [
        ("GET", &viewer, 200),
        ("GET", &viewer, 200),
        ("POST", &viewer, 403),
        ("GET", &stranger, 403),
    ] {
        assert_eq!(ask(gateway, method, faces, token, "").0, status);
    }
    let (status, _, text) = ask(admin, "GET", "/metrics", "", "");
    assert_eq!(status, 200);
    let of_viewer =
        "access=\"/services/\",mec_service=\"detector\",mec_client=\"viewer\",mec_group=\"press\"";
    for line in [
        format!("freshet_access_calls_total{{{of_viewer},class=\"2xx\"}} 2"),
        format!("freshet_access_calls_total{{{of_viewer},class=\"4xx\"}} 1"),
        "mec_client=\"stranger\",class=\"4xx\"} 1".to_owned(),
        format!("freshet_access_call_first_byte_seconds_count{{{of_viewer}}} 3"),
        format!("_bucket{{le=\"+Inf\",{of_viewer}}} 3"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_token_is_worth_nothing_with_another_certificate_than_its_own() {
    let (Some(openssl), Some(curl)) = (program("openssl"), program("curl")) else { return };
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let make = |arguments: &str| {
        let mut command = Command::new(&openssl);
        succeed(command.current_dir(folder).args(arguments.split(' ')))
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "gateway"] {
        let names = "-addext subjectAltName=IP:127.0.0.1";
        make(&format!(
            "req -x509 {key} -days 2 -subj /CN={name} {names} -keyout {name}.key -out {name}.pem"
        ));
    }
    for name in ["anna", "eve"] {
        make(&format!(
            "req {key} -subj /CN={name} -addext subjectAltName=DNS:{name}.example -keyout {name}.key -out {name}.csr"
        ));
        make(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -copy_extensions copy -days 2 -out {name}.pem"
        ));
    }
    let platform = platform(&folder.join("state"));
    let camera = token(platform, "camera");
    offer(platform, &camera, tagged("one"));
    let at = |file: &str| folder.join(file).display().to_string();
    let of_listener = format!(
        "tls = true\nclient_ca = \"{}\"\nclient_certificates = \"optional\"\n[[certificate]]\n\
         cert = \"{}\"\nkey = \"{}\"\n",
        at("ca.pem"),
        at("gateway.pem"),
        at("gateway.key")
    );
    // The platform itself is behind the gateway, which says whose certificate it has seen.
    let rest = "[[header]]\non = \"request\"\nname = \"X-Forwarded-Client-Cert\"\n\
                value = \"Hash={client_fingerprint}\"\n\
                [[cache_rule]]\npath = \"/services/\"\nbypass = false\n[[cache_rule]]\nbypass = true\n";
    let (_node, gateway) = start(folder, platform, platform, (&of_listener, FOLLOWING, rest));
    let curl = |certificate: Option<&str>, path: &str, more: &[&str]| {
        let mut command = Command::new(&curl);
        command.args([
            "-s",
            "--cacert",
            &at("gateway.pem"),
            "-w",
            "\n%{http_code} %header{www-authenticate}",
        ]);
        if let Some(name) = certificate {
            command.args([
                "--cert",
                &at(&format!("{name}.pem")),
                "--key",
                &at(&format!("{name}.key")),
            ]);
        }
        let said = succeed(command.arg(format!("https://{gateway}{path}")).args(more));
        let (body, code) = said.rsplit_once('\n').unwrap();
        (body.to_owned(), code.to_owned())
    };
    let token = |client: &str, certificate: Option<&str>| {
        let form = format!("grant_type=client_credentials&client_id={client}&client_secret=secret");
        let lie = "X-Forwarded-Client-Cert: Hash=0707070707070707070707070707070707070707070707070707070707070707";
        let (body, _) = curl(certificate, "/oauth2/token", &["-d", &form, "-H", lie]);
        let body: Value = serde_json::from_str(&body).unwrap();
        body["access_token"].as_str().map(|token| format!("Authorization: Bearer {token}"))
    };
    let ask = |certificate: Option<&str>, token: &str| {
        curl(certificate, "/services/detector/faces", &["-H", token])
    };
    let bound = token("viewer", Some("anna")).unwrap();
    // Also while the gateway remembers that it is good with its own.
    for _ in 0..2 {
        assert_eq!(ask(Some("anna"), &bound).0, "one GET /api/faces HTTP/1.1");
        for thief in [Some("eve"), None] {
            let (body, code) = ask(thief, &bound);
            assert!(
                code.starts_with("401 Bearer ") && code.contains("error=\"invalid_token\""),
                "{code} {body}"
            );
        }
    }
    // Nobody says of themselves whose certificate they have.
    let print = make("x509 -in anna.pem -noout -fingerprint -sha256");
    let print = print.trim().rsplit('=').next().unwrap().replace(':', "").to_lowercase();
    let lie = format!("X-Forwarded-Client-Cert: Hash={print}");
    let (_, code) = curl(Some("eve"), "/services/detector/faces", &["-H", &bound, "-H", &lie]);
    assert!(code.starts_with("401 "), "{code}");
    // A token without a certificate is good as before, but not of a client that has to have one.
    let free = token("viewer", None).unwrap();
    assert!(
        [Some("anna"), Some("eve"), None]
            .iter()
            .all(|shown| ask(*shown, &free).1.starts_with("200"))
    );
    // The platform's own interfaces are read with one as well.
    let services = "/mec_service_mgmt/v1/services";
    for method in ["-G", "-I"] {
        let status = |shown: &str| curl(Some(shown), services, &["-H", &bound, method]).1;
        assert!(status("anna").starts_with("403 "), "{method} {}", status("anna"));
        assert!(status("eve").starts_with("401 "), "{method} {}", status("eve"));
    }
    assert_eq!(token("bound", None), None);
    let bound = token("bound", Some("eve")).unwrap();
    assert!(ask(Some("eve"), &bound).1.starts_with("200"));
    assert!(ask(Some("anna"), &bound).1.starts_with("401"));
}

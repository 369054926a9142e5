//! Tokens that are for one site: what they reach, and that they reach nothing else.

use crate::node::{Node, Origin, status};
use crate::support::{freshet, run};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const SITES: [&str; 2] = ["one", "two"];
/// What sites have for themselves; everything else is the node's.
const OF_SITES: [&str; 11] = [
    "/v1/purge",
    "/v1/purge/tag",
    "/v1/purge/all",
    "/v1/bans",
    "/v1/sites",
    "/v1/maintenance",
    "/v1/blocks",
    "/v1/blocks/remove",
    "/v1/log",
    "/v1/origins",
    "/v1/origins/{name}",
];
/// What they have where a URL says of which site it is.
const BY_URL: [&str; 2] = ["/v1/objects", "/v1/explain"];

fn write_token(folder: &Path, site: &str, token: &str) {
    let file = folder.join(format!("{site}.token"));
    fs::write(&file, token).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn token_of(site: &str) -> String {
    format!("a token of site {site}").replace(' ', "-")
}

/// Writes a configuration of two sites with a token each.
fn configure(folder: &Path, origin: SocketAddr) -> String {
    let site = |name: &str| {
        let token = folder.join(format!("{name}.token"));
        let token = token.display();
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.test\"]\n\
             admin_token_file = \"{token}\"\n[[site.origin]]\nname = \"o\"\nurl = \"http://{origin}\"\n"
        )
    };
    SITES.iter().for_each(|site| write_token(folder, site, &token_of(site)));
    let config = folder.join("sites.toml");
    fs::write(&config, SITES.map(site).concat()).unwrap();
    config.to_string_lossy().into_owned()
}

/// A request; its status and what the answer says.
fn ask(to: SocketAddr, line: &str, host: &str, token: &str, body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(to).unwrap();
    let token = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\n{token}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    (status(&answer).parse().unwrap(), answer)
}

/// A node of two sites, and what is asked of it.
struct Tenants {
    node: Node,
    folder: tempfile::TempDir,
}

impl Tenants {
    fn start() -> Self {
        let (origin, folder) = (Origin::start(), tempfile::tempdir().unwrap());
        let config = configure(folder.path(), origin.address);
        Self { node: Node::with(origin, &["--config", &config]), folder }
    }

    /// Asks the interface with the token of a site.
    fn admin(&self, site: &str, line: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = ask(self.node.admin, line, "localhost", &token_of(site), &body);
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
    }

    /// How a page of a site is answered: `hit` or what else.
    fn page(&self, site: &str, path: &str) -> String {
        let (status, answer) =
            ask(self.node.clients, &format!("GET {path}"), &format!("{site}.test"), "", "");
        let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: freshet; "));
        let how = line.and_then(|line| line.split(';').next()).unwrap_or("none").to_owned();
        if status == 200 { how } else { format!("{status}") }
    }

    /// Both sites have a page, kept.
    fn fill(&self) {
        for site in SITES {
            self.page(site, "/news/1");
            assert_eq!(self.page(site, "/news/1"), "hit", "{site}");
        }
    }

    /// Has something happen to the first site that costs it its page, and the second nothing.
    fn only_one_loses(&self, line: &str, body: &Value) {
        self.fill();
        let (status, said) = self.admin("one", line, body);
        assert_eq!(status, 200, "{line} {body}: {said}");
        assert_eq!(self.page("two", "/news/1"), "hit", "{line} {body} reached the other site");
        assert_ne!(self.page("one", "/news/1"), "hit", "{line} {body} did nothing");
    }
}

#[test]
fn a_token_of_a_site_changes_that_site_and_no_other() {
    let tenants = Tenants::start();
    for (line, body) in [
        ("POST /v1/purge", json!({"url": "http://one.test/news/1"})),
        ("POST /v1/purge/tag", json!({"tag": "news"})),
        ("POST /v1/purge/tag", json!({"tag": "news", "site": "one"})),
        ("POST /v1/purge/all", json!({})),
        ("POST /v1/purge/all", json!({"site": "one"})),
        ("POST /v1/bans", json!({"ban": "obj.status == 200"})),
        ("POST /v1/bans", json!({"ban": "obj.status == 200", "site": "one"})),
    ] {
        tenants.only_one_loses(line, &body);
    }
    tenants.fill();
    for (line, body) in [
        ("POST /v1/purge", json!({"url": "http://two.test/news/1"})),
        ("POST /v1/purge", json!({"url": "http://nobody.test/news/1"})),
        ("POST /v1/purge", json!({"key": "two two.test /news/1"})),
        ("POST /v1/purge/tag", json!({"tag": "news", "site": "two"})),
        ("POST /v1/purge/tag", json!({"tag": "news", "site": "nobody"})),
        ("POST /v1/purge/all", json!({"site": "two"})),
        ("POST /v1/bans", json!({"ban": "obj.status == 200", "site": "two"})),
        ("POST /v1/maintenance", json!({"on": true, "site": "two"})),
        ("POST /v1/blocks", json!({"network": "127.0.0.1", "for": "1h", "site": "two"})),
        ("GET /v1/explain?url=http://two.test/news/1", json!(null)),
        ("GET /v1/objects?url=http://two.test/news/1", json!(null)),
        ("GET /v1/objects", json!(null)),
    ] {
        let (status, said) = tenants.admin("one", line, &body);
        assert_eq!(status, 403, "{line} {body}: {said}");
        assert!(!said.to_string().contains("two"), "{line} names the other site: {said}");
    }
    assert_eq!(tenants.page("two", "/news/1"), "hit");
    let (status, _) = tenants.admin("one", "POST /v1/origins/two%2Fo", &json!({"state": "down"}));
    assert_eq!(status, 404);
    let (status, _) = tenants.admin("one", "POST /v1/origins/one%2Fo", &json!({"state": "down"}));
    assert_eq!(status, 200);
    let (status, _) = tenants.admin("one", "POST /v1/maintenance", &json!({"on": true}));
    assert_eq!(status, 200);
    assert_eq!(tenants.page("one", "/news/1"), "503");
    assert_eq!(tenants.page("two", "/news/1"), "hit");
    let blocked = json!({"network": "127.0.0.1", "for": "1h"});
    assert_eq!(tenants.admin("one", "POST /v1/blocks", &blocked).0, 200);
    assert_eq!(tenants.page("one", "/news/1"), "403");
    assert_eq!(tenants.page("two", "/news/1"), "hit");
}

#[test]
fn a_token_of_a_site_sees_that_site_and_no_other() {
    let tenants = Tenants::start();
    tenants.fill();
    let all = fs::read_to_string(&tenants.node.token).unwrap();
    let block = json!({"network": "192.0.2.1", "for": "1h", "site": "two"}).to_string();
    let whole = json!({"network": "192.0.2.2", "for": "1h"}).to_string();
    let ban = json!({"ban": "req.url ~ two", "site": "two"}).to_string();
    for (line, body) in
        [("POST /v1/blocks", &block), ("POST /v1/blocks", &whole), ("POST /v1/bans", &ban)]
    {
        let (status, said) = ask(tenants.node.admin, line, "localhost", all.trim(), body);
        assert_eq!(status, 200, "{said}");
    }
    let no_block = json!({"network": "192.0.2.2"});
    assert_eq!(tenants.admin("one", "POST /v1/blocks/remove", &no_block).0, 404);
    for path in ["/v1/bans", "/v1/sites", "/v1/maintenance", "/v1/blocks", "/v1/log", "/v1/origins"]
    {
        let (status, said) = tenants.admin("one", &format!("GET {path}"), &json!(null));
        assert_eq!(status, 200, "{path}: {said}");
        let said = said.to_string();
        assert!(!said.contains("two") && !said.contains("192.0.2"), "{path}: {said}");
    }
    let (_, said) = tenants.admin("one", "GET /v1/sites", &json!(null));
    let own = &said[0];
    assert_eq!((&own["site"], &own["hosts"]), (&json!("one"), &json!(["one.test"])), "{said}");
    assert!(own["served"]["requests"].as_u64() > Some(0), "{said}");
    let (status, said) =
        tenants.admin("one", "GET /v1/explain?url=http://one.test/news/1", &json!(null));
    assert_eq!((status, &said["stored"]), (200, &json!(true)), "{said}");
}

#[test]
fn what_no_site_has_for_itself_is_refused() {
    let tenants = Tenants::start();
    let (_, described) = tenants.admin("one", "GET /openapi.json", &json!(null));
    let paths = described["paths"].as_object().unwrap();
    let mut refused = 0;
    for (path, methods) in paths.iter().filter(|(path, _)| path.starts_with("/v1/")) {
        if OF_SITES.contains(&path.as_str()) {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            let line = format!("{} {path}", method.to_uppercase());
            let (status, said) = tenants.admin("one", &line, &json!({}));
            // What has to have a URL first says so.
            let wanted = if BY_URL.contains(&path.as_str()) { [400, 403] } else { [403, 403] };
            assert!(wanted.contains(&status), "{line}: {status} {said}");
            refused += 1;
        }
    }
    assert!(refused > 8, "{refused}");
}

#[test]
fn a_new_token_counts_after_a_reload_and_a_wrong_file_is_found_before() {
    let tenants = Tenants::start();
    let (folder, config) = (tenants.folder.path(), tenants.folder.path().join("sites.toml"));
    let log = |token: &str| ask(tenants.node.admin, "GET /v1/log", "localhost", token, "").0;
    assert_eq!((log(&token_of("one")), log("guess-guess-guess-guess")), (200, 401));
    write_token(folder, "one", "another-token-of-site-one");
    assert!(tenants.node.command(&["reload"]).status().unwrap().success());
    assert_eq!((log(&token_of("one")), log("another-token-of-site-one")), (401, 200));

    fs::set_permissions(folder.join("two.token"), fs::Permissions::from_mode(0o644)).unwrap();
    let mut check = freshet();
    let said = run(check.arg("check").arg(&config));
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(1), "{text}");
    assert!(
        text.contains("sites.toml:11") && text.contains("site `two`") && text.contains("chmod 600"),
        "{text}"
    );
    // A node that runs goes on, without it.
    assert_eq!(log(&token_of("two")), 200);
}

//! Sites that want certificates of their clients, over each protocol.

use crate::authority::{Authority, secure};
use crate::client::Client;
use crate::h3_client::H3Client;
use crate::h3_early::Sessions;
use crate::harness::{Setup, TestNode, run, until};
use crate::origin::{Origin, Request, fresh};
use freshet_config::Document;
use freshet_config::settings::Settings;
use freshet_net::tls::client::{ClientOptions, Identity, client_config};
use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

/// A node with sites `closed.test`, `half.test` and `open.test`, of which the first wants certificates
/// of an authority, and the second may have them.
struct World {
    server: Authority,
    clients: Authority,
    origin: Origin,
    /// Keys of `open.test`.
    of_open: String,
}

impl World {
    fn new() -> Self {
        let (server, clients) = (Authority::new(), Authority::new());
        for name in ["anna", "stranger"] {
            let issuer = if name == "anna" { &clients } else { &server };
            issuer.issue(name, &[&format!("{name}.example")]);
        }
        Self {
            server,
            clients,
            origin: Origin::serve(|_: &Request| fresh("inside")),
            of_open: String::new(),
        }
    }

    fn setup(&self, more: &str) -> Setup {
        let site = |name: &str, more: &str| {
            let url = self.origin.url();
            format!("[[site]]\nhosts = [\"{name}\"]\n{more}[[site.origin]]\nurl = \"{url}\"\n")
        };
        let ca = format!("client_ca = \"{}\"\n", self.clients.path("ca.pem").display());
        let optional = format!("{ca}client_certificates = \"optional\"\n");
        let mut setup = Setup::of(&self.origin);
        setup.origins = String::new();
        setup.listen.push_str("tls = true\n[[listen]]\naddress = \"127.0.0.1:0\"\n");
        let names = ["closed.test", "half.test", "open.test", "example.test"];
        setup
            .and(&self.server.issue("node", &names))
            .and(more)
            .and(&site("closed.test", &ca))
            .and(&site("half.test", &optional))
            .and(&site("open.test", &self.of_open))
    }

    fn client(&self, who: &str, alpn: &str) -> Arc<ClientConfig> {
        let issuer = if who == "anna" { &self.clients } else { &self.server };
        let identity = (!who.is_empty()).then(|| Identity {
            certificate: issuer.path(&format!("{who}.pem")),
            key: issuer.path(&format!("{who}.key")),
        });
        let alpn = vec![alpn.as_bytes().to_vec()];
        let ca = Some(self.server.path("ca.pem"));
        client_config(&ClientOptions { ca, identity, alpn, ..ClientOptions::default() }).unwrap()
    }
}

/// The status of a request for a host, over a connection for a name.
async fn ask(node: &TestNode, config: &Arc<ClientConfig>, name: &str, host: &str) -> u16 {
    let stream = secure(node.address(), config, name).await.unwrap();
    if stream.alpn() == Some(b"h2") {
        let mut client = crate::h2::over(stream, h2::client::Builder::new()).await;
        let asked = http::Request::get(format!("https://{host}/")).body(()).unwrap();
        std::future::poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        return client.send_request(asked, true).unwrap().0.await.unwrap().status().as_u16();
    }
    let mut client = Client::over(stream);
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
    client.answer("GET").await.status
}

#[test]
fn a_site_lets_in_whom_its_authority_has_signed() {
    run(async {
        let world = World::new();
        let node = world.setup("").start();
        for alpn in ["http/1.1", "h2"] {
            for (who, closed, half, open) in
                [("anna", 200, 200, 200), ("", 403, 200, 200), ("stranger", 403, 403, 200)]
            {
                // Once more with a session that is resumed.
                let config = world.client(who, alpn);
                for _ in 0..2 {
                    assert_eq!(ask(&node, &config, "closed.test", "closed.test").await, closed);
                    assert_eq!(ask(&node, &config, "half.test", "half.test").await, half);
                    assert_eq!(ask(&node, &config, "open.test", "open.test").await, open);
                }
            }
        }
        assert!(node.count("tls_resumed") > 0);
        assert_eq!(node.count("requests_without_certificate"), 12);
        // In the clear nobody shows anything.
        let clear = node.node.socket_addresses()[1];
        for (host, status) in [("closed.test", 403), ("half.test", 200), ("open.test", 200)] {
            let mut client = Client::connect(clear).await;
            client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            assert_eq!(client.answer("GET").await.status, status, "{host}");
        }
    });
}

#[test]
fn a_connection_for_another_site_is_misdirected() {
    run(async {
        let world = World::new();
        let node = world.setup("").start();
        for alpn in ["http/1.1", "h2"] {
            let config = world.client("anna", alpn);
            for (name, host, status) in [
                ("open.test", "closed.test", 421),
                ("open.test", "half.test", 421),
                ("half.test", "closed.test", 421),
                ("closed.test", "half.test", 421),
                // Of no site.
                ("example.test", "closed.test", 421),
                // The other way round there is nothing to prove.
                ("closed.test", "open.test", 200),
            ] {
                assert_eq!(ask(&node, &config, name, host).await, status, "{name} {host}");
            }
        }
        assert_eq!(world.origin.count(), 1);
    });
}

#[test]
fn over_quic_it_is_the_same() {
    run(async {
        let world = World::new();
        let node = world.setup("").start();
        for (who, name, host, status) in [
            ("anna", "closed.test", "closed.test", 200),
            ("", "closed.test", "closed.test", 403),
            ("stranger", "closed.test", "closed.test", 403),
            ("", "half.test", "half.test", 200),
            ("anna", "open.test", "closed.test", 421),
            ("anna", "closed.test", "open.test", 200),
        ] {
            let config = world.client(who, "h3");
            let mut client = H3Client::connect_as(node.address(), config, name).await;
            let answer = client.get_of(host, "/").await;
            assert_eq!(answer.status, status, "{who} {name} {host}");
        }
    });
}

#[test]
fn logs_and_policies_know_what_was_proved() {
    run(async {
        let world = World::new();
        let log = tempfile::NamedTempFile::new().unwrap();
        let table = format!("[log]\naccess = \"{}\"\n", log.path().display());
        let node = world.setup(&table).start();
        for (who, name) in
            [("anna", "closed.test"), ("stranger", "half.test"), ("anna", "open.test")]
        {
            ask(&node, &world.client(who, "http/1.1"), name, name).await;
        }
        let text = || std::fs::read_to_string(log.path()).unwrap();
        until(|| text().lines().count() == 3).await;
        let text = text();
        let lines: Vec<_> = text.lines().collect();
        let anna = lines.iter().find(|line| line.contains("\"host\":\"closed.test\"")).unwrap();
        for part in [
            "\"client_name\":\"anna.example\"",
            "\"client_subject\":\"CN=anna\"",
            "\"client_issuer\":\"CN=Test authority\"",
            "\"client_serial\":\"",
            "\"client_fingerprint\":\"",
        ] {
            assert!(anna.contains(part), "{part}: {anna}");
        }
        assert_eq!(text.matches("client_").count(), 5, "{text}");
        assert!(text.contains("\"reason\":\"certificate-wrong\""), "{text}");
        // A policy of a site of its own.
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.vcl");
        let backend = crate::vcl::backend("origin", &world.origin);
        let program = "import tls; sub vcl_deliver { set resp.http.Who = tls.client_subject(); \
                       set resp.http.Ok = tls.client_verified(); }";
        std::fs::write(&policy, format!("vcl 4.1;\n{backend}{program}")).unwrap();
        let mut setup = Setup::of(&world.origin);
        setup.origins = String::new();
        let ca = world.clients.path("ca.pem");
        setup.listen = format!(
            "vcl = \"{}\"\nclient_ca = \"{}\"\nclient_certificates = \"optional\"\n{}tls = true\n",
            policy.display(),
            ca.display(),
            setup.listen
        );
        let node = setup.and(&world.server.issue("node", &["example.test"])).start();
        for (who, is, ok) in [("anna", "CN=anna", "true"), ("", "", "false")] {
            let config = world.client(who, "http/1.1");
            let stream = secure(node.address(), &config, "example.test").await.unwrap();
            let answer = Client::over(stream).get("/").await;
            assert_eq!((answer.field("who"), answer.field("ok")), (Some(is), Some(ok)));
        }
    });
}

#[test]
fn a_reload_changes_whom_a_site_lets_in_on_open_connections_too() {
    run(async {
        let world = World::new();
        let setup = world.setup("");
        let node = setup.start();
        let config = world.client("anna", "http/1.1");
        let stream = secure(node.address(), &config, "closed.test").await.unwrap();
        let mut client = Client::over(stream);
        let request = "GET / HTTP/1.1\r\nHost: closed.test\r\n\r\n";
        client.send(request).await;
        assert_eq!(client.answer("GET").await.status, 200);
        // Another authority under the same name.
        let ca = world.clients.path("ca.pem");
        let before = std::fs::read(&ca).unwrap();
        std::fs::copy(world.server.path("ca.pem"), &ca).unwrap();
        node.node.reload(setup.settings()).unwrap();
        while {
            client.send(request).await;
            client.answer("GET").await.status == 200
        } {}
        std::fs::write(&ca, "nonsense").unwrap();
        // A site that cannot be made stays as it was, and the log says so.
        node.node.reload(setup.settings()).unwrap();
        client.send(request).await;
        assert_eq!(client.answer("GET").await.status, 403);
        std::fs::write(&ca, before).unwrap();
        node.node.reload(setup.settings()).unwrap();
        while {
            client.send(request).await;
            client.answer("GET").await.status == 403
        } {}
    });
}

#[test]
fn who_is_asked_anew_may_show_another_certificate() {
    run(async {
        let mut world = World::new();
        // Each worker hears of a reload in its time.
        let of_one_worker = |world: &World| Setup { workers: 1, ..world.setup("") };
        let before = of_one_worker(&world);
        let table = format!("client_ca = \"{}\"\n", world.clients.path("ca.pem").display());
        world.of_open = table;
        let node = before.start();
        let after = of_one_worker(&world);
        for (turn, alpn) in ["http/1.1", "h2"].into_iter().enumerate() {
            // Its sessions are of before the site asked.
            node.node.reload(before.settings()).unwrap();
            while ask(&node, &world.client("", alpn), "open.test", "open.test").await != 200 {}
            let client = world.client("anna", alpn);
            assert_eq!(ask(&node, &client, "open.test", "open.test").await, 200);
            let resumed = node.count("tls_resumed");
            assert_eq!(ask(&node, &client, "open.test", "open.test").await, 200);
            assert_eq!(node.count("tls_resumed"), resumed + 1, "{turn}");
            let stream = secure(node.address(), &world.client("", "http/1.1"), "open.test").await;
            let mut live = Client::over(stream.unwrap());
            // The node has ended its handshake too before the site asks.
            live.send("GET / HTTP/1.1\r\nHost: open.test\r\n\r\n").await;
            assert_eq!(live.answer("GET").await.status, 200);
            node.node.reload(after.settings()).unwrap();
            // The connection of before was not asked.
            while {
                live.send("GET / HTTP/1.1\r\nHost: open.test\r\n\r\n").await;
                live.answer("GET").await.status == 200
            } {}
            live.send("GET / HTTP/1.1\r\nHost: open.test\r\n\r\n").await;
            assert_eq!(live.answer("GET").await.status, 421);
            let resumed = node.count("tls_resumed");
            assert_eq!(ask(&node, &client, "open.test", "open.test").await, 200);
            assert_eq!(node.count("tls_resumed"), resumed, "{turn}");
            assert_eq!(ask(&node, &client, "open.test", "open.test").await, 200);
            assert_eq!(node.count("tls_resumed"), resumed + 1, "{turn}");
        }
        // Who was refused has no session that is continued.
        let client = world.client("stranger", "http/1.1");
        let resumed = node.count("tls_resumed");
        for _ in 0..2 {
            assert_eq!(ask(&node, &client, "open.test", "open.test").await, 403);
        }
        assert_eq!(node.count("tls_resumed"), resumed);
    });
}

#[test]
fn over_quic_too_who_is_asked_anew_may_show_another_certificate() {
    run(async {
        for more in ["", "early_data = true\n"] {
            let mut world = World::new();
            let setup = |world: &World| {
                let mut setup = Setup { workers: 1, ..world.setup("") };
                setup.listen =
                    setup.listen.replacen("tls = true\n", &format!("tls = true\n{more}"), 1);
                setup
            };
            let node = setup(&world).start();
            let sessions = Arc::new(Sessions::default());
            let mut tls = ClientConfig::clone(&world.client("anna", "h3"));
            tls.resumption = Resumption::store(sessions.clone());
            let tls = Arc::new(tls);
            // The status, and how many sessions were continued since the start.
            let comes = async || {
                let mut client =
                    H3Client::connect_as(node.address(), tls.clone(), "open.test").await;
                let status = client.get_of("open.test", "/").await.status;
                client.until(|_| !sessions.are_empty()).await;
                (status, node.count("tls_resumed"))
            };
            assert_eq!([comes().await, comes().await], [(200, 0), (200, 1)], "{more}");
            let mut live =
                H3Client::connect_as(node.address(), world.client("", "h3"), "open.test").await;
            assert_eq!(live.get_of("open.test", "/").await.status, 200);
            world.of_open = format!("client_ca = \"{}\"\n", world.clients.path("ca.pem").display());
            node.node.reload(setup(&world).settings()).unwrap();
            // The connection of before was not asked.
            while live.get_of("open.test", "/").await.status == 200 {}
            assert_eq!(live.get_of("open.test", "/").await.status, 421, "{more}");
            // Nor was the session of before.
            assert_eq!([comes().await, comes().await], [(200, 1), (200, 2)], "{more}");
        }
    });
}

/// A connection of HTTP/1.1 over TLS, whose client says the last of its handshake when it is told to.
struct Unfinished {
    socket: TcpStream,
    tls: ClientConnection,
}

impl Unfinished {
    fn start(node: &TestNode, config: &Arc<ClientConfig>) -> Self {
        let mut socket = TcpStream::connect(node.address()).unwrap();
        let mut tls =
            ClientConnection::new(config.clone(), "open.test".try_into().unwrap()).unwrap();
        while tls.is_handshaking() {
            while tls.wants_write() {
                tls.write_tls(&mut socket).unwrap();
            }
            tls.read_tls(&mut socket).unwrap();
            tls.process_new_packets().unwrap();
        }
        assert!(tls.wants_write());
        Self { socket, tls }
    }

    /// The status of a request.
    fn finish(mut self) -> u16 {
        let mut stream = rustls::Stream::new(&mut self.tls, &mut self.socket);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n").unwrap();
        let mut head = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut head).unwrap();
        str::from_utf8(&head["HTTP/1.1 ".len()..]).unwrap().parse().unwrap()
    }
}

#[test]
fn who_was_not_asked_at_its_hello_comes_anew_whatever_is_asked_when_its_handshake_ends() {
    run(async {
        for wants in ["required", "optional"] {
            let mut world = World::new();
            let setup = |world: &World| Setup { workers: 1, ..world.setup("") };
            let node = setup(&world).start();
            let (tcp, quic) = (world.client("anna", "http/1.1"), world.client("anna", "h3"));
            let over_tcp = Unfinished::start(&node, &tcp);
            let mut over_quic =
                H3Client::start_unfinished(node.address(), quic.clone(), "open.test").await;
            world.of_open = format!(
                "client_ca = \"{}\"\nclient_certificates = \"{wants}\"\n",
                world.clients.path("ca.pem").display()
            );
            node.node.reload(setup(&world).settings()).unwrap();
            let stranger = world.client("stranger", "http/1.1");
            while ask(&node, &stranger, "open.test", "open.test").await == 200 {}
            assert_eq!(over_tcp.finish(), 421, "{wants}");
            over_quic.finish_handshake().await;
            assert_eq!(over_quic.get_of("open.test", "/").await.status, 421, "{wants}");
            // Their sessions are of clients who were not asked, and are not continued.
            assert_eq!(ask(&node, &tcp, "open.test", "open.test").await, 200, "{wants}");
            let mut again = H3Client::connect_as(node.address(), quic, "open.test").await;
            assert_eq!(again.get_of("open.test", "/").await.status, 200, "{wants}");
            assert_eq!(node.count("tls_resumed"), 0, "{wants}");
        }
    });
}

#[test]
fn what_cannot_be_is_refused() {
    let base = "[[origin]]\nurl = \"http://a\"\n";
    let tls = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n";
    let clear = Document::parse(&format!("client_ca = \"a\"\n{base}")).unwrap();
    let wrong = Settings::from_document(&clear).unwrap_err();
    assert!(wrong[0].message.contains("no [[listen]] has `tls = true`"), "{wrong:?}");
    let required = "client_certificates = \"required\"\n";
    let site = "[[site]]\nhosts = [\"a.test\"]\n";
    for text in [
        format!("{required}{tls}{base}"),
        format!("{tls}{required}{base}"),
        format!("{tls}{base}{site}{required}"),
    ] {
        let wrong = Settings::from_document(&Document::parse(&text).unwrap()).unwrap_err();
        assert!(wrong[0].message.contains("nobody would be asked"), "{text}: {wrong:?}");
        assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
    }
    let missing = Document::parse(&format!("client_ca = \"/none\"\n{tls}{base}")).unwrap();
    let settings = Settings::from_document(&missing).unwrap();
    let wrong = freshet_node::preflight::Prepared::new(settings, None).err().unwrap();
    assert!(wrong[0].message.starts_with("client_ca: /none: No such file"), "{wrong:?}");
    assert!(wrong[0].place.span().is_some());
}

#[test]
fn a_certificate_of_version_1_is_refused_with_an_answer() {
    run(async {
        let world = World::new();
        let node = world.setup("").start();
        let at = |file: &str| world.clients.path(file).display().to_string();
        let of = async |program: &'static str, arguments: String| {
            let arguments: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
            let run = move || Command::new(program).args(arguments).output();
            let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let (key, request, made) = (at("old.key"), at("old.csr"), at("old.pem"));
        let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=old";
        of("openssl", format!("req {curve} -keyout {key} -out {request}")).await;
        of("openssl", format!("x509 -req -in {request} -signkey {key} -out {made}")).await;
        let port = node.address().port();
        for (name, status) in [("closed.test", "403"), ("half.test", "403"), ("open.test", "200")] {
            for version in ["--tls-max 1.2", "--tlsv1.3"] {
                let arguments = format!(
                    "-sk --http1.1 {version} --cert {made} --key {key} -o /dev/null -w %{{http_code}} \
                     --resolve {name}:{port}:127.0.0.1 https://{name}:{port}/"
                );
                assert_eq!(of("curl", arguments).await, status, "{name} {version}");
            }
        }
    });
}

#[test]
fn a_certificate_that_signs_itself_is_let_in_where_it_is_named() {
    run(async {
        let world = World::new();
        let at = |file: &str| world.clients.path(file).display().to_string();
        let made = |name: &str, more: &str| {
            let (key, to) = (at(&format!("{name}.key")), at(&format!("{name}.pem")));
            let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
            let words =
                format!("req -x509 {curve} -subj /CN={name} -keyout {key} -out {to} {more}");
            let output = Command::new("openssl").args(words.split_whitespace()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        made("self", "-days 30");
        made("other", "-days 30");
        let names = std::fs::read_to_string(at("ca.pem")).unwrap()
            + &std::fs::read_to_string(at("self.pem")).unwrap();
        std::fs::write(at("ca.pem"), names).unwrap();
        let node = world.setup("").start();
        let client = |who: &str| {
            let identity = Some(Identity {
                certificate: world.clients.path(&format!("{who}.pem")),
                key: world.clients.path(&format!("{who}.key")),
            });
            let alpn = vec![b"http/1.1".to_vec()];
            let ca = Some(world.server.path("ca.pem"));
            client_config(&ClientOptions { ca, identity, alpn, ..ClientOptions::default() })
                .unwrap()
        };
        for (who, status) in [("self", 200), ("other", 403), ("anna", 200)] {
            assert_eq!(
                ask(&node, &client(who), "closed.test", "closed.test").await,
                status,
                "{who}"
            );
        }
    });
}

//! Clients nobody here wrote: `openssl s_client` and curl. Skipped where they are not installed.

use crate::common::*;
use crate::skip;
use freshet_net::listener::Listener;
use freshet_net::stream::Stream;
use freshet_net::tls;
use freshet_net::tls::server::ServerOptions;
use freshet_net::tls::ticket::{ROTATION, TicketKeys};
use rustls::ServerConfig;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tokio::task::{spawn_blocking, spawn_local};

const CIPHERS: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
const CIPHERS_12: [&str; 3] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
];

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    let found = command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip::missing(program);
    }
    found
}

/// `openssl s_client` against `listener`.
fn s_client(listener: &Listener, authority: &Authority) -> Command {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &listener.local_address().to_string()])
        .args(["-servername", "localhost", "-verify_return_error", "-CAfile"])
        .arg(authority.ca());
    command
}

/// Starts a program and gives it its input.
fn start(command: &mut Command, input: &[u8]) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(input).unwrap();
    child
}

async fn accept(listener: &Listener, config: &Arc<ServerConfig>) -> Stream {
    let (socket, _) = listener.accept().await.unwrap();
    tls::server::accept(socket, config, LIMIT).await.unwrap()
}

/// Waits for the program away from the runtime's thread.
async fn output(child: Child) -> Output {
    spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn openssl_gets_a_large_body_and_a_clean_end_in_both_versions() {
    if !is_installed("openssl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let body: Vec<u8> = b"0123456789abcde\n".repeat(70_000);
        for version in ["-tls1_2", "-tls1_3"] {
            let listener = loopback();
            let mut command = s_client(&listener, &authority);
            command.args([version, "-alpn", "http/1.1", "-quiet", "-ign_eof"]);
            let child = start(
                &mut command,
                b"please
",
            );
            let waiting = spawn_local(output(child));
            let mut server = accept(&listener, &config).await;
            assert_eq!(server.alpn(), Some(tls::ALPN_HTTP_1_1));
            assert_eq!(read_exactly(&mut server, 7, 7).await, b"please\n");
            server.write(&body).await.unwrap();
            server.shutdown().await.unwrap();
            let output = waiting.await.unwrap();
            assert!(output.stdout == body, "{version}: {} bytes", output.stdout.len());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
}

#[test]
fn openssl_resumes_with_our_tickets() {
    if !is_installed("openssl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let tickets = Some(TicketKeys::random(ROTATION));
        let config = localhost(&authority, &ServerOptions { tickets, ..ServerOptions::default() });
        let session = authority.directory.path().join("session");
        let session = session.to_str().unwrap();
        for version in ["-tls1_2", "-tls1_3"] {
            for (argument, verdict) in [("-sess_out", "New, TLSv1"), ("-sess_in", "Reused, TLSv1")]
            {
                let listener = loopback();
                let mut command = s_client(&listener, &authority);
                command.args([version, argument, session, "-ign_eof"]);
                let child = start(&mut command, b"?");
                let waiting = spawn_local(output(child));
                let mut server = accept(&listener, &config).await;
                read_exactly(&mut server, 1, 1).await;
                server.write(b"!").await.unwrap();
                server.shutdown().await.unwrap();
                let output = waiting.await.unwrap();
                assert!(text(&output).contains(verdict), "{version}: {}", text(&output));
                assert_eq!(server.tls_info().unwrap().resumed, argument == "-sess_in");
            }
        }
    });
}

#[test]
fn a_name_that_is_none_gets_the_default_certificate() {
    if !is_installed("openssl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let tickets = Some(TicketKeys::random(ROTATION));
        let config = localhost(&authority, &ServerOptions { tickets, ..ServerOptions::default() });
        let session = authority.directory.path().join("session");
        let session = session.to_str().unwrap();
        let long = "a b".repeat(80);
        // A group that we do not have makes the server ask for another hello.
        let groups = ["X25519:P-256", "P-521:P-256"];
        for name in ["localhost:8443", "a b", "-", "*.test", "_", "localhost..", &long] {
            for (version, groups) in
                [("-tls1_2", groups[0]), ("-tls1_3", groups[0]), ("-tls1_3", groups[1])]
            {
                for argument in ["-sess_out", "-sess_in"] {
                    let listener = loopback();
                    let mut command = Command::new("openssl");
                    command
                        .args(["s_client", "-connect", &listener.local_address().to_string()])
                        .args(["-servername", name, "-groups", groups, version])
                        .args(["-verify_return_error", "-CAfile"])
                        .arg(authority.ca())
                        .args([argument, session, "-ign_eof"]);
                    let waiting = spawn_local(output(start(&mut command, b"?")));
                    let (socket, _) = listener.accept().await.unwrap();
                    let served = tls::server::accept(socket, &config, LIMIT).await;
                    let mut server =
                        served.unwrap_or_else(|error| panic!("{name} {version} {groups}: {error}"));
                    read_exactly(&mut server, 1, 1).await;
                    server.write(b"!").await.unwrap();
                    server.shutdown().await.unwrap();
                    let output = waiting.await.unwrap();
                    assert!(output.status.success(), "{name} {version}: {}", text(&output));
                    let info = server.tls_info().unwrap();
                    assert_eq!(info.resumed, argument == "-sess_in", "{name} {version} {groups}");
                    assert!(name == "_" || name == "localhost.." || info.sni.is_none(), "{info:?}");
                }
            }
        }
    });
}

#[test]
fn openssl_downloads_with_every_cipher_while_our_keys_change() {
    if !is_installed("openssl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let body: Vec<u8> = b"0123456789abcde\n".repeat(100_000);
        let versions = [("-tls1_3", "-ciphersuites", CIPHERS), ("-tls1_2", "-cipher", CIPHERS_12)];
        for (version, option, ciphers) in versions {
            for cipher in ciphers {
                let listener = loopback();
                let mut command = s_client(&listener, &authority);
                command.args([version, option, cipher, "-quiet", "-ign_eof"]);
                let waiting = spawn_local(output(start(&mut command, b"please\n")));
                let mut server = accept(&listener, &config).await;
                if version == "-tls1_3" {
                    server.limit_records_per_key(8);
                }
                assert_eq!(read_exactly(&mut server, 7, 7).await, b"please\n");
                server.write(&body).await.unwrap();
                server.shutdown().await.unwrap();
                let output = waiting.await.unwrap();
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.stdout == body, "{cipher}: {} bytes", output.stdout.len());
                assert!(output.status.success(), "{cipher}: {error}");
            }
        }
    });
}

#[test]
fn curl_downloads_and_uploads_while_our_keys_change() {
    if !is_installed("curl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let body = pattern(2_000_000);
        let upload = authority.directory.path().join("upload");
        std::fs::write(&upload, &body).unwrap();
        for version in ["1.2", "1.3"] {
            let listener = loopback();
            let port = listener.local_address().to_string();
            let port = port.rsplit(':').next().unwrap();
            let mut command = Command::new("curl");
            command
                .args(["-sS", "--http1.1", &format!("--tlsv{version}"), "--tls-max", version])
                .args(["-H", "Expect:", "--data-binary"])
                .arg(format!("@{}", upload.display()))
                .arg("--cacert")
                .arg(authority.ca())
                .args(["--connect-to", &format!("localhost:443:127.0.0.1:{port}")])
                .arg("https://localhost/");
            let waiting = spawn_local(output(start(&mut command, b"")));
            let mut server = accept(&listener, &config).await;
            if version == "1.3" {
                server.limit_records_per_key(8);
            }
            let mut request = Vec::new();
            let head_bytes = loop {
                let mut buffer = vec![0; 20_000];
                let count = server.read(&mut buffer).await.unwrap();
                assert!(count > 0, "curl left");
                request.extend_from_slice(&buffer[..count]);
                if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end + 4;
                }
            };
            let missing = head_bytes + body.len() - request.len();
            request.extend(read_exactly(&mut server, missing, 50_000).await);
            assert!(request[head_bytes..] == body, "the upload, TLS {version}");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            server.write(head.as_bytes()).await.unwrap();
            server.write(&body).await.unwrap();
            server.shutdown().await.unwrap();
            let output = waiting.await.unwrap();
            assert!(output.stdout == body, "{} bytes, TLS {version}", output.stdout.len());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
}

#[test]
fn openssl_may_change_keys_in_the_middle_and_ask_for_ours() {
    if !is_installed("openssl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let listener = loopback();
        let mut command = s_client(&listener, &authority);
        let mut child = start(command.arg("-tls1_3"), b"");
        let mut input = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let waiting = spawn_local(output(child));
        let mut server = accept(&listener, &config).await;
        for round in 0..4 {
            // `k` changes the client's key, `K` asks for ours as well (RFC 8446 §4.6.3). It is a
            // command only at the start of what the program reads at once, so wait for it to be
            // understood.
            let command: &[u8] = if round % 2 == 0 { b"k\n" } else { b"K\n" };
            input.write_all(command).unwrap();
            let understood = move || {
                assert!(said.any(|line| line.unwrap().contains("KEYUPDATE")));
                said
            };
            said = spawn_blocking(understood).await.unwrap();
            input.write_all(format!("line {round}\n").as_bytes()).unwrap();
            assert_eq!(read_exactly(&mut server, 7, 7).await, format!("line {round}\n").as_bytes());
            server.write(format!("answer {round}\n").as_bytes()).await.unwrap();
        }
        server.shutdown().await.unwrap();
        drop(input);
        let output = waiting.await.unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("answer 3"));
    });
}

#[test]
fn openssl_that_wants_to_renegotiate_is_declined() {
    if !is_installed("openssl") {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let listener = loopback();
        let mut command = s_client(&listener, &authority);
        let mut child = start(command.args(["-tls1_2", "-legacy_renegotiation"]), b"");
        let mut input = child.stdin.take().unwrap();
        let waiting = spawn_local(output(child));
        let mut server = accept(&listener, &config).await;
        // `R` renegotiates. Whether the client then gives up or goes on, no second handshake runs.
        input.write_all(b"R\n").unwrap();
        let mut buffer = [0; 100];
        let read = server.read(&mut buffer).await;
        assert!(!matches!(read, Ok(1..)), "{read:?}");
        drop((input, server));
        let output = waiting.await.unwrap();
        let all = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&all);
        assert!(text.contains("no renegotiation"), "{text}");
    });
}

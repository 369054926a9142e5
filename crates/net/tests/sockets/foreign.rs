//! `openssl s_client` as a client nobody here wrote. Skipped where it is not installed.

use crate::common::*;
use freshet_net::listener::Listener;
use freshet_net::stream::Stream;
use freshet_net::tls;
use freshet_net::tls::server::ServerOptions;
use freshet_net::tls::ticket::{ROTATION, TicketKeys};
use rustls::ServerConfig;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

fn is_installed() -> bool {
    Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_ok()
}

/// Starts `openssl s_client` against `listener` and gives it its input.
fn start(listener: &Listener, authority: &Authority, arguments: &[&str], input: &[u8]) -> Child {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &listener.local_address().to_string()])
        .args(["-servername", "localhost", "-verify_return_error", "-ign_eof"])
        .arg("-CAfile")
        .arg(authority.ca())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(input).unwrap();
    child
}

async fn accept(listener: &Listener, config: &Arc<ServerConfig>) -> Stream {
    let (socket, _) = listener.accept().await.unwrap();
    tls::server::accept(socket, config, LIMIT).await.unwrap()
}

/// Waits for the program away from the runtime's thread.
async fn output(child: Child) -> Output {
    tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn openssl_gets_a_large_body_and_a_clean_end_in_both_versions() {
    if !is_installed() {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let body: Vec<u8> = b"0123456789abcde\n".repeat(70_000);
        for version in ["-tls1_2", "-tls1_3"] {
            let listener = loopback();
            let arguments = [version, "-alpn", "http/1.1", "-quiet"];
            let child = start(&listener, &authority, &arguments, b"please\n");
            let waiting = tokio::task::spawn_local(output(child));
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
    if !is_installed() {
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
                let child = start(&listener, &authority, &[version, argument, session], b"?");
                let waiting = tokio::task::spawn_local(output(child));
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
fn openssl_may_change_keys_in_the_middle() {
    if !is_installed() {
        return;
    }
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let listener = loopback();
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", &listener.local_address().to_string(), "-tls1_3"])
            .arg("-CAfile")
            .arg(authority.ca())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let waiting = tokio::task::spawn_local(output(child));
        let mut server = accept(&listener, &config).await;
        for round in 0..3 {
            // `K` asks us to change our keys as well (RFC 8446 §4.6.3). It is a command only at the
            // start of what the program reads at once, so wait for it to be understood.
            input.write_all(b"K\n").unwrap();
            let understood = move || {
                assert!(said.any(|line| line.unwrap().contains("KEYUPDATE")));
                said
            };
            said = tokio::task::spawn_blocking(understood).await.unwrap();
            input.write_all(format!("line {round}\n").as_bytes()).unwrap();
            assert_eq!(read_exactly(&mut server, 7, 7).await, format!("line {round}\n").as_bytes());
            server.write(format!("answer {round}\n").as_bytes()).await.unwrap();
        }
        server.shutdown().await.unwrap();
        drop(input);
        let output = waiting.await.unwrap();
        assert!(text(&output).contains("answer 2"), "{}", text(&output));
    });
}

//! The moment between the handshake of rustls and records of our own.

use super::puppet::{Puppet, open_client};
use crate::common::*;
use freshet_net::stream::Stream;
use freshet_net::tls::server::{self, ServerOptions};
use freshet_net::tls::ticket::{ROTATION, TicketKeys};
use freshet_wire::tls::ContentType;
use rustls::client::Resumption;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, ServerConfig};
use std::io::{Read, Write};
use std::sync::Arc;

/// Runs a handshake whose client has its request ready, so that under TLS 1.3 `Finished` and the
/// request are one flight. Every flight but the hello goes in pieces that end where `cut` says for
/// its length; the server reads between any two. Checks that the request arrives and an answer
/// comes back. Returns the length of the longest flight that was cut.
async fn flights_cut(
    client: &Arc<ClientConfig>,
    config: &Arc<ServerConfig>,
    cut: impl Fn(usize) -> Vec<usize>,
) -> usize {
    let (connecting, accepted) = sockets().await;
    let mut wire = Stream::from(connecting);
    let name = "localhost".try_into().unwrap();
    let mut connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    connection.writer().write_all(b"request").unwrap();
    let asking = async {
        let (mut is_hello, mut longest) = (true, 0);
        let mut answer = Vec::new();
        while answer.len() < 6 {
            let mut flight = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut flight).unwrap();
            }
            let ends = if is_hello || flight.is_empty() { Vec::new() } else { cut(flight.len()) };
            if !is_hello {
                longest = longest.max(flight.len());
            }
            is_hello = false;
            send_cut(&mut wire, &flight, &ends).await;
            let mut buffer = [0; 8192];
            let count = wire.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the server left");
            let mut input = &buffer[..count];
            while !input.is_empty() {
                connection.read_tls(&mut input).unwrap();
                connection.process_new_packets().unwrap();
            }
            let _ = connection.reader().read_to_end(&mut answer);
        }
        assert_eq!(answer, b"answer");
        longest
    };
    let serving = async {
        let mut stream = server::accept(accepted, config, LIMIT).await.unwrap();
        assert_eq!(read_exactly(&mut stream, 7, 100).await, b"request");
        stream.write(b"answer").await.unwrap();
        stream
    };
    tokio::join!(asking, serving).0
}

/// Sends `bytes` in pieces that end at `ends` and lets the server see each by itself.
async fn send_cut(wire: &mut Stream, bytes: &[u8], ends: &[usize]) {
    let mut start = 0;
    for &end in ends.iter().chain([&bytes.len()]) {
        wire.write(&bytes[start..end]).await.unwrap();
        start = end;
        // The server's task runs, reads what is there and waits again.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
}

/// Clients of both versions, a server that gives tickets and one that does not. Each handshake is a
/// full one: the clients remember nothing.
fn configs() -> (Authority, [Arc<ClientConfig>; 2], [Arc<ServerConfig>; 2]) {
    let authority = Authority::new();
    let clients = [&TLS12, &TLS13].map(|version| {
        let mut client = ClientConfig::clone(&authority.client_of(version));
        client.resumption = Resumption::disabled();
        Arc::new(client)
    });
    let servers = [None, Some(TicketKeys::random(ROTATION))].map(|tickets| {
        localhost(&authority, &ServerOptions { tickets, ..ServerOptions::default() })
    });
    (authority, clients, servers)
}

#[test]
fn finished_and_request_in_one_segment() {
    run(async {
        let (_authority, clients, servers) = configs();
        for client in &clients {
            for server in &servers {
                flights_cut(client, server, |_| Vec::new()).await;
            }
        }
    });
}

#[test]
fn finished_and_request_byte_by_byte() {
    run(async {
        let (_authority, clients, servers) = configs();
        for client in &clients {
            for server in &servers {
                flights_cut(client, server, |bytes| (1..bytes).collect()).await;
            }
        }
    });
}

#[test]
fn finished_and_request_split_at_every_offset() {
    run(async {
        let (_authority, clients, servers) = configs();
        for client in &clients {
            for server in &servers {
                let longest = flights_cut(client, server, |_| Vec::new()).await;
                for offset in 1..longest {
                    flights_cut(client, server, |bytes| vec![offset.min(bytes - 1)]).await;
                }
            }
        }
    });
}

#[test]
fn tickets_leave_before_the_first_answer_and_count() {
    run(async {
        let authority = Authority::new();
        let tickets = Some(TicketKeys::random(ROTATION));
        let config = localhost(&authority, &ServerOptions { tickets, ..ServerOptions::default() });
        let client = authority.client_of(&TLS13);
        for round in 0..3 {
            let (mut connecting, mut accepted) = tls_pair(&client, &config).await;
            connecting.write(b"?").await.unwrap();
            read_exactly(&mut accepted, 1, 1).await;
            // The tickets were records 0 and 1 of this key; the answer has to be the next one.
            accepted.write(b"answer").await.unwrap();
            assert_eq!(read_exactly(&mut connecting, 6, 6).await, b"answer");
            assert_eq!(accepted.tls_info().unwrap().resumed, round > 0);
        }
    });
}

#[test]
fn what_was_agreed_is_known_after_the_handover_too() {
    run(async {
        let (authority, _, [config, _]) = configs();
        let client = open_client(&authority, &TLS13);
        let (_puppet, stream) = Puppet::pair(&client, &config).await;
        let info = stream.tls_info().unwrap();
        assert_eq!((info.version, info.sni.as_deref()), ("TLSv1.3", Some("localhost")));
        assert!(stream.is_tls() && !stream.is_worn());
    });
}

#[test]
fn a_client_hello_that_never_ends_is_refused_with_bounded_memory() {
    run(async {
        let (_authority, _, [config, _]) = configs();
        let (connecting, accepted) = sockets().await;
        let mut wire = Stream::from(connecting);
        // A hello that promises 16 MB, in records of one byte each.
        let flood = async {
            let mut records = vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff];
            for _ in 0..40_000 {
                records.extend_from_slice(&[22, 3, 1, 0, 1, 0]);
            }
            let _ = wire.write(&records).await;
            wire
        };
        let (accepted, _wire) = tokio::join!(server::accept(accepted, &config, LIMIT), flood);
        accepted.unwrap_err();
    });
}

#[test]
fn the_smallest_and_the_largest_first_requests_arrive() {
    run(async {
        let (authority, _, [config, _]) = configs();
        let client = open_client(&authority, &TLS13);
        for bytes in [1, 4096, 16_384] {
            let (mut puppet, mut stream) = Puppet::pair(&client, &config).await;
            let request = pattern(bytes);
            let (_, got) = tokio::join!(
                puppet.send(ContentType::ApplicationData, &request),
                read_exactly(&mut stream, bytes, 1 << 20)
            );
            assert!(got == request);
        }
    });
}

//! The PROXY protocol on accepted connections.

use crate::common::*;
use freshet_net::address::PeerAddress;
use freshet_net::error::NetError;
use freshet_net::limits::PROXY_HEADER_BYTES_MAX;
use freshet_net::proxy::{Client, SPECIFIED, identify};
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls;
use freshet_net::tls::server::ServerOptions;
use freshet_net::trust::TrustedPeers;
use std::time::Duration;

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\n";

fn v2(command: u8) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, 0x21, 0, 36]);
    header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    header.extend([0x1f, 0x90, 1, 0xbb]);
    header
}

fn trusted() -> TrustedPeers {
    TrustedPeers { networks: vec!["127.0.0.0/8".parse().unwrap()] }
}

fn peer(socket: &Socket) -> PeerAddress {
    socket.peer_address().unwrap()
}

async fn identified(socket: &Socket) -> Result<Client, NetError> {
    identify(socket, peer(socket), &trusted(), SPECIFIED, LIMIT).await
}

#[test]
fn both_versions_name_the_client_and_leave_what_follows() {
    run(async {
        let v2 = v2(1);
        let cases = [
            (V1, "192.0.2.1:1234", "192.0.2.2:443"),
            (&v2, "[2001:db8::1]:8080", "[2001:db8::2]:443"),
        ];
        for (header, source, destination) in cases {
            let (connecting, accepted) = sockets().await;
            let mut client = Stream::from(connecting);
            client.write(&[header, b"GET / HTTP/1.1\r\n"].concat()).await.unwrap();
            let found = identified(&accepted).await.unwrap();
            assert_eq!(found.address, PeerAddress::Tcp(source.parse().unwrap()));
            assert_eq!(found.destination, Some(destination.parse().unwrap()));
            let rest = read_exactly(&mut accepted.into(), 16, 16).await;
            assert_eq!(rest, b"GET / HTTP/1.1\r\n");
        }
    });
}

#[test]
fn a_header_may_arrive_byte_by_byte() {
    run(async {
        for header in [V1.to_vec(), v2(1)] {
            let (connecting, accepted) = sockets().await;
            let mut client = Stream::from(connecting);
            let send = async {
                for byte in header.iter().chain(b"x") {
                    client.write(&[*byte]).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let (_, found) = tokio::join!(send, identified(&accepted));
            assert!(!found.unwrap().header.local);
            assert_eq!(read_exactly(&mut accepted.into(), 1, 9).await, b"x");
        }
    });
}

#[test]
fn a_health_check_of_the_proxy_itself_keeps_the_peer() {
    run(async {
        for header in [&v2(0)[..], b"PROXY UNKNOWN\r\n"] {
            let (connecting, accepted) = sockets().await;
            Stream::from(connecting).write(header).await.unwrap();
            let found = identified(&accepted).await.unwrap();
            assert_eq!((found.address, found.destination), (peer(&accepted), None));
        }
    });
}

#[test]
fn a_peer_that_is_not_trusted_is_refused_and_nothing_of_it_is_read() {
    run(async {
        let (connecting, accepted) = sockets().await;
        Stream::from(connecting).write(V1).await.unwrap();
        let nobody = TrustedPeers::default();
        let peer = peer(&accepted);
        let refused = identify(&accepted, peer, &nobody, SPECIFIED, LIMIT).await;
        assert_eq!(refused, Err(NetError::ClientProxyUntrusted { peer }));
        assert_eq!(read_exactly(&mut accepted.into(), V1.len(), 99).await, V1);
    });
}

#[test]
fn anything_else_from_a_trusted_peer_is_refused() {
    run(async {
        let long =
            [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec(), vec![0; PROXY_HEADER_BYTES_MAX]];
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PROXY TCP4 nonsense\r\n", b"PROX", &long.concat()]
        {
            let (connecting, accepted) = sockets().await;
            let mut client = Stream::from(connecting);
            client.write(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let refused = identified(&accepted).await;
            assert!(matches!(refused, Err(NetError::ClientProxyHeader { .. })), "{refused:?}");
        }
    });
}

#[test]
fn a_silent_peer_does_not_hold_a_connection() {
    run(async {
        let (_connecting, accepted) = sockets().await;
        let limit = Duration::from_millis(20);
        let refused = identify(&accepted, peer(&accepted), &trusted(), SPECIFIED, limit).await;
        assert_eq!(refused, Err(NetError::ClientProxyTimeout));
    });
}

#[test]
fn tls_begins_right_behind_the_header() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (connecting, accepted) = sockets().await;
        socket2::SockRef::from(&connecting).send(V1).unwrap();
        let client_config = authority.client();
        let client = tls::client::connect(connecting, &client_config, "localhost", LIMIT);
        let server = async {
            identified(&accepted).await.unwrap();
            tls::server::accept(accepted, &config, LIMIT).await
        };
        let (client, server) = tokio::join!(client, server);
        client.unwrap().write(b"hello").await.unwrap();
        assert_eq!(read_exactly(&mut server.unwrap(), 5, 9).await, b"hello");
    });
}

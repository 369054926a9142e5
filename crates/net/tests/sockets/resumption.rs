//! Session tickets across configurations, as across workers and nodes.

use crate::common::*;
use freshet_net::tls::server::ServerOptions;
use freshet_net::tls::ticket::{ROTATION, TicketKeys, TicketSecret};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

fn server(authority: &Authority, tickets: Option<&Arc<TicketKeys>>) -> Arc<ServerConfig> {
    let tickets = tickets.cloned();
    localhost(authority, &ServerOptions { tickets, ..ServerOptions::default() })
}

/// Makes a connection, carries a byte each way so that tickets arrive, and says whether it was
/// resumed.
async fn resumed(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> bool {
    let (mut client, mut accepted) = tls_pair(client, server).await;
    client.write(b"?").await.unwrap();
    read_exactly(&mut accepted, 1, 1).await;
    accepted.write(b"!").await.unwrap();
    read_exactly(&mut client, 1, 1).await;
    let (ours, theirs) = (accepted.tls_info().unwrap(), client.tls_info().unwrap());
    assert_eq!(ours.resumed, theirs.resumed);
    ours.resumed
}

#[test]
fn a_ticket_of_one_configuration_resumes_at_another_with_the_same_keys() {
    run(async {
        let authority = Authority::new();
        let keys = TicketKeys::random(ROTATION);
        let (one, other) = (server(&authority, Some(&keys)), server(&authority, Some(&keys)));
        for version in [&TLS12, &TLS13] {
            let client = authority.client_of(version);
            assert!(!resumed(&client, &one).await);
            assert!(resumed(&client, &other).await, "{version:?}");
            assert!(resumed(&client, &one).await, "{version:?}");
        }
    });
}

#[test]
fn nodes_that_share_a_secret_resume_each_others_sessions() {
    run(async {
        let authority = Authority::new();
        let secret = TicketSecret::random();
        let one = server(&authority, Some(&TicketKeys::given(secret.clone(), ROTATION)));
        let other = server(&authority, Some(&TicketKeys::given(secret, ROTATION)));
        let stranger = server(&authority, Some(&TicketKeys::random(ROTATION)));
        let client = authority.client();
        assert!(!resumed(&client, &one).await);
        assert!(resumed(&client, &other).await);
        assert!(!resumed(&client, &stranger).await, "other keys mean a full handshake");
    });
}

#[test]
fn old_tickets_resume_for_one_more_period_and_then_fall_back() {
    run(async {
        let authority = Authority::new();
        let keys = TicketKeys::given(TicketSecret::random(), ROTATION);
        let config = server(&authority, Some(&keys));
        for version in [&TLS12, &TLS13] {
            let client = authority.client_of(version);
            assert!(!resumed(&client, &config).await);
            keys.rotate(&TicketSecret::random());
            assert!(resumed(&client, &config).await, "{version:?}");
            keys.rotate(&TicketSecret::random());
            keys.rotate(&TicketSecret::random());
            assert!(!resumed(&client, &config).await, "{version:?}");
        }
    });
}

#[test]
fn keys_change_under_connections_that_carry_data() {
    run(async {
        let authority = Authority::new();
        let keys = TicketKeys::given(TicketSecret::random(), ROTATION);
        let config = server(&authority, Some(&keys));
        for version in [&TLS12, &TLS13] {
            let (mut puller, mut server) = tls_pair(&authority.client_of(version), &config).await;
            let body = pattern(2_000_000);
            let serving = async {
                for part in body.chunks(100_000) {
                    server.write(part).await.unwrap();
                }
            };
            let others = async {
                let client = authority.client_of(version);
                assert!(!resumed(&client, &config).await);
                for _ in 0..10 {
                    keys.rotate(&TicketSecret::random());
                    // Each connection brings a ticket under the newest key.
                    assert!(resumed(&client, &config).await, "{version:?}");
                }
            };
            let (got, (), ()) =
                tokio::join!(read_exactly(&mut puller, body.len(), 65_536), serving, others);
            assert!(got == body, "{version:?}");
        }
    });
}

#[test]
fn without_keys_every_handshake_is_full() {
    run(async {
        let authority = Authority::new();
        let config = server(&authority, None);
        for version in [&TLS12, &TLS13] {
            let client = authority.client_of(version);
            assert!(!resumed(&client, &config).await);
            assert!(!resumed(&client, &config).await, "{version:?}");
        }
    });
}

#[test]
fn tickets_reach_a_client_that_waits_in_silence() {
    run(async {
        let authority = Authority::new();
        let config = server(&authority, Some(&TicketKeys::random(ROTATION)));
        let client = authority.client();
        let (mut connecting, mut accepted) = tls_pair(&client, &config).await;
        // The server has nothing to say but waits for a request, which sends the tickets.
        let mut request = [0; 1];
        tokio::select! {
            _ = accepted.read(&mut request) => panic!("nobody sent anything"),
            ready = readable(&connecting) => ready,
        }
        assert!(connecting.is_reusable());
        assert!(resumed(&client, &config).await);
    });
}

/// Waits until the kernel has something for this end, without reading it.
async fn readable(stream: &freshet_net::stream::Stream) {
    use std::os::fd::AsFd;
    let fd = stream.socket().as_fd().try_clone_to_owned().unwrap();
    let fd = tokio::net::TcpStream::from_std(fd.into()).unwrap();
    fd.readable().await.unwrap();
}

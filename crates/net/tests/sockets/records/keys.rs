//! Keys that change, asked for by the peer and on our own account.

use super::puppet::{Puppet, Said, open_client};
use crate::common::*;
use freshet_net::stream::Stream;
use freshet_net::tls::server::{self, ServerOptions};
use freshet_wire::tls::ContentType::ApplicationData;
use freshet_wire::tls::{KEY_UPDATE_NOT_REQUESTED, KEY_UPDATE_REQUESTED, description};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, ServerConfig};
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio::task::spawn_blocking;

async fn puppet_13() -> (Puppet, Stream) {
    let authority = Authority::new();
    let config = localhost(&authority, &ServerOptions::default());
    Puppet::pair(&open_client(&authority, &TLS13), &config).await
}

#[test]
fn a_key_update_changes_the_peers_key_at_once_and_ours_when_asked() {
    run(async {
        let (mut puppet, mut server) = puppet_13().await;
        for round in 0..100_u8 {
            let message =
                if round % 2 == 0 { KEY_UPDATE_REQUESTED } else { KEY_UPDATE_NOT_REQUESTED };
            let mut bytes = puppet.seal_key_update(&message);
            bytes.extend(puppet.seal(ApplicationData, &[round; 40]));
            puppet.wire.write(&bytes).await.unwrap();
            assert_eq!(read_exactly(&mut server, 40, 40).await, [round; 40]);
            server.write(&[round; 30]).await.unwrap();
            let (data, updates) = puppet.hear_data(30).await;
            assert_eq!((data, updates), (vec![round; 30], usize::from(round % 2 == 0)));
        }
    });
}

#[test]
fn a_key_update_in_fragments_is_one() {
    run(async {
        let (mut puppet, mut server) = puppet_13().await;
        for split in 1..5 {
            let (front, back) = KEY_UPDATE_REQUESTED.split_at(split);
            let mut bytes = puppet.seal(freshet_wire::tls::ContentType::Handshake, front);
            bytes.extend(puppet.seal_key_update(back));
            bytes.extend(puppet.seal(ApplicationData, b"data"));
            puppet.wire.write(&bytes).await.unwrap();
            assert_eq!(read_exactly(&mut server, 4, 4).await, b"data");
            server.write(b"answer").await.unwrap();
            assert_eq!(puppet.hear_data(6).await, (b"answer".to_vec(), 1));
        }
    });
}

#[test]
fn many_requests_at_once_get_one_answer() {
    run(async {
        let (mut puppet, mut server) = puppet_13().await;
        let mut bytes = Vec::new();
        for _ in 0..32 {
            bytes.extend(puppet.seal_key_update(&KEY_UPDATE_REQUESTED));
        }
        bytes.extend(puppet.seal(ApplicationData, b"data"));
        puppet.wire.write(&bytes).await.unwrap();
        assert_eq!(read_exactly(&mut server, 4, 4).await, b"data");
        server.write(b"answer").await.unwrap();
        assert_eq!(puppet.hear_data(6).await, (b"answer".to_vec(), 1));
    });
}

#[test]
fn a_flood_of_key_updates_ends_the_connection() {
    run(async {
        let (mut puppet, mut server) = puppet_13().await;
        let mut bytes = Vec::new();
        for _ in 0..33 {
            bytes.extend(puppet.seal_key_update(&KEY_UPDATE_NOT_REQUESTED));
        }
        puppet.wire.write(&bytes).await.unwrap();
        let error = server.read(&mut [0; 9]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(puppet.hear().await, Said::Alert(description::UNEXPECTED_MESSAGE));
    });
}

#[test]
fn an_answer_leaves_though_the_server_only_waits() {
    run(async {
        let (mut puppet, mut server) = puppet_13().await;
        let update = puppet.seal_key_update(&KEY_UPDATE_REQUESTED);
        puppet.wire.write(&update).await.unwrap();
        let mut buffer = [0; 9];
        tokio::select! {
            biased;
            said = puppet.hear() => assert_eq!(said, Said::KeyUpdate { answer: false }),
            read = server.read(&mut buffer) => panic!("{read:?}"),
        }
    });
}

#[test]
fn keys_change_in_the_middle_of_a_download_and_of_an_upload() {
    run(async {
        let (mut puppet, mut server) = puppet_13().await;
        let body = pattern(5_000_000);
        // The server sends and receives at once; the client changes keys all the time.
        let (mut sent, mut received) = (0, 0);
        let mut uploaded = Vec::new();
        let serving = async {
            let mut buffer = vec![0; 30_000];
            while sent < body.len() || received < 500_000 {
                std::future::poll_fn(|cx| {
                    let mut moved = false;
                    if sent < body.len()
                        && let std::task::Poll::Ready(count) = server.poll_write(cx, &body[sent..])
                    {
                        sent += count.unwrap();
                        moved = true;
                    }
                    if received < 500_000
                        && let std::task::Poll::Ready(count) = server.poll_read(cx, &mut buffer)
                    {
                        let count = count.unwrap();
                        uploaded.extend_from_slice(&buffer[..count]);
                        received += count;
                        moved = true;
                    }
                    if moved { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                })
                .await;
            }
            server.flush().await.unwrap();
        };
        let client = async {
            let (mut got, mut updates) = (Vec::new(), 0);
            for part in body[..500_000].chunks(10_000) {
                let mut bytes = puppet.seal_key_update(&KEY_UPDATE_REQUESTED);
                bytes.extend(puppet.seal(ApplicationData, part));
                puppet.wire.write(&bytes).await.unwrap();
                let (data, more) = puppet.hear_data(100_000.min(body.len() - got.len())).await;
                got.extend(data);
                updates += more;
            }
            (got, updates)
        };
        let (_, (got, updates)) = tokio::join!(serving, client);
        assert!(got == body && uploaded == body[..500_000]);
        assert!((1..=50).contains(&updates), "{updates} answers to 50 requests");
    });
}

#[test]
fn rustls_refreshing_its_keys_is_followed() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let client = authority.client_of(&TLS13);
        let listener = loopback();
        let address = listener.local_address().to_string();
        let asking = spawn_blocking(move || {
            let name = "localhost".try_into().unwrap();
            let mut connection = ClientConnection::new(client, name).unwrap();
            let mut socket = TcpStream::connect(address).unwrap();
            let mut answers = Vec::new();
            for round in 0..40_u8 {
                let mut tls = rustls::Stream::new(&mut connection, &mut socket);
                tls.write_all(&[round; 100]).unwrap();
                let mut answer = [0; 100];
                tls.read_exact(&mut answer).unwrap();
                answers.push(answer[0]);
                connection.refresh_traffic_keys().unwrap();
            }
            answers
        });
        let (socket, _) = listener.accept().await.unwrap();
        let mut server = server::accept(socket, &config, LIMIT).await.unwrap();
        for round in 0..40 {
            assert_eq!(read_exactly(&mut server, 100, 64).await, [round; 100]);
            server.write(&[round; 100]).await.unwrap();
        }
        assert_eq!(asking.await.unwrap(), (0..40).collect::<Vec<u8>>());
    });
}

/// A server's stream whose keys seal 8 records each.
async fn eight_records(
    config: &Arc<ServerConfig>,
    version: &'static rustls::SupportedProtocolVersion,
    authority: &Authority,
) -> (Puppet, Stream) {
    let (puppet, mut server) = Puppet::pair(&open_client(authority, version), config).await;
    server.limit_records_per_key(8);
    (puppet, server)
}

#[test]
fn keys_that_sealed_enough_are_replaced_within_a_download() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (mut puppet, mut server) = eight_records(&config, &TLS13, &authority).await;
        let body = pattern(3_000_000);
        let (written, (got, updates)) =
            tokio::join!(server.write(&body), puppet.hear_data(body.len()));
        written.unwrap();
        assert!(got == body);
        // 184 records, 6 under each key.
        assert!((25..=40).contains(&updates), "{updates} key updates");
        assert!(!server.is_worn());
    });
}

#[test]
fn a_worn_key_of_the_older_version_ends_the_connection_cleanly() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (mut puppet, mut server) = eight_records(&config, &TLS12, &authority).await;
        assert!(!server.is_worn());
        // Responses that have begun can be finished ...
        for round in 0..6 {
            assert_eq!(server.is_worn(), round >= 4, "{round}");
            server.write(b"response").await.unwrap();
        }
        // ... and then nothing more is sealed.
        let error = server.write_pieces(&[IoSlice::new(b"too much")]).await.unwrap_err();
        assert!(error.to_string().contains("as many records"), "{error}");
        server.shutdown().await.unwrap();
        let (data, _) = puppet.hear_data(6 * 8).await;
        assert_eq!(data, b"response".repeat(6));
        assert_eq!(puppet.hear_all().await, [Said::CloseNotify, Said::End]);
    });
}

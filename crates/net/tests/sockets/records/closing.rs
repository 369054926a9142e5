//! Ends, clean and not, and writers that go away in the middle.

use super::puppet::{Puppet, Said, open_client};
use crate::common::*;
use freshet_net::limits::BATCH_BYTES_MAX;
use freshet_net::tls::server::ServerOptions;
use freshet_wire::tls::ContentType::{Alert, ApplicationData};
use rustls::version::{TLS12, TLS13};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::task::Poll;

#[test]
fn close_notify_of_the_peer_ends_its_direction_only() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        for version in [&TLS12, &TLS13] {
            let client = open_client(&authority, version);
            let (mut puppet, mut server) = Puppet::pair(&client, &config).await;
            let mut bytes = puppet.seal(ApplicationData, b"all I have");
            bytes.extend(puppet.seal(Alert, &[1, 0]));
            // After the end nothing counts, not even nonsense (RFC 8446 §6.1).
            bytes.extend_from_slice(b"nonsense");
            puppet.wire.write(&bytes).await.unwrap();
            assert_eq!(read_exactly(&mut server, 10, 100).await, b"all I have");
            for _ in 0..3 {
                assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 0);
            }
            server.write(b"still mine").await.unwrap();
            server.shutdown().await.unwrap();
            let expected = [Said::Data(b"still mine".to_vec()), Said::CloseNotify, Said::End];
            assert_eq!(puppet.hear_all().await, expected);
        }
    });
}

#[test]
fn an_upload_cut_off_anywhere_is_a_truncation() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let client = open_client(&authority, &TLS13);
        for kept in [0, 1, 4, 5, 6, 20, 26] {
            let (mut puppet, mut server) = Puppet::pair(&client, &config).await;
            let mut bytes = puppet.seal(ApplicationData, b"whole");
            let part = puppet.seal(ApplicationData, b"not whole");
            bytes.extend_from_slice(&part[..kept]);
            puppet.wire.write(&bytes).await.unwrap();
            socket2::SockRef::from(puppet.wire.socket()).shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_exactly(&mut server, 5, 100).await, b"whole");
            for _ in 0..2 {
                let error = server.read(&mut [0; 9]).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{kept} bytes kept");
            }
            // What was asked before is still answered.
            server.write(b"answer").await.unwrap();
            assert_eq!(puppet.hear().await, Said::Data(b"answer".to_vec()));
        }
    });
}

#[test]
fn a_writer_dropped_at_any_wait_leaves_a_stream_that_goes_on() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let body = pattern(6 * BATCH_BYTES_MAX);
        for version in [&TLS12, &TLS13] {
            let client = open_client(&authority, version);
            for waits in 1.. {
                let (mut puppet, mut server) = Puppet::pair(&client, &config).await;
                let small = socket2::SockRef::from(server.socket());
                small.set_send_buffer_size(4096).unwrap();
                let is_done = Cell::new(false);
                let writing = async {
                    let mut polls = 0;
                    {
                        let mut write = pin!(server.write(&body));
                        poll_fn(|cx| {
                            polls += 1;
                            match write.as_mut().poll(cx) {
                                Poll::Ready(result) => {
                                    result.unwrap();
                                    is_done.set(true);
                                    Poll::Ready(())
                                }
                                Poll::Pending if polls == waits => Poll::Ready(()),
                                Poll::Pending => Poll::Pending,
                            }
                        })
                        .await;
                    }
                    server.write(b"the end").await.unwrap();
                    server.shutdown().await.unwrap();
                };
                let (_, said) = tokio::join!(writing, puppet.hear_all());
                let mut data: Vec<u8> = Vec::new();
                let mut tail = Vec::new();
                for said in said {
                    match said {
                        Said::Data(more) => data.extend(more),
                        other => tail.push(other),
                    }
                }
                assert_eq!(tail, [Said::CloseNotify, Said::End]);
                let got = data.strip_suffix(b"the end").expect("the end arrives whole");
                assert!(body.starts_with(got), "{waits} waits: {} bytes", got.len());
                if is_done.get() {
                    assert_eq!(got.len(), body.len());
                    break;
                }
            }
        }
    });
}

#[test]
fn an_idle_stream_holds_no_sealed_bytes_and_a_slow_one_at_most_a_batch() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (mut puppet, mut server) =
            Puppet::pair(&open_client(&authority, &TLS13), &config).await;
        let body = pattern(BATCH_BYTES_MAX);
        let mut accepted = 0;
        for _ in 0..20 {
            // Until the socket is full.
            while let Poll::Ready(count) =
                poll_fn(|cx| Poll::Ready(server.poll_write(cx, &body))).await
            {
                accepted += count.unwrap();
            }
            let held = server.unsent_bytes();
            assert!(held <= BATCH_BYTES_MAX + 16_384 + 200, "{held} bytes");
            // A little room, taken by small steps: a slow client.
            let mut hearing = pin!(puppet.hear_data(accepted.min(100_000)));
            let hearing = poll_fn(|cx| {
                let _ = server.poll_flush(cx);
                hearing.as_mut().poll(cx)
            });
            accepted -= hearing.await.0.len();
        }
        let (flushed, _) = tokio::join!(server.flush(), puppet.hear_data(accepted));
        flushed.unwrap();
        assert_eq!(server.unsent_bytes(), 0);
    });
}

#[test]
fn a_stream_does_not_show_its_keys() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (_client, server) = tls_pair(&authority.client(), &config).await;
        let text = format!("{server:#?}");
        assert!(text.contains("Records") && text.contains("sequence"), "{text}");
        for secret in ["key:", "iv", "secret"] {
            assert!(!text.contains(secret), "{text}");
        }
    });
}

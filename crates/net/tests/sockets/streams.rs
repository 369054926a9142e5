//! Bytes through streams, in the clear and under TLS.

use crate::common::*;
use freshet_net::limits::{BATCH_BYTES_MAX, TURN_BYTES_MAX};
use freshet_net::stream::Stream;
use freshet_net::tls::server::ServerOptions;
use freshet_net::tls::ticket::{ROTATION, TicketKeys};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig};
use socket2::{Domain, Type};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::yield_now;

/// Around the edges of a record, of rustls' input buffer and of a batch.
const ODD_SIZES: [usize; 14] = [
    1, 2, 511, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 300_001, 1_000_000,
];

/// The same test over every kind of stream: `(client, server)`.
async fn every_pair() -> Vec<(&'static str, Stream, Stream)> {
    let authority = Authority::new();
    let server = localhost(&authority, &ServerOptions::default());
    let mut pairs = Vec::new();
    let (client, accepted) = clear_pair().await;
    pairs.push(("clear", client, accepted));
    let rustls_records = records_by_rustls(&server);
    for (name, version, server) in [
        ("TLS 1.2", &TLS12, &server),
        ("TLS 1.3", &TLS13, &server),
        ("TLS 1.2 by rustls", &TLS12, &rustls_records),
        ("TLS 1.3 by rustls", &TLS13, &rustls_records),
    ] {
        let (client, accepted) = tls_pair(&authority.client_of(version), server).await;
        pairs.push((name, client, accepted));
    }
    pairs
}

/// The TLS 1.3 pair of [`every_pair`].
async fn tls_13() -> (Stream, Stream) {
    let authority = Authority::new();
    tls_pair(&authority.client(), &localhost(&authority, &ServerOptions::default())).await
}

#[test]
fn odd_sizes_come_back_as_they_were_sent() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            for len in ODD_SIZES {
                let sent = pattern(len);
                let echo = async {
                    let request = read_exactly(&mut server, len, 10_000).await;
                    server.write(&request).await.unwrap();
                };
                let ask = async {
                    client.write(&sent).await.unwrap();
                    read_exactly(&mut client, len, 100_000).await
                };
                let (_, back) = tokio::join!(echo, ask);
                assert!(back == sent, "{kind}, {len} bytes");
            }
        }
    });
}

#[test]
fn ten_megabytes_of_pieces_arrive_whole_through_any_reading_size() {
    run(async {
        let sent = pattern(10_000_000);
        for portion in [1000, 16 * 1024, 256 * 1024] {
            for (kind, mut client, mut server) in every_pair().await {
                let send = async {
                    let (head, body) = sent.split_at(317);
                    let mut pieces = vec![IoSlice::new(&[]), IoSlice::new(head)];
                    pieces.extend(body.chunks(77_777).map(IoSlice::new));
                    pieces.push(IoSlice::new(&[]));
                    server.write_pieces(&pieces).await.unwrap();
                };
                let (_, got) = tokio::join!(send, read_exactly(&mut client, sent.len(), portion));
                assert!(got == sent, "{kind} in portions of {portion}");
            }
        }
    });
}

#[test]
fn many_small_pieces_go_out_in_order() {
    run(async {
        let sent = pattern(5000);
        for (kind, mut client, mut server) in every_pair().await {
            let pieces: Vec<IoSlice<'_>> = sent.chunks(7).map(IoSlice::new).collect();
            server.write_pieces(&pieces).await.unwrap();
            assert!(read_exactly(&mut client, sent.len(), 5000).await == sent, "{kind}");
        }
    });
}

#[test]
fn a_clean_end_reads_as_zero_and_stays_so() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            server.write(b"last words").await.unwrap();
            server.shutdown().await.unwrap();
            server.shutdown().await.unwrap();
            assert_eq!(read_exactly(&mut client, 10, 100).await, b"last words", "{kind}");
            for _ in 0..3 {
                assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "{kind}");
            }
            // The other direction is still open (RFC 8446 §6.1).
            client.write(b"and mine").await.unwrap();
            assert_eq!(read_exactly(&mut server, 8, 100).await, b"and mine", "{kind}");
        }
    });
}

#[test]
fn a_tls_peer_that_just_stops_is_a_truncation() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        for version in [&TLS12, &TLS13] {
            let (mut client, mut server) = tls_pair(&authority.client_of(version), &config).await;
            server.write(b"half of").await.unwrap();
            // FIN without close_notify.
            socket2::SockRef::from(server.socket()).shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(read_exactly(&mut client, 7, 100).await, b"half of");
            for _ in 0..2 {
                let error = client.read(&mut [0; 8]).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            }
        }
    });
}

#[test]
fn dropped_reads_and_writes_that_were_pending_lose_no_byte() {
    run(async {
        let sent = pattern(3_000_000);
        for (kind, mut client, mut server) in every_pair().await {
            let send = async {
                for part in sent.chunks(100_001) {
                    let mut rest = part;
                    while !rest.is_empty() {
                        // Poll once and drop; what was taken counts, what was not does not.
                        let poll = std::future::poll_fn(|cx| {
                            std::task::Poll::Ready(server.poll_write(cx, rest))
                        });
                        match poll.await {
                            std::task::Poll::Ready(taken) => rest = &rest[taken.unwrap()..],
                            std::task::Poll::Pending => yield_now().await,
                        }
                    }
                }
                server.flush().await.unwrap();
            };
            let receive = async {
                let mut got = Vec::new();
                let mut buffer = vec![0; 50_000];
                while got.len() < sent.len() {
                    let read = client.read(&mut buffer);
                    tokio::select! {
                        biased;
                        count = read => got.extend_from_slice(&buffer[..count.unwrap()]),
                        () = yield_now() => {}
                    }
                }
                got
            };
            let (_, got) = tokio::join!(send, receive);
            assert!(got == sent, "{kind}");
        }
    });
}

#[test]
fn a_reader_that_stops_makes_the_writer_wait_with_bounded_memory() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            let body = pattern(BATCH_BYTES_MAX);
            let mut accepted = 0;
            let full = loop {
                let poll =
                    std::future::poll_fn(|cx| std::task::Poll::Ready(server.poll_write(cx, &body)));
                match poll.await {
                    std::task::Poll::Ready(count) => accepted += count.unwrap(),
                    std::task::Poll::Pending => break accepted,
                }
            };
            // Pending again and again takes nothing more.
            for _ in 0..10 {
                let poll =
                    std::future::poll_fn(|cx| std::task::Poll::Ready(server.poll_write(cx, &body)));
                assert!(poll.await.is_pending(), "{kind}");
            }
            let (flushed, _) =
                tokio::join!(server.flush(), read_exactly(&mut client, full, 1 << 20));
            flushed.unwrap();
        }
    });
}

#[test]
fn a_long_write_lets_other_tasks_run() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            let turns = Rc::new(Cell::new(0_usize));
            let seen = Rc::clone(&turns);
            let other = tokio::task::spawn_local(async move {
                loop {
                    seen.set(seen.get() + 1);
                    yield_now().await;
                }
            });
            let body = pattern(20 * TURN_BYTES_MAX);
            let (sent, _) =
                tokio::join!(server.write(&body), read_exactly(&mut client, body.len(), 1 << 20));
            sent.unwrap();
            other.abort();
            assert!(turns.get() >= 10, "{kind}: {} turns", turns.get());
        }
    });
}

#[test]
fn an_idle_connection_is_reusable_until_the_peer_says_something() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            assert!(client.is_reusable(), "{kind}");
            server.write(b"x").await.unwrap();
            assert!(!client.is_reusable(), "{kind}: unread bytes");
        }
        for (kind, mut client, mut server) in every_pair().await {
            server.shutdown().await.unwrap();
            assert!(!client.is_reusable(), "{kind}: closed");
        }
        for (kind, mut client, server) in every_pair().await {
            drop(server);
            assert!(!client.is_reusable(), "{kind}: gone");
        }
    });
}

#[test]
fn trying_to_read_never_waits() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            let error = client.try_read(&mut [0; 9]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{kind}");
            server.write(b"now").await.unwrap();
            assert_eq!(client.try_read(&mut [0; 9]).unwrap(), 3, "{kind}");
            server.shutdown().await.unwrap();
            assert_eq!(client.try_read(&mut [0; 9]).unwrap(), 0, "{kind}");
        }
    });
}

#[test]
fn closing_with_unread_bytes_still_delivers_the_last_response() {
    run(async {
        for (kind, mut client, server) in every_pair().await {
            let mut server = server;
            client.write(&pattern(200_000)).await.unwrap();
            let answer = async {
                server.write(b"413").await.unwrap();
                server.close(LIMIT).await;
            };
            let read = async {
                let answer = read_exactly(&mut client, 3, 3).await;
                assert_eq!(client.read(&mut [0; 3]).await.unwrap(), 0, "{kind}");
                drop(client);
                answer
            };
            let (_, answer) = tokio::join!(answer, read);
            assert_eq!(answer, b"413", "{kind}");
        }
    });
}

#[test]
fn who_sends_all_before_it_reads_gets_the_last_response() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            let answer = async {
                server.write(b"413").await.unwrap();
                server.close(LIMIT).await;
            };
            let read = async {
                // More than buffers of both ends hold.
                let part = pattern(1 << 20);
                for _ in 0..20 {
                    AsyncWriteExt::write_all(&mut client, &part).await.unwrap();
                }
                let answer = read_exactly(&mut client, 3, 3).await;
                drop(client);
                answer
            };
            let (_, answer) = tokio::join!(answer, read);
            assert_eq!(answer, b"413", "{kind}");
        }
    });
}

#[test]
fn closing_does_not_wait_longer_than_it_may() {
    run(async {
        let (_client, server) = tls_13().await;
        // The peer never closes; the limit ends it.
        server.close(Duration::from_millis(20)).await;
    });
}

#[test]
fn streams_serve_users_of_tokio_traits() {
    run(async {
        for (kind, mut client, mut server) in every_pair().await {
            assert!(tokio::io::AsyncWrite::is_write_vectored(&server), "{kind}");
            let sent = pattern(500_000);
            let send = async {
                AsyncWriteExt::write_all(&mut server, &sent).await.unwrap();
                AsyncWriteExt::shutdown(&mut server).await.unwrap();
            };
            let mut got = Vec::new();
            let (_, read) = tokio::join!(send, client.read_to_end(&mut got));
            assert_eq!(read.unwrap(), sent.len(), "{kind}");
            assert!(got == sent, "{kind}");
        }
    });
}

#[test]
fn a_damaged_record_ends_the_connection_with_an_error_that_stays() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (connecting, accepted) = sockets().await;
        let (relay_in, relay_out) = sockets().await;
        // client — connecting|accepted — relay — relay_in|relay_out — server
        let relay = async {
            let (mut from, mut to) = (Stream::from(accepted), Stream::from(relay_in));
            tokio::io::copy_bidirectional(&mut from, &mut to).await.ok();
            (from, to)
        };
        let ends = async {
            let client_config = authority.client();
            let client =
                freshet_net::tls::client::connect(connecting, &client_config, "localhost", LIMIT);
            let server = freshet_net::tls::server::accept(relay_out, &config, LIMIT);
            let (client, server) = tokio::join!(client, server);
            let (mut client, server) = (client.unwrap(), server.unwrap());
            // A record nobody sealed, past the TLS of the server.
            let socket = socket2::SockRef::from(server.socket());
            socket
                .send(&[
                    23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                    19, 20,
                ])
                .unwrap();
            for _ in 0..3 {
                let error = client.read(&mut [0; 100]).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            }
            drop((client, server));
        };
        tokio::join!(relay, ends);
    });
}

/// A pair under TLS whose server writes into a socket that keeps each write apart, and the lengths
/// of its writes so far.
async fn pair_with_write_lengths(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (Stream, Stream, Rc<RefCell<Vec<usize>>>) {
    let (near, far) = socket2::Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    let packets = |socket: socket2::Socket| {
        socket.set_nonblocking(true).unwrap();
        let stream = std::os::unix::net::UnixStream::from(OwnedFd::from(socket));
        UnixStream::from_std(stream).unwrap()
    };
    let (near, far) = (packets(near), packets(far));
    let (connecting, relayed) = sockets().await;
    let lengths = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&lengths);
    tokio::task::spawn_local(async move {
        let (mut from_server, mut to_server) = far.into_split();
        let (mut from_client, mut to_client) = tokio::io::split(Stream::from(relayed));
        let down = async {
            let mut packet = vec![0; 1 << 20];
            while let Ok(bytes @ 1..) = from_server.read(&mut packet).await {
                seen.borrow_mut().push(bytes);
                to_client.write_all(&packet[..bytes]).await.unwrap();
            }
        };
        // A packet is read whole or cut, so they have to fit the smallest read there is.
        let up = async {
            let mut packet = [0; 4096];
            while let Ok(bytes @ 1..) = from_client.read(&mut packet).await {
                to_server.write_all(&packet[..bytes]).await.unwrap();
            }
        };
        tokio::join!(down, up);
    });
    let (client, accepted) = tokio::join!(
        freshet_net::tls::client::connect(connecting, client, "localhost", LIMIT),
        freshet_net::tls::server::accept(near.into(), server, LIMIT)
    );
    (client.unwrap(), accepted.unwrap(), lengths)
}

#[test]
fn a_small_response_is_one_write_with_the_tickets_in_it_and_a_batch_is_one_write() {
    run(async {
        let authority = Authority::new();
        let tickets = Some(TicketKeys::random(ROTATION));
        let config = localhost(&authority, &ServerOptions { tickets, ..ServerOptions::default() });
        let (mut client, mut server, writes) =
            pair_with_write_lengths(&authority.client(), &config).await;
        let head = pattern(300);
        // Records add 22 bytes each under TLS 1.3.
        let mut tickets_bytes = 0;
        for (body_bytes, records) in [(1024, 1), (8000, 1), (BATCH_BYTES_MAX, 5)] {
            writes.borrow_mut().clear();
            let body = pattern(body_bytes);
            server.write_pieces(&[IoSlice::new(&head), IoSlice::new(&body)]).await.unwrap();
            read_exactly(&mut client, 300 + body_bytes, 1 << 20).await;
            let expected = 300 + body_bytes + records * 22;
            let [length] = writes.borrow()[..] else { panic!("{writes:?} for {body_bytes} bytes") };
            if tickets_bytes == 0 {
                tickets_bytes = length - expected;
                assert!((200..4096).contains(&tickets_bytes), "{tickets_bytes} bytes of tickets");
            } else {
                assert_eq!(length, expected, "for {body_bytes} bytes");
            }
        }
    });
}

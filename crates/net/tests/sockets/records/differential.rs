//! The same records into rustls and into ours: the same plaintext, and the same kind of end.
//!
//! Left out is what ours refuses and rustls lets pass: other types on the outside of TLS 1.3
//! records (RFC 8446 §5.2) and empty alerts and handshake messages (§5.4).

use super::puppet::{Puppet, open_client};
use crate::common::*;
use bolero::check;
use freshet_net::stream::Stream;
use freshet_net::tls::server::ServerOptions;
use freshet_wire::tls::ContentType::{Alert, ApplicationData, ChangeCipherSpec, Handshake};
use freshet_wire::tls::{KEY_UPDATE_NOT_REQUESTED, KEY_UPDATE_REQUESTED};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_secs(3);
const ITERATIONS: usize = 5_000;
/// A case has some ten records; each is made of one to four bytes.
const INPUT_BYTES_MAX: usize = 40;

/// What a reader sees.
#[derive(Debug, Eq, PartialEq)]
struct Outcome {
    plain: Vec<u8>,
    end: End,
}

#[derive(Debug, Eq, PartialEq)]
enum End {
    Clean,
    Truncated,
    Violation,
}

struct Configs {
    clients: [Arc<ClientConfig>; 2],
    ours: Arc<ServerConfig>,
    rustls: Arc<ServerConfig>,
    _authority: Authority,
}

thread_local! {
    static CONFIGS: RefCell<Option<Configs>> = const { RefCell::new(None) };
}

fn configs() -> Configs {
    let authority = Authority::new();
    let ours = localhost(&authority, &ServerOptions::default());
    let clients = [open_client(&authority, &TLS12), open_client(&authority, &TLS13)];
    Configs { clients, rustls: records_by_rustls(&ours), ours, _authority: authority }
}

/// Runs a case against one kind of server.
async fn outcome(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    portion: usize,
    case: &[u8],
) -> Outcome {
    let (mut puppet, mut stream) = Puppet::pair(client, server).await;
    let bytes = records(&mut puppet, case);
    let sending = async {
        for part in bytes.chunks(portion) {
            // The server may have closed already.
            if puppet.wire.write(part).await.is_err() {
                break;
            }
        }
        let _ = puppet.wire.shutdown().await;
    };
    let reading = async {
        let mut plain = Vec::new();
        let mut buffer = vec![0; portion];
        let end = loop {
            match stream.read(&mut buffer).await {
                Ok(0) => break End::Clean,
                Ok(count) => plain.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    break End::Truncated;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => break End::Violation,
                Err(error) => panic!("{error:?}"),
            }
        };
        Outcome { plain, end }
    };
    tokio::join!(sending, reading).1
}

/// The records a case asks for.
fn records(puppet: &mut Puppet, case: &[u8]) -> Vec<u8> {
    let is_13 = puppet.sealer.version() == freshet_wire::tls::Version::Tls13;
    let mut bytes = Vec::new();
    let mut input = case.iter().copied();
    let mut next = || input.next();
    while let Some(what) = next() {
        let arg = next().unwrap_or(0);
        match what % 16 {
            0..=5 => {
                let len = match arg {
                    0..=200 => usize::from(arg) * 3,
                    201..=230 => 16_384 - usize::from(arg - 201),
                    _ => 5000 + usize::from(arg),
                };
                bytes.extend(puppet.seal(ApplicationData, &vec![what; len]));
            }
            6 => bytes.extend(puppet.seal_key_update(match (is_13, arg % 2) {
                (true, 0) => &KEY_UPDATE_REQUESTED,
                (true, _) => &KEY_UPDATE_NOT_REQUESTED,
                // There is none: an unexpected message it is.
                (false, _) => {
                    bytes.extend(puppet.seal(Handshake, &KEY_UPDATE_REQUESTED));
                    continue;
                }
            })),
            7 if is_13 => {
                let split = 1 + usize::from(arg) % 4;
                let (front, back) = KEY_UPDATE_NOT_REQUESTED.split_at(split);
                bytes.extend(puppet.seal(Handshake, front));
                bytes.extend(puppet.seal_key_update(back));
            }
            7 => bytes.extend(puppet.seal(Handshake, &puppet.hello.clone())),
            8 => bytes.extend(puppet.seal(Alert, &[1 + arg % 2, next().unwrap_or(90)])),
            9 => bytes.extend(puppet.seal(Alert, &[1, if arg < 128 { 90 } else { 0 }])),
            10 => {
                let kind = if arg == 1 || arg == 24 { 2 } else { arg };
                bytes.extend(puppet.seal(Handshake, &[kind, 0, 0, 1, 0]));
            }
            11 => {
                let start = bytes.len();
                bytes.extend(puppet.seal(ApplicationData, b"damaged"));
                // Behind the header, which is compared by hand.
                let place = start + 5 + usize::from(arg) % (bytes.len() - start - 5);
                bytes[place] ^= 1 << (arg % 8);
            }
            12 => bytes.extend((0..arg % 40).flat_map(|_| puppet.seal(ApplicationData, &[]))),
            13 => bytes.extend((0..arg % 6).flat_map(|_| puppet.seal(Alert, &[1, 90]))),
            14 if arg < 64 => bytes.extend(puppet.seal(ChangeCipherSpec, &[1])),
            14 => bytes.extend_from_slice(&[20, 3, 3, 0, 1, 1]),
            _ => {
                let bytes_cut = usize::from(arg).min(bytes.len());
                bytes.truncate(bytes.len() - bytes_cut);
                break;
            }
        }
    }
    bytes
}

fn compare(input: &[u8]) {
    let [version, portion, case @ ..] = input else { return };
    CONFIGS.with_borrow_mut(|kept| {
        let configs = kept.get_or_insert_with(configs);
        let client = &configs.clients[usize::from(version % 2)];
        let portion = [3, 100, 5000, 16_384, 100_000][usize::from(portion % 5)];
        run(async {
            let ours = outcome(client, &configs.ours, portion, case).await;
            let theirs = outcome(client, &configs.rustls, portion, case).await;
            // A record that is cut off and wrong from its header on: we say so at once, rustls waits
            // for the rest of it and then misses that.
            let sooner = ours.end == End::Violation && theirs.end == End::Truncated;
            assert!(
                ours == theirs || (sooner && ours.plain == theirs.plain),
                "{} bytes, {:?} against {} bytes, {:?}",
                ours.plain.len(),
                ours.end,
                theirs.plain.len(),
                theirs.end
            );
        });
    });
}

#[test]
fn fuzz_records_against_rustls() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| compare(input));
}

/// Cases in which something happened once, or nearly, in both versions and all portions.
#[test]
fn known_cases_end_alike() {
    let cases: [&[u8]; 12] = [
        &[0, 255, 1, 230, 9, 255],
        &[0, 10, 6, 0, 0, 10, 6, 1, 0, 201, 9, 200],
        &[7, 2, 0, 5, 7, 0, 0, 9, 9, 200],
        &[12, 32, 0, 1, 12, 32, 0, 2, 12, 33],
        &[13, 4, 0, 1, 9, 200],
        &[13, 5],
        &[8, 0, 40, 0, 9],
        &[8, 1, 100, 0, 9, 8, 1, 100],
        &[0, 230, 11, 77, 0, 1],
        &[0, 230, 0, 230, 15, 30],
        &[14, 0],
        &[0, 200, 14, 200, 0, 1],
    ];
    for case in cases {
        for version in 0..2 {
            for portion in 0..5 {
                compare(&[&[version, portion], case].concat());
            }
        }
    }
}

/// The two servers agree on a long stream in small and odd portions.
#[test]
fn long_streams_arrive_alike() {
    run(async {
        let configs = configs();
        for client in &configs.clients {
            for server in [&configs.ours, &configs.rustls] {
                let (mut puppet, mut stream): (Puppet, Stream) = Puppet::pair(client, server).await;
                let body = pattern(300_000);
                let mut bytes = Vec::new();
                for (index, part) in body.chunks(7001).enumerate() {
                    bytes.extend(puppet.seal(ApplicationData, &part[..index.min(part.len())]));
                    bytes.extend(puppet.seal(ApplicationData, &part[index.min(part.len())..]));
                }
                let sending = async {
                    for part in bytes.chunks(997) {
                        puppet.wire.write(part).await.unwrap();
                    }
                };
                let (_, got) = tokio::join!(sending, read_exactly(&mut stream, body.len(), 6007));
                assert!(got == body);
            }
        }
    });
}

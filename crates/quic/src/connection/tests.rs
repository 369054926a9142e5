//! What a client that has the keys may send.

use super::super::cipher::with_ciphers;
use super::super::error::code;
use super::super::packet::Kind;
use super::super::packet::Protected;
use super::super::sent::How;
use super::super::varint::write_varint;
use super::*;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::OnceLock;

fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let provider = Arc::new(with_ciphers(provider));
        let tls = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let local = Local { data_max: 4000, ..Local::default() };
        Config { tls: Arc::new(tls), local, congestion: Algorithm::Cubic }
    })
}

/// A connection as it is after the handshake, but without keys, so that nothing goes out.
fn established() -> Connection<Vec<u8>> {
    let id = Id::new(&[1; 8]).unwrap();
    let names = Names { original: id, own: id, retry: None, reset_token: [0; 16] };
    let route = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
    let accept = Accept {
        version: Version::V1,
        names,
        receiver: id,
        client: id,
        route,
        is_validated: true,
        seed: 1,
    };
    let mut connection = Connection::new(config(), &accept, Duration::ZERO).unwrap();
    connection.is_established = true;
    let peer = Peer { data_max: 1000, stream_data_max: 500, ..Peer::default() };
    connection.streams.set_peer(&peer);
    connection.peer = peer;
    for number in 0..20 {
        if number % 7 == 3 {
            connection.space(Level::OneRtt).sent.skip();
        } else {
            let how = How { is_eliciting: true, ..How::default() };
            connection.note_sent(Level::OneRtt, 1200, how, Duration::ZERO);
        }
    }
    connection
}

fn take(connection: &mut Connection<Vec<u8>>, payload: &[u8]) -> Result<(), Error> {
    let packet = Protected {
        kind: Kind::OneRtt,
        version: None,
        receiver: Id::new(&[1; 8]).unwrap(),
        sender: Id::default(),
        token: 0..0,
        number_at: 9,
        end: 100,
    };
    let route = connection.path.route;
    let now = Duration::from_millis(50);
    connection.frames(Level::OneRtt, payload, &packet, route, now).map(|_| ())
}

/// Takes a payload again and again until the connection ends; says after how many times.
fn flood(payload: impl Fn(u64) -> Vec<u8>) -> Option<(u64, u64)> {
    let mut connection = established();
    (0..100_000).find_map(|at| {
        let result = take(&mut connection, &payload(at));
        while connection.next_event().is_some() {}
        result.err().map(|error| (at, error.code))
    })
}

#[test]
fn frames_that_bring_nothing_have_an_end() {
    let limit = u64::from(IDLE_FRAMES_MAX);
    let end = |payload: &[u8]| flood(|_| payload.to_vec());
    let violation = code::PROTOCOL_VIOLATION;
    // Pings, challenges, repeated limits, ends of nothing, empty parts of streams.
    for payload in [
        &[0x01][..],
        &[0x01, 0x00],
        &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x10, 1],
        &[0x14, 1],
        &[0x04, 0, 0, 0],
        &[0x05, 0, 0],
        &[0x0a, 0, 0],
    ] {
        let (count, code) = end(payload).expect("it ends");
        assert!(count <= limit + 8 && code == violation, "{payload:?}: {count}");
    }
    // Bytes that are of use have none, but for the window.
    assert_eq!(end(&[0x0a, 0, 1, 9]), None);
}

#[test]
fn what_a_client_makes_us_keep_has_an_end() {
    // New ids, each of which retires the others.
    let ids = flood(|at| {
        let mut out = vec![0x18];
        write_varint(at + 1, &mut out);
        write_varint(at + 1, &mut out);
        out.push(8);
        out.extend((at + 1).to_be_bytes());
        out.extend([0; 16]);
        out
    });
    assert_eq!(ids.map(|(_, code)| code), Some(code::CONNECTION_ID_LIMIT_ERROR));
    // Parts of a stream with a gap between any two.
    let gaps = flood(|at| {
        let mut out = vec![0x0c | 2, 0];
        write_varint(2 * at + 1, &mut out);
        out.extend([1, 7]);
        out
    });
    assert_eq!(gaps.map(|(_, code)| code), Some(code::INTERNAL_ERROR));
    // The window of all streams.
    let window = flood(|at| {
        let mut out = vec![0x0c | 2];
        write_varint(4 * at, &mut out);
        write_varint(999, &mut out);
        out.extend([1, 7]);
        out
    });
    assert_eq!(window, Some((4, code::FLOW_CONTROL_ERROR)));
    let crypto = flood(|at| {
        let mut out = vec![0x06];
        write_varint(20_000 + at, &mut out);
        out.extend([1, 7]);
        out
    });
    assert_eq!(crypto, Some((0, code::CRYPTO_BUFFER_EXCEEDED)));
}

#[test]
fn who_speaks_and_acknowledges_nothing_is_given_up() {
    let mut connection = established();
    let idle = connection.local.idle_timeout;
    for seconds in 1..=29 {
        let now = Duration::from_secs(seconds);
        connection.heard = now;
        connection.on_timeout(now);
        assert_eq!(connection.closed(), None, "after {seconds} s");
    }
    assert!(connection.timeout().is_some_and(|at| at <= idle));
    connection.on_timeout(idle);
    assert_eq!(connection.closed(), Some(Closed::Idle));
}

#[test]
fn who_acknowledges_what_never_was_is_a_liar() {
    let mut connection = established();
    // Up to the first number that was left out, and over it.
    assert_eq!(take(&mut connection, &[0x02, 2, 0, 0, 2]), Ok(()));
    let lie = take(&mut connection, &[0x02, 5, 0, 0, 5]);
    assert_eq!(lie.map_err(|error| error.code), Err(code::PROTOCOL_VIOLATION));
    let mut connection = established();
    let ahead = take(&mut connection, &[0x02, 20, 0, 0, 0]);
    assert_eq!(ahead.map_err(|error| error.code), Err(code::PROTOCOL_VIOLATION));
    let acks = [0x02, 2, 0, 0, 0].repeat(5);
    let many = take(&mut connection, &acks);
    assert_eq!(many.map_err(|error| error.code), Err(code::PROTOCOL_VIOLATION));
}

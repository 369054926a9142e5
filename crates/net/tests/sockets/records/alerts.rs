//! What a peer can do wrong, what it is told and what the reader learns.

use super::puppet::{Puppet, Said, open_client};
use crate::common::*;
use freshet_net::tls::server::ServerOptions;
use freshet_wire::tls::ContentType::{Alert, ApplicationData, ChangeCipherSpec, Handshake};
use freshet_wire::tls::{FRAGMENT_BYTES_MAX, KEY_UPDATE_NOT_REQUESTED, description};
use rustls::version::{TLS12, TLS13};
use std::io::{self, IoSlice};

/// Bytes that a puppet sends instead of a good record.
type Wrong = fn(&mut Puppet) -> Vec<u8>;

/// A kind of misbehaviour and the alert it earns under TLS 1.2 and 1.3.
const WRONGS: &[(&str, Wrong, [Option<u8>; 2])] = {
    use description::*;
    &[
        (
            "a flipped bit",
            |puppet| {
                let mut record = puppet.seal(ApplicationData, b"data");
                record[20] ^= 1;
                record
            },
            [Some(BAD_RECORD_MAC); 2],
        ),
        (
            "a record twice",
            |puppet| puppet.seal(ApplicationData, b"data").repeat(2),
            [Some(BAD_RECORD_MAC); 2],
        ),
        (
            "a record left out",
            |puppet| {
                puppet.seal(ApplicationData, b"lost");
                puppet.seal(ApplicationData, b"data")
            },
            [Some(BAD_RECORD_MAC); 2],
        ),
        (
            "a record too short for its tag",
            |_| vec![23, 3, 3, 0, 3, 1, 2, 3],
            [Some(BAD_RECORD_MAC); 2],
        ),
        ("an empty fragment", |_| vec![23, 3, 3, 0, 0], [Some(BAD_RECORD_MAC); 2]),
        (
            "a record that is too long",
            |_| {
                let [high, low] = (FRAGMENT_BYTES_MAX as u16 + 1).to_be_bytes();
                vec![23, 3, 3, high, low]
            },
            [Some(RECORD_OVERFLOW); 2],
        ),
        (
            "a type that is none",
            |_| vec![0x47, 0x45, 0x54, 0x20, 0x2f],
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "change_cipher_spec in the clear",
            |_| vec![20, 3, 3, 0, 1, 1],
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "change_cipher_spec under protection",
            |puppet| puppet.seal(ChangeCipherSpec, &[1]),
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "an alert in the clear",
            |_| vec![21, 3, 3, 0, 2, 2, 40],
            [Some(BAD_RECORD_MAC), Some(UNEXPECTED_MESSAGE)],
        ),
        ("an alert of one byte", |puppet| puppet.seal(Alert, &[2]), [Some(DECODE_ERROR); 2]),
        ("an empty alert", |puppet| puppet.seal(Alert, &[]), [Some(UNEXPECTED_MESSAGE); 2]),
        (
            "an empty handshake record",
            |puppet| puppet.seal(Handshake, &[]),
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "an alert of unknown level",
            |puppet| puppet.seal(Alert, &[7, 0]),
            [Some(ILLEGAL_PARAMETER); 2],
        ),
        ("a fatal alert", |puppet| puppet.seal(Alert, &[2, 40]), [None; 2]),
        (
            "finished again",
            |puppet| puppet.seal(Handshake, &[20, 0, 0, 1, 9]),
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "a key update with unknown request",
            |puppet| puppet.seal(Handshake, &[24, 0, 0, 1, 2]),
            [Some(UNEXPECTED_MESSAGE), Some(ILLEGAL_PARAMETER)],
        ),
        (
            "a key update of two bytes",
            |puppet| puppet.seal(Handshake, &[24, 0, 0, 2, 0, 0]),
            [Some(UNEXPECTED_MESSAGE), Some(DECODE_ERROR)],
        ),
        (
            "a message behind a key update in its record",
            |puppet| puppet.seal(Handshake, &KEY_UPDATE_NOT_REQUESTED.repeat(2)),
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "data under the old key behind a key update",
            |puppet| {
                let mut bytes = puppet.seal(Handshake, &KEY_UPDATE_NOT_REQUESTED);
                bytes.extend(puppet.seal(ApplicationData, b"old key"));
                bytes
            },
            [Some(UNEXPECTED_MESSAGE), Some(BAD_RECORD_MAC)],
        ),
        (
            "data within a handshake message",
            |puppet| {
                let begun = puppet.hello[..5].to_vec();
                let kind = if puppet.sealer.version() == freshet_wire::tls::Version::Tls12 {
                    begun
                } else {
                    vec![24, 0]
                };
                let mut bytes = puppet.seal(Handshake, &kind);
                bytes.extend(puppet.seal(ApplicationData, b"data"));
                bytes
            },
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "33 empty records",
            |puppet| (0..33).flat_map(|_| puppet.seal(ApplicationData, b"")).collect(),
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
        (
            "five warnings",
            |puppet| (0..5).flat_map(|_| puppet.seal(Alert, &[1, USER_CANCELED])).collect(),
            [Some(UNEXPECTED_MESSAGE); 2],
        ),
    ]
};

#[test]
fn each_violation_earns_one_alert_and_ends_the_connection() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        for (index, version) in [&TLS12, &TLS13].into_iter().enumerate() {
            let client = open_client(&authority, version);
            for (what, wrong, alerts) in WRONGS {
                let (mut puppet, mut server) = Puppet::pair(&client, &config).await;
                // Good data in front arrives, and what comes behind does not.
                let mut bytes = puppet.seal(ApplicationData, b"good");
                bytes.extend(wrong(&mut puppet));
                bytes.extend(puppet.seal(ApplicationData, b"behind"));
                puppet.wire.write(&bytes).await.unwrap();
                let mut got = Vec::new();
                let error = loop {
                    let mut buffer = [0; 64];
                    match server.read(&mut buffer).await {
                        Ok(0) => panic!("{what}: a clean end"),
                        Ok(count) => got.extend_from_slice(&buffer[..count]),
                        Err(error) => break error,
                    }
                };
                assert!(got == b"good" || got == b"gooddata", "{what}: {got:?}");
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{what}");
                for _ in 0..2 {
                    let again = server.read(&mut [0; 9]).await.unwrap_err();
                    assert_eq!(again.to_string(), error.to_string(), "{what}");
                }
                let refused = server.write_pieces(&[IoSlice::new(b"no")]).await.unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{what}");
                server.shutdown().await.unwrap();
                let said = puppet.hear_all().await;
                let expected = alerts[index].map_or(Said::End, Said::Alert);
                assert_eq!(said, [expected], "{what}, {version:?}");
            }
        }
    });
}

#[test]
fn renegotiation_is_declined_once_and_refused_after_that() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let (mut puppet, mut server) =
            Puppet::pair(&open_client(&authority, &TLS12), &config).await;
        let hello = puppet.hello.clone();
        // In two records, as a large one may be.
        let (front, back) = hello.split_at(100);
        puppet.send(Handshake, front).await;
        puppet.send(Handshake, back).await;
        puppet.send(ApplicationData, b"and on").await;
        assert_eq!(read_exactly(&mut server, 6, 6).await, b"and on");
        server.write(b"still here").await.unwrap();
        // The warning came in front of it and is not told apart here.
        assert_eq!(puppet.hear().await, Said::Data(b"still here".to_vec()));
        puppet.send(Handshake, &hello).await;
        let error = server.read(&mut [0; 9]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(puppet.hear().await, Said::Alert(description::UNEXPECTED_MESSAGE));
    });
}

#[test]
fn every_flipped_bit_of_a_record_ends_the_connection() {
    run(async {
        let authority = Authority::new();
        let config = localhost(&authority, &ServerOptions::default());
        let client = open_client(&authority, &TLS13);
        let bits = Puppet::pair(&client, &config).await.0.seal(ApplicationData, b"x").len() * 8;
        // The two bytes of the length are another matter: the record may wait for more.
        for bit in (0..24).chain(40..bits) {
            let (mut puppet, mut server) = Puppet::pair(&client, &config).await;
            let mut record = puppet.seal(ApplicationData, b"x");
            record[bit / 8] ^= 1 << (bit % 8);
            puppet.wire.write(&record).await.unwrap();
            let error = server.read(&mut [0; 9]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "bit {bit}");
        }
    });
}

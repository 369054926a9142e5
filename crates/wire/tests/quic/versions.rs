//! Versions 1 and 2, and the choice between them (RFC 9368, RFC 9369).

use crate::errors::numbers;
use crate::raw::{Odd, Raw, parameters};
use crate::requests::get;
use crate::world::{client_tls, early_tls, tls};
use freshet_quic::Version::{self, V1, V2};
use freshet_quic::error::code::{TRANSPORT_PARAMETER_ERROR, VERSION_NEGOTIATION_ERROR};
use freshet_quic::packet::Kind;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

/// A version that only keeps servers from knowing all of them (RFC 9000 §15).
const GREASE: u32 = 0x5a6a_7a8a;

/// What a client says of versions.
fn said(chosen: u32, available: &[u32]) -> Vec<u8> {
    let all = [chosen].into_iter().chain(available.iter().copied());
    let value: Vec<u8> = all.flat_map(u32::to_be_bytes).collect();
    parameters(&[(0x11, Some(&value))])
}

fn of(version: Version, later: Version, parameters: Vec<u8>) -> Raw {
    Raw::speaking((version, later), parameters, &[b"h3"], client_tls(), &tls().0)
}

/// Asks for something and is answered.
fn is_served(raw: &mut Raw) {
    let (requests, stream) = (raw.requests, 4 * raw.requests as u64);
    raw.stream(2, 0, &[0, 4, 0], false);
    raw.stream(stream, 0, &get(), true);
    assert_eq!((raw.requests, raw.heard.closed), (requests + 1, None));
    assert!(raw.heard.bytes.contains_key(&stream), "{:?}", raw.heard);
}

#[test]
fn each_version_is_spoken() {
    for version in Version::ALL {
        for parameters in [
            said(version.number(), &[version.number()]),
            said(version.number(), &[GREASE, version.number()]),
            parameters(&[]),
        ] {
            let mut raw = of(version, version, parameters);
            raw.shake_hands();
            is_served(&mut raw);
            assert_eq!(raw.version, version);
        }
    }
}

#[test]
fn the_version_that_the_client_likes_best_is_taken_without_a_round_trip() {
    for (version, available, want) in [
        (V1, [GREASE, V2.number(), V1.number()], V2),
        (V1, [V1.number(), V2.number(), GREASE], V1),
        (V2, [V1.number(), V2.number(), GREASE], V1),
        (V2, [GREASE, V2.number(), V1.number()], V2),
    ] {
        let mut raw = of(version, want, said(version.number(), &available));
        raw.shake_hands();
        is_served(&mut raw);
        assert_eq!(raw.version, want);
        // It took as much as a client's that began with it.
        let mut other = of(want, want, said(want.number(), &available));
        other.shake_hands();
        is_served(&mut other);
        assert_eq!(raw.server.quic.statistics(), other.server.quic.statistics());
        assert_eq!(raw.heard.datagrams, other.heard.datagrams);
    }
}

#[test]
fn a_first_message_in_pieces_is_of_the_version_that_it_began_with() {
    let mut raw = of(V1, V2, said(1, &[V2.number(), 1]));
    let hello = raw.hello();
    let (first, rest) = hello.split_at(100);
    raw.say(Kind::Initial, first);
    // It was acknowledged, by who does not know of another version yet.
    assert_eq!((raw.version, raw.heard.acks), (V1, 1));
    raw.say(Kind::Initial, rest);
    assert_eq!(raw.version, V2);
    raw.frames(&[1]);
    is_served(&mut raw);
}

#[test]
fn what_is_of_another_version_is_dropped_once_one_is_chosen() {
    let mut raw = of(V1, V2, said(1, &[V2.number(), 1]));
    let hello = raw.hello();
    // A packet of the version before that is late is still taken; one of the handshake is not.
    let late = raw.sealed(Odd::of(Kind::Initial), &[1]);
    raw.is_deaf = true;
    raw.say(Kind::Initial, &hello);
    let before = raw.server.quic.statistics();
    raw.bring(&mut late.clone());
    let after = raw.server.quic.statistics();
    assert_eq!(after.packets_received, before.packets_received + 1);
    let mut handshake = vec![0xe0, 0, 0, 0, 1, 8];
    handshake.extend([9; 8]);
    handshake.push(8);
    handshake.extend([5; 8]);
    handshake.extend([0x40, 40]);
    handshake.resize(handshake.len() + 40, 7);
    raw.bring(&mut handshake);
    let last = raw.server.quic.statistics();
    assert_eq!(last.packets_dropped, after.packets_dropped + 1);
}

#[test]
fn who_changes_the_version_on_the_way_is_seen() {
    for (version, parameters, code) in [
        // Somebody made the client's packets those of another version.
        (V1, said(V2.number(), &[V2.number(), 1]), VERSION_NEGOTIATION_ERROR),
        (V2, said(1, &[1, V2.number()]), VERSION_NEGOTIATION_ERROR),
        (V1, said(GREASE, &[GREASE, 1]), VERSION_NEGOTIATION_ERROR),
        // What cannot be read.
        (V1, said(1, &[]), TRANSPORT_PARAMETER_ERROR),
        (V1, said(1, &[V2.number()]), TRANSPORT_PARAMETER_ERROR),
        (V1, said(1, &[1, 0]), TRANSPORT_PARAMETER_ERROR),
        (V2, said(0, &[0]), TRANSPORT_PARAMETER_ERROR),
        (V1, parameters(&[(0x11, Some(&[0, 0, 0, 1, 0, 0, 0, 1, 9]))]), TRANSPORT_PARAMETER_ERROR),
    ] {
        let mut raw = of(version, version, parameters);
        raw.shake_hands();
        assert_eq!(raw.heard.closed, Some((false, code)));
        assert_eq!(raw.version, version);
    }
}

/// A client that speaks one version, was here with another, and says its first message with early data.
fn again(
    before: Version,
    now: Version,
    (client, server): (&ClientConfig, &Arc<ServerConfig>),
) -> Raw {
    let new = |version: Version| {
        let parameters = said(version.number(), &[version.number()]);
        Raw::speaking((version, version), parameters, &[b"h3"], client.clone(), server)
    };
    new(before).shake_hands();
    let mut raw = new(now);
    let hello = raw.hello();
    raw.is_deaf = true;
    raw.say(Kind::Initial, &hello);
    raw.is_deaf = false;
    raw
}

#[test]
fn sessions_and_early_data_stay_with_their_version() {
    for before in Version::ALL {
        for now in Version::ALL {
            let (client, server) = early_tls();
            let mut raw = again(before, now, (&client, &server));
            assert_eq!(raw.server.quic.is_early(), before == now, "{before:?} {now:?}");
            if before == now {
                let mut request = numbers(0x0b, &[0, get().len() as u64], &[]);
                request.extend(get());
                raw.packet(Odd::of(Kind::ZeroRtt), &request);
                assert_eq!((raw.requests, raw.heard.closed), (1, None));
            }
        }
    }
}

#[test]
fn who_continues_a_session_keeps_its_version() {
    let (client, server) = early_tls();
    let available = said(1, &[V2.number(), 1]);
    let new = |later, parameters: &[u8]| {
        Raw::speaking((V1, later), parameters.to_vec(), &[b"h3"], client.clone(), &server)
    };
    new(V1, &said(1, &[1])).shake_hands();
    let mut raw = new(V1, &available);
    raw.shake_hands();
    is_served(&mut raw);
    assert_eq!(raw.version, V1);
}

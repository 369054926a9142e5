//! Answers broken in a hundred ways: an error that says so, the old certificate goes on, and the next
//! good answer is taken.

use crate::authority::{Fate, Reply};
use crate::support::{Bench, error_of, until};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// What requests begin with, one of each kind.
const PLACES: [&str; 7] = [
    "GET /dir",
    "HEAD /nonce",
    "POST /order ",
    "POST /orders/",
    "POST /authz/",
    "POST /finalize/",
    "POST /certificate/",
];

/// Another form of an answer; `None` past the last one.
fn broken(reply: &Reply, way: usize) -> Option<Reply> {
    let mut reply = reply.clone();
    let text = reply.body.clone();
    let bodies: [Vec<u8>; 9] = [
        Vec::new(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"{}".to_vec(),
        text[..text.len() / 2].to_vec(),
        vec![0xff; 64],
        vec![b'['; 100_000],
        vec![b' '; 400 << 10],
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec(),
    ];
    let values =
        [Value::Null, Value::from(-1), Value::from("\u{0}\n"), Value::from("x".repeat(5000))];
    if let Some(body) = bodies.get(way) {
        reply.body.clone_from(body);
        return Some(reply);
    }
    let way = way - bodies.len();
    if let Some(status) = [199, 204, 301, 404, 503].get(way) {
        reply.status = *status;
        return Some(reply);
    }
    let way = way - 5;
    if way == 0 {
        reply.fields.clear();
        return Some(reply);
    }
    // Each member of a document with each wrong value.
    let mut document: Value = serde_json::from_slice(&text).ok()?;
    let members = document.as_object_mut()?;
    let name = members.keys().nth((way - 1) / values.len())?.clone();
    members.insert(name, values[(way - 1) % values.len()].clone());
    reply.body = document.to_string().into_bytes();
    Some(reply)
}

#[test]
fn a_broken_answer_is_an_error_and_the_next_good_one_is_taken() {
    let bench = Bench::new();
    let running = bench.start();
    until(|| bench.has_certificate());
    let ended = || {
        let status = running.status();
        let failed: u64 = status.failures().iter().map(|(_, count)| count).sum();
        failed + status.obtained.load(SeqCst)
    };
    let mut tried = 0;
    for place in PLACES {
        for way in 0.. {
            // After a failure everything is asked for again, the directory and nonces too.
            bench.authority.twist(Arc::new(|_, _, _| Fate::Cut));
            running.renew(&[]);
            until(|| error_of(&running).is_some());
            let met = Arc::new(AtomicUsize::new(0));
            let (seen, is_over) = (Arc::clone(&met), Arc::new(AtomicUsize::new(0)));
            let over = Arc::clone(&is_over);
            bench.authority.twist(Arc::new(move |_, what, reply| {
                if !format!("{what} ").starts_with(place) {
                    return Fate::Answer(reply);
                }
                seen.fetch_add(1, SeqCst);
                match broken(&reply, way) {
                    Some(reply) => Fate::Answer(reply),
                    None => {
                        over.fetch_add(1, SeqCst);
                        Fate::Answer(reply)
                    }
                }
            }));
            // Some ways change nothing that matters: then the certificate comes. An order that was cut
            // half-way goes on where its journal says, and asks for less: then another one does.
            for orders in 0.. {
                assert!(orders < 20, "{place} was never asked for");
                let before = ended();
                running.renew(&[]);
                until(|| ended() > before);
                if met.load(SeqCst) > 0 {
                    break;
                }
            }
            assert!(bench.has_certificate(), "{place}, way {way}");
            if let Some(error) = error_of(&running) {
                assert!(error.chars().count() < 1000, "{place}, way {way}: {error}");
                assert!(!error.contains(|c: char| c.is_control()), "{place}, way {way}: {error:?}");
            }
            bench.authority.behave();
            running.renew(&[]);
            until(|| error_of(&running).is_none());
            tried += 1;
            if is_over.load(SeqCst) > 0 {
                break;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

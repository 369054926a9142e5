//! Which part of the requests each backend of a random director gets, here and with Debian's Varnish, whatever
//! is drawn.

use super::Pair;
use super::client::Client;
use super::requests::Ask;
use super::server::Server;

/// Of so many a share is off by a tenth once in millions of times.
const REQUESTS: usize = 400;
const OFF_MAX: f64 = 0.1;

/// A policy of two backends, of which the second gets `share` of what there is.
const POLICIES: [(&str, f64); 3] = [
    ("rd.add_backend(b0, 1.0); rd.add_backend(b1, 3.0);", 0.75),
    ("rd.add_backend(b0, 2.0); rd.add_backend(b1, 1.0); rd.add_backend(b0, 1.0);", 0.25),
    ("rd.add_backend(b0, 1.0); rd.add_backend(b1, 1.0); rd.remove_backend(b0);", 1.0),
];

#[test]
fn random_directors_share_as_they_do_under_varnish() {
    let Some(mut pair) = Pair::started() else { return };
    for (members, share) in POLICIES {
        let policy = format!(
            "vcl 4.1; import directors;
            backend b0 {{ .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }}
            backend b1 {{ .host = \"127.0.0.1\"; .port = \"OTHER\"; }}
            sub vcl_init {{ new rd = directors.random(); {members} }}
            sub vcl_recv {{ return (pass); }}
            sub vcl_backend_fetch {{ set bereq.backend = rd.backend(); }}"
        );
        for (server, seed) in [(&mut pair.ours, 20), (&mut pair.debians, 30)] {
            let got = second_share(server, &policy, seed);
            assert!((got - share).abs() < OFF_MAX, "{members}: {got}");
        }
    }
}

/// Which part of the requests the second backend gets.
fn second_share(server: &mut Server, policy: &str, seed: u32) -> f64 {
    server.load(policy).unwrap();
    server.draws_by(seed);
    let mut client = Client::new(&server.address);
    let text = "GET /1 HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned();
    let ask = Ask { method: "GET".into(), text, is_beside: false };
    let is_second = |said: &String| said.contains("X-From: other");
    let seconds = (0..REQUESTS).filter(|_| client.ask(&ask).messages.iter().any(is_second)).count();
    seconds as f64 / REQUESTS as f64
}

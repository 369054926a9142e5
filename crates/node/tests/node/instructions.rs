//! What a hit costs in instructions of ours.

#[path = "../../../../bench/instructions/count.rs"]
mod count;

use crate::client::{Client, HOST};
use crate::harness::{Setup, TestNode, pattern, run};
use crate::origin::{Origin, fresh, response};
use freshet_config::SiteSettings;
use freshet_config::hosts::HostPattern;
use freshet_site::site::Site;
use freshet_site::sites::SiteName;
use freshet_wire::h2::PREFACE;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Asks for an object that is cached, over one connection, `rounds` times.
fn hits(rounds: u64, body_bytes: u64) {
    hits_of(rounds, body_bytes, Setup::start);
}

/// The same of a node that is started like this.
fn hits_of(rounds: u64, body_bytes: u64, start: impl FnOnce(&Setup) -> TestNode) {
    run(async {
        let origin = Origin::serve(move |_| fresh(pattern(1, 0..body_bytes)));
        let node = start(&Setup { workers: 1, ..Setup::of(&origin) });
        let response = Client::to(&node).await.get("/object").await;
        assert_eq!(response.body.len() as u64, body_bytes);
        ask_again(&node, rounds, "", response.body.len());
        assert_eq!(node.count("hits"), rounds);
    });
}

/// The same of a text that is kept in a coding the client takes.
fn coded_hits(rounds: u64) {
    const BROTLI: &str = "Accept-Encoding: br, gzip";
    run(async {
        let text = "all work and no play ".repeat(400);
        let fields = &["Content-Type: text/html", "Cache-Control: max-age=600"];
        let origin = Origin::serve(move |_| response("200 OK", fields, &text));
        let coded = Setup { workers: 1, ..Setup::of(&origin) }.and("[cache]\ncodings = [\"br\"]");
        let node = coded.start();
        let mut client = Client::to(&node).await;
        let answer = loop {
            let answer = client.get_with("/object", &[BROTLI]).await;
            if answer.field("content-encoding") == Some("br") {
                break answer;
            }
        };
        let before = node.count("hits");
        ask_again(&node, rounds, &format!("{BROTLI}\r\n"), answer.body.len());
        assert_eq!(node.count("hits"), before + rounds);
    });
}

/// Asks over a connection of its own, with these lines of fields more, for what is answered with so many bytes.
fn ask_again(node: &TestNode, rounds: u64, fields: &str, body_bytes: usize) {
    // A blocking client costs next to nothing of Rust code.
    let mut client = TcpStream::connect(node.address()).unwrap();
    let request =
        format!("GET /object HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: count\r\n{fields}\r\n");
    let mut received = vec![0; 64 << 10];
    for _ in 0..rounds {
        client.write_all(request.as_bytes()).unwrap();
        let mut count = client.read(&mut received).unwrap();
        let head = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let bytes = head + 4 + body_bytes;
        while count < bytes {
            count += client.read(&mut received[count..]).unwrap();
        }
        assert_eq!(count, bytes);
    }
}

/// A node with so many sites. They are copies of one, as to read so long a text takes more than all rounds.
fn start_with_sites(setup: &Setup, count: usize) -> TestNode {
    setup.start_with(|one| {
        let site = |host: String| {
            let settings = SiteSettings {
                name: host.clone(),
                hosts: vec![HostPattern::Exact(host.as_str().into())],
                ..(*one.settings).clone()
            };
            let (name, settings) = (SiteName::new(&host), Arc::new(settings));
            Arc::new(Site { name, settings, ..one.clone() })
        };
        let others = (1..count).map(|number| site(format!("www.site-{number}.example")));
        others.chain([site(HOST.to_owned())]).collect()
    })
}

/// What a hit may take more where there are so many sites, and not one.
const MORE_PERCENT: u64 = 3;

/// The same over HTTP/2, one stream after another.
fn hits_2(rounds: u64, body_bytes: u64) {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const WIDER: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x40, 0, 0, 0];
    run(async {
        let origin = Origin::serve(move |_| fresh(pattern(1, 0..body_bytes)));
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        let response = Client::to(&node).await.get("/object").await;
        assert_eq!(response.body.len() as u64, body_bytes);
        let mut client = TcpStream::connect(node.address()).unwrap();
        client.write_all(&[PREFACE, &SETTINGS, &WIDER].concat()).unwrap();
        // GET, http, and two literals that are not to be remembered.
        let mut block = vec![0x82, 0x86, 4, 7];
        block.extend_from_slice(b"/object");
        block.extend_from_slice(&[1, HOST.len() as u8]);
        block.extend_from_slice(HOST.as_bytes());
        let (mut received, mut filled) = (vec![0; 128 << 10], 0);
        for round in 0..rounds {
            let stream = (2 * round as u32 + 1).to_be_bytes();
            let header = [&[0, 0, block.len() as u8, 1, 5][..], &stream].concat();
            client.write_all(&[header, block.clone()].concat()).unwrap();
            let mut ended = false;
            while !ended {
                filled += client.read(&mut received[filled..]).unwrap();
                let mut start = 0;
                while let Some(header) = received[start..filled].first_chunk::<9>() {
                    let len = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                    if start + 9 + len > filled {
                        break;
                    }
                    ended |= header[3] == 0 && header[4] & 1 != 0;
                    start += 9 + len;
                }
                received.copy_within(start..filled, 0);
                filled -= start;
            }
        }
        assert_eq!((node.count("hits"), node.count("requests_h2")), (rounds, rounds));
    });
}

#[test]
fn a_small_hit_over_http_2() {
    count::check("hit-h2-small", |rounds| hits_2(rounds, 1024));
}

#[test]
fn a_small_hit() {
    count::check("hit-small", |rounds| hits(rounds, 1024));
}

#[test]
fn a_small_hit_of_one_of_ten_thousand_sites() {
    count::check_beside("hit-10000-sites", ("hit-1-site", MORE_PERCENT), |name, rounds| {
        let sites = if name == "hit-1-site" { 1 } else { 10_000 };
        hits_of(rounds, 1024, |setup| start_with_sites(setup, sites));
    });
}

#[test]
fn a_hit_of_several_pages() {
    count::check("hit-32k", |rounds| hits(rounds, 32 << 10));
}

#[test]
fn a_hit_that_is_kept_in_a_coding() {
    count::check("hit-coded", coded_hits);
}

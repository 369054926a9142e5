//! What tracing adds to a hit, in instructions of ours: next to nothing for those that are not sampled.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a scenario says what it found")]

#[path = "../../../bench/instructions/count.rs"]
mod count;
#[path = "../../../tests/skip.rs"]
mod skip;

use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_node::node::Node;
use freshet_node::preflight::Prepared;
use freshet_node::transcript::Scribe;
use freshet_traces::{Collector, Signal, Tracer};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const BODY: [u8; 1024] = [b'x'; 1024];

/// A server that answers each connection's requests with a body that is kept.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut asked = vec![0; 64 << 10];
            while stream.read(&mut asked).is_ok_and(|count| count > 0) {
                let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n";
                let head = format!("{head}Content-Length: {}\r\n\r\n", BODY.len());
                let _ = stream.write_all(&[head.as_bytes(), &BODY].concat());
            }
        }
    });
    address
}

/// Asks for an object over one connection: once to have it cached, and then so many times.
fn hits(rounds: u64, tracing: &str) {
    let text = format!(
        "workers = 1\nmemory = \"64MiB\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[origin]]\nurl = \"http://{}\"\n{tracing}",
        origin()
    );
    let settings = Settings::from_document(&Document::parse(&text).unwrap()).unwrap();
    let tracer = settings.tracing.as_ref().map(|tracing| {
        let collector = Collector::new(tracing, Signal::Traces).unwrap();
        Tracer::start(tracing, collector).unwrap()
    });
    let scribe = tracer.clone().map(|tracer| tracer as Arc<dyn Scribe>);
    let prepared = Prepared::new(settings, None).unwrap();
    let node = Node::start_with(prepared, &mut Default::default(), scribe).unwrap();
    node.open();
    let mut client = TcpStream::connect(node.socket_addresses()[0]).unwrap();
    let request = "GET /object HTTP/1.1\r\nHost: a.example\r\nUser-Agent: count\r\n\r\n";
    let mut received = vec![0; 64 << 10];
    for _ in 0..=rounds {
        client.write_all(request.as_bytes()).unwrap();
        let mut count = client.read(&mut received).unwrap();
        // What the test does itself is counted as well, so that it does little.
        while !received[..count].ends_with(&BODY) {
            count += client.read(&mut received[count..]).unwrap();
        }
    }
    assert_eq!(node.sums().counter("hits"), rounds);
    node.stop();
    node.join();
    tracer.iter().for_each(|tracer| tracer.stop());
}

#[test]
fn a_hit_that_is_not_traced() {
    count::check("hit-untraced", |rounds| hits(rounds, ""));
}

/// Nobody listens where spans would go: the few that are sampled are lost.
#[test]
fn a_hit_with_one_in_a_thousand_traced() {
    let tracing = "[tracing]\notlp = \"http://127.0.0.1:9\"\nsample = 1000\n";
    count::check("hit-traced", |rounds| hits(rounds, tracing));
}

/// The figures that the two above are held to.
#[test]
fn tracing_one_in_a_thousand_adds_one_percent_at_most() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/instructions/figures.txt");
    let text = fs::read_to_string(path).unwrap();
    let [without, with] = ["hit-untraced", "hit-traced"]
        .map(|name| count::figure(&text, name).unwrap_or_else(|| panic!("{name} has no figure")));
    assert!(with * 100 <= without * 101, "{with} with tracing, {without} without");
}

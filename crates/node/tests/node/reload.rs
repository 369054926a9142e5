//! Changes while requests are under way.

use crate::client::{Client, get};
use crate::harness::{Setup, pattern, run, until};
use crate::origin::{Origin, fresh, head, response};
use std::sync::Arc;

#[test]
fn a_new_name_shows_on_the_next_request_while_a_download_finishes() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[cache]\nname = \"before\"").start();
        let mut download = Client::to(&node).await;
        download.ask("GET", "/large", &[]).await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(1_000_000)));
        asked.send(pattern(1, 0..400_000));
        assert!(
            download.head().await.unwrap().field("cache-status").unwrap().starts_with("before")
        );
        assert!(download.some(400_000).await == pattern(1, 0..400_000));
        let mut open = Client::to(&node).await;
        open.ask("GET", "/small", &[]).await;
        origin.next().await.send(fresh("x"));
        assert!(open.answer("GET").await.cache().starts_with("before"));
        node.node.reload(Setup::of(&origin).and("[cache]\nname = \"after\"").settings()).unwrap();
        // Workers hear of it each in its time, and connections that were open do too.
        while !open.get("/small").await.cache().starts_with("after") {}
        while !get(&node, "/small").await.cache().starts_with("after") {}
        asked.send(pattern(1, 400_000..1_000_000));
        assert!(download.some(600_000).await == pattern(1, 400_000..1_000_000));
    });
}

#[test]
fn an_idle_connection_keeps_nothing_of_a_configuration_that_is_gone() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).start();
        let mut idle = Client::to(&node).await;
        idle.get("/").await;
        let before = Arc::downgrade(&node.node.snapshot().settings);
        node.node.reload(Setup::of(&origin).and("[cache]\nname = \"after\"").settings()).unwrap();
        until(|| before.strong_count() == 0).await;
        assert!(idle.get("/").await.cache().starts_with("after"));
    });
}

#[test]
fn another_origin_is_asked_after_a_reload_and_objects_stay() {
    run(async {
        let one = Origin::serve(|asked| match asked.target() {
            "/kept" => fresh("one"),
            _ => response("200 OK", &["Cache-Control: no-store"], "one"),
        });
        let two = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "two"));
        let node = Setup::of(&one).start();
        assert_eq!(get(&node, "/kept").await.text(), "one");
        assert_eq!(get(&node, "/passed").await.text(), "one");
        node.node.reload(Setup::of(&two).settings()).unwrap();
        while get(&node, "/passed").await.text() != "two" {}
        assert_eq!(get(&node, "/kept").await.text(), "one");
    });
}

#[test]
fn a_drain_lets_open_requests_finish_and_takes_no_new_ones() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).start();
        let mut idle = Client::to(&node).await;
        let mut busy = Client::to(&node).await;
        busy.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(6)));
        asked.send("abc");
        busy.head().await.unwrap();
        let address = node.address();
        node.node.drain();
        assert!(idle.ended().await);
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        asked.send("def");
        assert_eq!(busy.some(6).await, b"abcdef");
        assert!(busy.ended().await);
        node.node.join();
        assert!(node.node.is_draining());
    });
}

#[test]
fn a_drain_lets_http_2_streams_finish() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).start();
        let mut client = crate::h2::connect(&node).await;
        let response = crate::h2::ask(&mut client, "GET", "/a").await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(6)));
        asked.send("abc");
        let (_, mut stream) = response.await.unwrap().into_parts();
        assert_eq!(stream.data().await.unwrap().unwrap().as_ref(), b"abc");
        node.node.drain();
        asked.send("def");
        let mut rest = Vec::new();
        while let Some(bytes) = stream.data().await {
            rest.extend_from_slice(&bytes.unwrap());
        }
        assert_eq!(rest, b"def");
        node.node.join();
    });
}

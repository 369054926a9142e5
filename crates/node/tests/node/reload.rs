//! Changes while requests are under way.

use crate::authority::Authority;
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
fn nobody_is_sent_to_https_before_somebody_listens_there() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "here"));
        let redirect = |from: &str| {
            format!(
                "[[redirect]]\nfrom = \"{from}\"\nscheme = \"http\"\nto = \"https://{{host}}/{{rest}}\"\n"
            )
        };
        let before =
            format!("{}[[redirect]]\nfrom = \"/old\"\nto = \"/new\"\n", redirect("/balancer/*"));
        let node = Setup::of(&origin).and(&before).start();
        let mut encrypted = Setup::of(&origin).and(&before).and(&redirect("/*"));
        // What a load balancer in front makes of HTTPS is another's: without a listener of its own there is
        // nothing to wait for.
        assert_eq!(node.node.reload(encrypted.settings()).unwrap(), [""; 0]);
        while get(&node, "/a").await.status != 301 {}
        node.node.reload(Setup::of(&origin).and(&before).settings()).unwrap();
        while get(&node, "/a").await.status != 200 {}
        encrypted.listen.push_str("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n");
        let encrypted = encrypted.and(&certificate).and("[cache]\nname = \"after\"");
        for _ in 0..2 {
            assert_eq!(node.node.reload(encrypted.settings()).unwrap(), ["listen", "redirect"]);
            while !get(&node, "/x").await.cache().starts_with("after") {}
            assert_eq!(get(&node, "/a").await.text(), "here");
            // What was there before stays.
            assert_eq!(get(&node, "/balancer/a").await.status, 301);
            assert_eq!(get(&node, "/old").await.field("location"), Some("/new"));
        }
        assert_eq!(get(&encrypted.start(), "/a").await.status, 301);
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

//! Requests that come back.

use crate::client::{get, get_with, request};
use crate::harness::{Setup, run};
use crate::origin::{Origin, response};

fn named(origin: &Origin, name: &str) -> Setup {
    Setup::of(origin).and(&format!("[cache]\nloop_id = \"{name}\""))
}

#[test]
fn every_request_to_an_origin_names_the_node() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let node = named(&origin, "edge-1").start();
        get_with(&node, "/a", &["CDN-Loop: other; v=\"1, 2\""]).await;
        request(&node, "POST", "/a", &["Content-Length: 0"]).await;
        let unnamed = Setup::of(&origin).start();
        get(&unnamed, "/a").await;
        get(&unnamed, "/b").await;
        let said: Vec<_> = origin
            .requests()
            .iter()
            .map(|asked| asked.field("cdn-loop").unwrap_or_default().to_owned())
            .collect();
        assert_eq!(said[..2], ["other; v=\"1, 2\", edge-1", "edge-1"]);
        assert!(said[2].starts_with("freshet-") && said[2] == said[3], "{said:?}");
    });
}

#[test]
fn a_question_for_what_is_possible_goes_as_far_as_it_says() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let node = Setup::of(&origin).start();
        let here = request(&node, "OPTIONS", "/a", &["Max-Forwards: 0"]).await;
        assert_eq!((here.status, here.body.len(), origin.count()), (204, 0, 0));
        assert!(here.field("allow").unwrap().contains("GET"), "{:?}", here.field("allow"));
        for (said, forwarded) in [("5", "4"), ("1", "0"), ("x", "x")] {
            request(&node, "OPTIONS", "/a", &[&format!("Max-Forwards: {said}")]).await;
            let asked = origin.requests();
            assert_eq!(asked.last().unwrap().field("max-forwards"), Some(forwarded));
        }
        // It means nothing beside other methods.
        assert_eq!(request(&node, "GET", "/a", &["Max-Forwards: 0"]).await.status, 200);
    });
}

#[test]
fn a_request_that_was_here_is_refused_and_a_chain_is_not() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let parent = Setup::of(&origin).start();
        let child = Setup::url(&format!("http://{}", parent.address())).start();
        assert_eq!(get(&child, "/a").await.text(), "x");
        let node = named(&origin, "edge-1").start();
        let count = origin.count();
        for method in ["GET", "POST", "OPTIONS"] {
            let fields = ["CDN-Loop: a, EDGE-1;x=y", "Content-Length: 0"];
            let answer = request(&node, method, "/a", &fields).await;
            assert_eq!(answer.status, 508, "{method}");
            assert!(answer.cache().contains("detail=loop"), "{}", answer.cache());
        }
        // A string that was left open would hide whatever is appended.
        assert_eq!(get_with(&node, "/a", &["CDN-Loop: a;x=\""]).await.status, 400);
        assert_eq!(origin.count(), count);
    });
}

#[test]
fn a_node_that_is_its_own_origin_ends_the_loop() {
    run(async {
        let first = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut setup = Setup::url(&format!("http://{first}"));
        setup.listen = format!("[[listen]]\naddress = \"{first}\"\n");
        let node = setup.start();
        assert_eq!(get(&node, "/a").await.status, 508);
        assert_eq!(node.count("requests"), 2);
    });
}

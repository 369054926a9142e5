//! Clients behind a load balancer that says with each request who they are.

use crate::client::{Answer, get_with, request};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, response};

/// An origin that says who it was asked for, and how that one came.
fn echo() -> Origin {
    Origin::serve(|asked| {
        let for_whom = asked.field("x-forwarded-for").unwrap_or("-").to_owned();
        let scheme = asked.field("x-forwarded-proto").unwrap_or("-").to_owned();
        response("200 OK", &["Cache-Control: no-store"], format!("{for_whom} {scheme}"))
    })
}

const BEHIND: &str = "[forwarded]\nfrom = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n";

async fn asked_for(node: &TestNode, clients: &str, target: &str) -> Answer {
    get_with(node, target, &[&format!("X-Forwarded-For: {clients}")]).await
}

#[test]
fn rules_go_by_the_client_and_the_origin_hears_of_all() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and(BEHIND)
            .and("[[access]]\npath = \"/inside/\"\nallow = [\"192.0.2.0/24\"]\n")
            .and("[[rate_limit]]\npath = \"/once\"\nrate = \"1/h\"\n")
            .and("[[header]]\nname = \"X-Client\"\nvalue = \"{client}\"\n")
            .start();
        let answer = asked_for(&node, "192.0.2.1, 10.0.0.1", "/inside/").await;
        assert_eq!(answer.text(), "192.0.2.1, 127.0.0.1 http");
        assert_eq!(answer.field("x-client"), Some("192.0.2.1"));
        let fields = ["X-Forwarded-For: 192.0.2.1, 10.0.0.1", "Content-Length: 0"];
        let passed = request(&node, "POST", "/inside/", &fields).await;
        assert_eq!(passed.text(), "192.0.2.1, 10.0.0.1, 127.0.0.1 http");
        for other in ["198.51.100.1", "192.0.2.1, 198.51.100.1", "unknown", ""] {
            assert_eq!(asked_for(&node, other, "/inside/").await.status, 403, "{other}");
        }
        for (client, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.1", 429)] {
            assert_eq!(asked_for(&node, client, "/once").await.status, status, "{client}");
        }
        // The node itself may purge, and nobody through the load balancer.
        let purged = request(&node, "PURGE", "/inside/", &["X-Forwarded-For: 192.0.2.1"]).await;
        assert_eq!(purged.status, 405);
    });
}

#[test]
fn how_a_client_came_to_the_load_balancer_is_how_it_came() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and(BEHIND)
            .and("[[redirect]]\nscheme = \"http\"\nto = \"https://{host}/{rest}\"\n")
            .start();
        let over = |scheme: &'static str| {
            let fields = format!("X-Forwarded-Proto: {scheme}");
            let node = &node;
            async move { get_with(node, "/a", &[&fields]).await }
        };
        assert_eq!(over("http").await.status, 301);
        let answer = over("https").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "127.0.0.1 https"));
    });
}

#[test]
fn nobody_else_is_believed() {
    run(async {
        let origin = echo();
        let of_others = "[forwarded]\nfrom = [\"10.0.0.0/8\"]\nfield = \"True-Client-IP\"\n";
        let access = "[[access]]\npath = \"/inside/\"\nallow = [\"192.0.2.0/24\"]\n";
        for setup in [Setup::of(&origin), Setup::of(&origin).and(of_others)] {
            let node = setup.and(access).start();
            let fields = ["X-Forwarded-For: 192.0.2.1", "True-Client-IP: 192.0.2.1"];
            assert_eq!(get_with(&node, "/inside/", &fields).await.status, 403);
            let answer = get_with(&node, "/", &["X-Forwarded-Proto: https"]).await;
            assert_eq!(answer.text(), "127.0.0.1 http");
        }
    });
}

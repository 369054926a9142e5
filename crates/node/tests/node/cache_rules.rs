//! What is kept, for how long and under which key, by the rules of a site.

use crate::client::{Answer, get, get_with};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, response};

/// An origin whose answer to `/a?...;no-store` has `Cache-Control: no-store`, and whose body is what it
/// was asked.
fn speaking() -> Origin {
    Origin::serve(|asked: &Request| {
        let target = asked.target().to_owned();
        let said = target.split_once(';').map_or("", |(_, said)| said).replace('+', " ");
        let control = format!("Cache-Control: {said}");
        let fields: &[&str] = match &*said {
            "" => &[],
            "cookie" => &["Set-Cookie: a=b"],
            "expires" => &["Expires: 0"],
            "any" => &["Vary: *"],
            "old" => &["Age: 100000"],
            _ => &[&control],
        };
        let status = if target.contains("/none") { "404 Not Found" } else { "200 OK" };
        response(status, fields, target)
    })
}

async fn is_kept(node: &TestNode, target: &str, fields: &[&str]) -> bool {
    let _: Answer = get_with(node, target, fields).await;
    get_with(node, target, fields).await.cache().contains("; hit")
}

#[test]
fn a_lifetime_is_for_silence_or_takes_the_place_of_what_the_origin_says() {
    run(async {
        let origin = speaking();
        let rules = "[[cache_rule]]\npath = \"/silent/\"\nttl = \"1h\"\nnegative = \"1m\"\n\
             [[cache_rule]]\npath = \"/longer/\"\nttl = \"1h\"\noverride = \"lifetime\"\n\
             [[cache_rule]]\npath = \"/all/\"\nttl = \"1h\"\noverride = \"everything\"\n\
             [[cache_rule]]\npath = \"/none/\"\nttl = \"1h\"\n";
        let node = Setup::of(&origin).and(rules).start();
        for (said, of_silent, of_longer, of_all) in [
            ("", true, true, true),
            ("max-age=0", false, true, true),
            ("s-maxage=0", false, true, true),
            ("expires", false, true, true),
            ("old", true, true, true),
            ("no-store", false, false, true),
            ("private", false, false, true),
            ("no-cache", false, false, true),
            ("max-age=0,+must-revalidate", false, true, true),
            // For one client only, whatever a rule says.
            ("cookie", false, false, false),
            ("any", false, false, false),
        ] {
            for (path, kept) in
                [("silent", of_silent), ("longer", of_longer), ("all", of_all), ("other", false)]
            {
                let target = format!("/{path}/a;{said}");
                assert_eq!(is_kept(&node, &target, &[]).await, kept, "{target}");
            }
        }
        let told = get(&node, "/all/a;no-store").await;
        assert!(told.cache().contains("ttl=3"), "{}", told.cache());
        assert_eq!(told.field("cache-control"), Some("no-store"), "clients hear the origin");
        assert!(!is_kept(&node, "/all/b;public", &["Authorization: Basic eA=="]).await);
        assert!(is_kept(&node, "/silent/none", &[]).await, "negative");
        // A lifetime is for content, not for errors.
        assert!(!is_kept(&node, "/none/a", &[]).await);
        // The first rule that fits counts.
        assert!(!is_kept(&node, "/silent/all/a;no-store", &[]).await);
    });
}

#[test]
fn a_part_is_kept_out_however_it_is_spelt() {
    run(async {
        let origin = speaking();
        let rules = "[[cache_rule]]\npath = \"/cart/\"\nbypass = true\n\
             [[cache_rule]]\npath = \"/shop/\"\nttl = \"1h\"\nbypass_cookies = [\"session\"]\n\
             [[cache_rule]]\npath = \"/img/\"\nttl = \"1h\"\noverride = \"everything\"\n\
             [[cache_rule]]\npath = \"/own/\"\nttl = \"0s\"\n\
             [[cache_rule]]\nttl = \"1h\"\n";
        let node = Setup::of(&origin).and(rules).start();
        for target in
            ["/cart/a", "//cart/a", "/%63art/a", "/a/../cart/a", "/img/..%2fcart/a", "/a/..;/cart/"]
        {
            assert!(!is_kept(&node, target, &[]).await, "{target}");
        }
        for target in ["/shop/a", "//shop/a", "/%73hop/a", "/a/../shop/a"] {
            assert!(!is_kept(&node, target, &["Cookie: session=1"]).await, "{target}");
        }
        // What may be of another rule has none of their lifetimes.
        for target in ["/img/../own/a;no-store", "/img/%2e%2e/x;private", "/img/..%2fown/a;x"] {
            assert!(!is_kept(&node, target, &[]).await, "{target}");
        }
        for target in ["/img/a%20b;no-store", "/img//a;private", "/x/../img/a;public,+max-age=9"] {
            assert!(is_kept(&node, target, &[]).await, "{target}");
        }
    });
}

#[test]
fn some_requests_go_past_the_cache() {
    run(async {
        let origin = speaking();
        let rules = "[[cache_rule]]\npath = \"/cart\"\nbypass = true\n\
             [[cache_rule]]\nsuffixes = [\".css\"]\nttl = \"1h\"\n\
             [[cache_rule]]\nttl = \"1h\"\nbypass_cookies = [\"session\", \"logged_in_*\"]\n";
        let node = Setup::of(&origin).and(rules).start();
        let session = "Cookie: a=b; session=1";
        assert!(!is_kept(&node, "/cart/a.css", &[]).await);
        assert!(is_kept(&node, "/a.css", &[session]).await);
        assert!(is_kept(&node, "/page", &["Cookie: a=session"]).await);
        for cookie in [session, "Cookie: logged_in_7=x"] {
            let answer = get_with(&node, "/page", &[cookie]).await;
            assert_eq!(answer.cache(), "freshet; fwd=bypass; detail=pass-request");
        }
        // What is there stays for the others.
        assert!(get(&node, "/page").await.cache().contains("; hit"));
        assert_eq!(origin.count(), 6);
    });
}

#[test]
fn a_query_is_what_a_rule_leaves_of_it_in_the_key_and_at_the_origin() {
    run(async {
        let origin = speaking();
        let rules = "[[path]]\nprefix = \"/old/\"\nreplace = \"/img/\"\n\
             [[cache_rule]]\npath = \"/img/\"\nttl = \"1h\"\nquery_keep = [\"w\", \"h\"]\nquery_sort = true\n\
             [[cache_rule]]\nttl = \"1h\"\nquery_drop = [\"utm_*\"]\n\
             [[header]]\nname = \"X-Query\"\nvalue = \"{query}\"\n";
        let node = Setup::of(&origin).and(rules).start();
        let first = get(&node, "/img/a?w=1&x=2&h=3").await;
        assert_eq!(first.text(), "/img/a?h=3&w=1");
        for target in ["/img/a?h=3&w=1", "/img/a?y&h=3&w=1&z", "/old/a?w=1&h=3"] {
            let answer = get(&node, target).await;
            assert!(answer.cache().contains("; hit"), "{target}: {}", answer.cache());
            // The client's own, for rules.
            assert_eq!(answer.field("x-query"), target.split_once('?').map(|(_, query)| query));
        }
        assert_eq!(get(&node, "/a?utm_source=x&b=1").await.text(), "/a?b=1");
        assert!(get(&node, "/a?b=1&utm_id=y").await.cache().contains("; hit"));
        assert!(get(&node, "/a?b=2&utm_id=y").await.cache().contains("miss"));
        assert_eq!(origin.count(), 3);
    });
}

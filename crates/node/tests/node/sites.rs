//! Several sites on one node: who is served what, and that nobody gets another's.

use crate::authority::{Authority, secure};
use crate::client::{Answer, Client};
use crate::harness::{Setup, TestNode, pattern, run, store_at, until};
use crate::origin::{Origin, fresh, response};
use freshet_base::clock::UnixMillis;
use freshet_cache::Purge;
use freshet_net::handover::Inherited;
use freshet_node::Purged;
use std::fmt::Write as _;

/// A node with these sites, each a name, its hosts and what else it says.
fn sites(origins: &[&Origin], sites: &[(&str, &str, &str)]) -> Setup {
    let mut text = String::new();
    for ((name, hosts, more), origin) in sites.iter().zip(origins) {
        let _ = write!(
            text,
            "[[site]]\nname = \"{name}\"\nhosts = [{hosts}]\n{more}\n\
             [[site.origin]]\nname = \"only\"\nurl = \"{}\"\n",
            origin.url()
        );
    }
    let mut setup = Setup::of(origins[0]).and(&text);
    setup.origins = String::new();
    setup
}

async fn ask(node: &TestNode, host: &str, target: &str, fields: &[&str]) -> Answer {
    let mut client = Client::to(node).await;
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n")).await;
    for field in fields {
        client.send(format!("{field}\r\n")).await;
    }
    client.send("\r\n").await;
    client.answer("GET").await
}

/// An origin that says who it is and what it was asked.
fn named(name: &'static str) -> Origin {
    Origin::serve(move |asked| {
        let fields = ["Cache-Control: max-age=3600", "Surrogate-Key: all", "ETag: \"same\""];
        response("200 OK", &fields, format!("{name} {}", asked.target()))
    })
}

#[test]
fn a_host_finds_its_site_and_an_unknown_one_none() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let hosts = "\"a.example\", \"*.wild.example\"";
        let node = sites(&[&one, &two], &[("a", hosts, ""), ("b", "\"B.example\"", "")]).start();
        for (host, body) in [
            ("a.example", "one /x"),
            ("A.EXAMPLE:80", "one /x"),
            ("a.example.", "one /x"),
            ("deep.below.wild.example", "one /x"),
            ("b.example:8080", "two /x"),
        ] {
            assert_eq!(ask(&node, host, "/x", &[]).await.text(), body, "{host}");
        }
        for host in ["wild.example", "c.example", "127.0.0.1", "example", "xa.example"] {
            let answer = ask(&node, host, "/x", &[]).await;
            assert_eq!(answer.status, 421, "{host}");
            assert!(answer.field("date").is_some());
        }
    });
}

#[test]
fn one_site_is_for_the_hosts_no_other_names() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let node = sites(&[&one, &two], &[("a", "\"a.example\"", ""), ("b", "\"*\"", "")]).start();
        assert_eq!(ask(&node, "a.example", "/", &[]).await.text(), "one /");
        assert_eq!(ask(&node, "anything", "/", &[]).await.text(), "two /");
    });
}

#[test]
fn two_sites_of_one_host_name_behind_them_share_nothing() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let node =
            sites(&[&one, &two], &[("a", "\"a.example\"", ""), ("b", "\"b.example\"", "")]).start();
        for _ in 0..2 {
            assert_eq!(ask(&node, "a.example", "/x", &[]).await.text(), "one /x");
            assert_eq!(ask(&node, "b.example", "/x", &[]).await.text(), "two /x");
            for (host, name) in [("a.example", "one"), ("b.example", "two")] {
                let part = ask(&node, host, "/x", &["Range: bytes=0-2"]).await;
                assert_eq!((part.status, part.text().as_str()), (206, name));
            }
        }
        assert_eq!((one.count(), two.count()), (1, 1));
    });
}

#[test]
fn two_sites_share_nothing_on_a_disk_either() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = store_at(&folder.path().join("store"), "32MiB");
        let (one, two) = (named("one"), named("two"));
        let list = [("a", "\"a.example\"", ""), ("b", "\"b.example\"", "")];
        let setup = sites(&[&one, &two], &list).and(&store);
        let both = [("a.example", "one"), ("b.example", "two")];
        let node = setup.start();
        for (host, name) in both {
            assert_eq!(ask(&node, host, "/x", &[]).await.text(), format!("{name} /x"));
        }
        node.drain_disks();
        drop(node);
        let node = setup.start();
        for (host, name) in both {
            let part = ask(&node, host, "/x", &["Range: bytes=0-2"]).await;
            assert_eq!((part.status, part.text().as_str()), (206, name));
            assert_eq!(ask(&node, host, "/x", &[]).await.text(), format!("{name} /x"));
        }
        assert_eq!((one.count(), two.count()), (1, 1));
        // All that one of them keeps can go, and stays gone behind a restart.
        let a = node.node.snapshot().sites.named("a").unwrap().name.clone();
        let purged = node.node.shared.purge_tag(a.tag_of_all().unwrap(), Purge::Hard);
        assert!(purged.durability.reached().await);
        node.drain_disks();
        drop(node);
        let node = setup.start();
        for (host, name) in both {
            assert_eq!(ask(&node, host, "/x", &[]).await.text(), format!("{name} /x"));
        }
        assert_eq!((one.count(), two.count()), (2, 1));
    });
}

#[test]
fn the_access_log_has_the_fields_a_site_wants() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let folder = tempfile::tempdir().unwrap();
        let wants =
            "[site.log]\nrequest_fields = [\"X-Id\"]\nresponse_fields = [\"etag\", \"Cookie\"]";
        let list = [("a", "\"a.example\"", wants), ("b", "\"b.example\"", "")];
        for format in ["json", "%{site}x %{X-Id}i %{etag}o"] {
            let log = folder.path().join(format!("{}.log", format.len()));
            let to = format!("[log]\naccess = \"{}\"\nformat = '{format}'\n", log.display());
            let node = sites(&[&one, &two], &list).and(&to).start();
            for host in ["a.example", "b.example"] {
                ask(&node, host, "/x", &["X-Id: 7 \"8\"", "x-id: 9"]).await;
            }
            let written = || std::fs::read_to_string(&log).unwrap();
            until(|| written().lines().count() == 2).await;
            let line =
                |site: &str| written().lines().find(|line| line.contains(site)).unwrap().to_owned();
            if format == "json" {
                let want = r#","request":{"X-Id":"7 \"8\", 9"},"response":{"etag":"\"same\""},"#;
                assert!(line("a.example").contains(want), "{}", written());
                assert!(!line("b.example").contains("\"request\""), "{}", written());
            } else {
                let want = r#"7 \"8\", 9 \"same\""#;
                assert_eq!([line("a 7"), line("b 7")], [format!("a {want}"), format!("b {want}")]);
            }
        }
    });
}

#[test]
fn a_site_has_no_more_of_the_memory_than_it_may() {
    run(async {
        let films = || {
            Origin::serve(|asked| {
                let bytes = if asked.target() == "/long" { 2_000_000 } else { 300_000 };
                response("200 OK", &["Cache-Control: max-age=3600"], vec![b'x'; bytes])
            })
        };
        let (one, two) = (films(), films());
        let bounded = |bytes: &str| {
            let bound = format!("memory_max = \"{bytes}\"");
            sites(&[&one, &two], &[("a", "\"a.example\"", &bound), ("b", "\"b.example\"", "")])
        };
        let node = bounded("1MiB").start();
        let kept = |site: &str| {
            let tag = node.node.snapshot().sites.named(site).unwrap().name.tag_of_all().unwrap();
            let mut count = 0;
            let cache = &node.node.shared.cache;
            cache.each_object(&mut |object| count += usize::from(object.tags().contains(&tag)));
            (count, cache.share_bytes(tag))
        };
        for number in 0..10 {
            for host in ["a.example", "b.example"] {
                ask(&node, host, &format!("/{number}"), &[]).await;
            }
            assert!(kept("a").1.unwrap() <= 1 << 20);
        }
        assert_eq!((kept("a").0, kept("b")), (3, (10, None)));
        // What is longer than all of it is given to its client, and what is there stays.
        for _ in 0..2 {
            assert_eq!(ask(&node, "a.example", "/long", &[]).await.body.len(), 2_000_000);
        }
        assert_eq!((kept("a").0, one.count()), (3, 12));
        ask(&node, "b.example", "/long", &[]).await;
        assert_eq!(kept("b").0, 11);
        // A reload makes it smaller at once, and larger for what comes.
        node.node.reload(bounded("700KB").settings()).unwrap();
        assert_eq!(kept("a").0, 2);
        node.node.reload(bounded("9MiB").settings()).unwrap();
        for number in 0..10 {
            ask(&node, "a.example", &format!("/{number}"), &[]).await;
        }
        assert_eq!((kept("a").0, kept("b").0), (10, 11));
    });
}

#[test]
fn a_site_has_no_more_of_the_disks_than_it_may() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = store_at(&folder.path().join("store"), "64MiB");
        let origins = [(); 2].map(|()| Origin::serve(|_| fresh(pattern(1, 0..200_000))));
        let [one, two] = &origins;
        let bounded = |bytes: &str| {
            let bound = format!("disk_max = \"{bytes}\"");
            let list = [("a", "\"a.example\"", &*bound), ("b", "\"b.example\"", "")];
            sites(&[one, two], &list).and(&store)
        };
        let fill = async |node: &TestNode, of: &str| {
            for number in 0..8 {
                for host in ["a.example", "b.example"] {
                    let answer = ask(node, host, &format!("/{of}{number}"), &[]).await;
                    assert_eq!(answer.body.len(), 200_000);
                }
            }
            node.drain_disks();
        };
        let has = |node: &TestNode| {
            let tag = node.node.snapshot().sites.named("a").unwrap().name.tag_of_all().unwrap();
            node.node.shared.disks.as_ref().unwrap().share_bytes(tag).unwrap()
        };
        let node = bounded("1MB").start();
        fill(&node, "x").await;
        let before = has(&node);
        assert!((800_000..=1_000_000).contains(&before), "{before}");
        drop(node);
        // What it had is counted in the next process; of the other site all is there.
        let node = bounded("1MB").start();
        until(|| has(&node) == before).await;
        fill(&node, "x").await;
        assert_eq!((one.count(), two.count()), (12, 8));
        assert_eq!(has(&node), before);
        // A bound that a reload gives holds at once, for what was there before as well.
        node.node.reload(bounded("1500KB").settings()).unwrap();
        fill(&node, "y").await;
        let more = has(&node);
        assert!((1_200_000..=1_500_000).contains(&more), "{more}");
        // What is purged makes room, also behind another restart.
        let a = node.node.snapshot().sites.named("a").unwrap().name.clone();
        let purged = node.node.shared.purge_tag(a.tag_of_all().unwrap(), Purge::Hard);
        assert!(purged.durability.reached().await);
        assert_eq!(has(&node), 0);
        fill(&node, "z").await;
        let again = has(&node);
        assert!((1_200_000..=1_500_000).contains(&again), "{again}");
        drop(node);
        let node = bounded("1500KB").start();
        until(|| has(&node) == again).await;
    });
}

#[test]
fn purges_by_tag_and_of_all_are_of_one_site() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let node =
            sites(&[&one, &two], &[("a", "\"a.example\"", ""), ("b", "\"b.example\"", "")]).start();
        let site = |name: &str| node.node.snapshot().sites.named(name).unwrap().name.clone();
        let both = async || {
            ask(&node, "a.example", "/x", &[]).await;
            ask(&node, "b.example", "/x", &[]).await;
            (one.count(), two.count())
        };
        let shared = &node.node.shared;
        assert_eq!(both().await, (1, 1));
        let Purged { objects, .. } = shared.purge_tag(site("a").tag(b"all"), Purge::Hard);
        assert_eq!(objects, 1);
        assert_eq!(both().await, (2, 1));
        let of_all = site("b").tag_of_all().unwrap();
        assert_eq!(shared.purge_tag(of_all, Purge::Hard).objects, 1);
        assert_eq!(both().await, (2, 2));
        let settings = node.node.snapshot().settings.bans;
        let _ = shared.ban(&site("a").ban("obj.status == 200"), &settings).unwrap();
        assert_eq!(both().await, (3, 2));
    });
}

#[test]
fn a_policy_bans_and_purges_what_is_its_sites() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let folder = tempfile::tempdir().unwrap();
        let policy = |name: &str, origin: &Origin| {
            let path = folder.path().join(name);
            let text = format!(
                "vcl 4.1;\nimport std;\nimport xkey;\n{}
                 sub vcl_recv {{
                     if (req.url == \"/ban\") {{
                         std.ban(\"obj.status != 0\");
                         return (synth(200, \"banned\"));
                     }}
                     if (req.url == \"/xkey\") {{
                         return (synth(200, \"n=\" + xkey.purge(\"all\")));
                     }}
                 }}
                 sub vcl_hash {{ hash_data(\"same\"); return (lookup); }}\n",
                crate::vcl::backend("only", origin)
            );
            std::fs::write(&path, text).unwrap();
            format!("vcl = \"{}\"", path.display())
        };
        let (a, b) = (policy("a.vcl", &one), policy("b.vcl", &two));
        let mut setup = Setup::of(&one).and(&format!(
            "[[site]]\nhosts = [\"a.example\"]\n{a}\n[[site]]\nhosts = [\"b.example\"]\n{b}\n"
        ));
        setup.origins = String::new();
        let node = setup.start();
        let both = async || {
            let first = ask(&node, "a.example", "/x", &[]).await.text();
            let second = ask(&node, "b.example", "/x", &[]).await.text();
            assert_eq!((first.as_str(), second.as_str()), ("one /x", "two /x"));
            (one.count(), two.count())
        };
        assert_eq!(both().await, (1, 1));
        assert_eq!(both().await, (1, 1));
        assert_eq!(ask(&node, "a.example", "/ban", &[]).await.status, 200);
        assert_eq!(both().await, (2, 1));
        assert_eq!(ask(&node, "b.example", "/xkey", &[]).await.status, 200);
        assert_eq!(both().await, (2, 2));
    });
}

#[test]
fn an_include_is_of_its_pages_site_whatever_host_it_names() {
    run(async {
        let one = Origin::serve(|asked| match asked.target() {
            "/page" => response(
                "200 OK",
                &["Cache-Control: max-age=60", "Surrogate-Control: content=\"ESI/1.0\""],
                "<p><esi:include src=\"http://b.example/x\"/></p>",
            ),
            other => fresh(format!("one {other}")),
        });
        let two = named("two");
        let esi = "[site.cache]\nesi = true";
        let node = sites(&[&one, &two], &[("a", "\"a.example\"", esi), ("b", "\"b.example\"", "")])
            .start();
        assert_eq!(ask(&node, "b.example", "/x", &[]).await.text(), "two /x");
        assert_eq!(ask(&node, "a.example", "/page", &[]).await.text(), "<p>one /x</p>");
        assert_eq!(ask(&node, "b.example", "/x", &[]).await.text(), "two /x");
    });
}

#[test]
fn a_site_has_rules_of_its_own_and_the_top_levels_where_it_has_none() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let setup = sites(
            &[&one, &two],
            &[
                ("a", "\"a.example\"", "[site.cache]\ncache_status = false"),
                ("b", "\"b.example\"", "[site.limits]\nbody_bytes_max = 2"),
            ],
        )
        .and("[limits]\nbody_bytes_max = 5\n");
        let node = setup.start();
        assert_eq!(ask(&node, "a.example", "/", &[]).await.field("cache-status"), None);
        assert!(ask(&node, "b.example", "/", &[]).await.field("cache-status").is_some());
        for (host, bytes, status) in [("a.example", 5, 200), ("b.example", 3, 413)] {
            let mut client = Client::to(&node).await;
            let head =
                format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {bytes}\r\n\r\n");
            client.send(head + &"x".repeat(bytes)).await;
            assert_eq!(client.answer("POST").await.status, status, "{host}");
        }
    });
}

#[test]
fn a_reload_of_one_site_leaves_what_the_others_have() {
    run(async {
        let (one, two, three) = (named("one"), named("two"), named("three"));
        let list = [("a", "\"a.example\"", ""), ("b", "\"b.example\"", "")];
        let node = sites(&[&one, &two], &list).start();
        ask(&node, "a.example", "/x", &[]).await;
        ask(&node, "b.example", "/x", &[]).await;
        let kept = node.node.snapshot();
        let origin = |snapshot: &freshet_node::snapshot::Snapshot, name: &str| {
            let site = snapshot.sites.named(name).unwrap();
            std::sync::Arc::as_ptr(&site.upstreams.board.origins()[0])
        };
        node.node.reload(sites(&[&one, &three], &list).settings()).unwrap();
        let now = node.node.snapshot();
        assert_eq!(origin(&kept, "a"), origin(&now, "a"));
        assert_ne!(origin(&kept, "b"), origin(&now, "b"));
        while ask(&node, "b.example", "/new", &[]).await.text() != "three /new" {}
        assert_eq!(ask(&node, "b.example", "/x", &[]).await.text(), "two /x");
        assert_eq!(ask(&node, "a.example", "/x", &[]).await.text(), "one /x");
        assert_eq!(one.count(), 1);
    });
}

#[test]
fn a_policy_with_a_mistake_leaves_its_site_as_it_was_and_the_others_are_renewed() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.vcl");
        let good = format!("vcl 4.1;\n{}", crate::vcl::backend("only", &one));
        std::fs::write(&path, &good).unwrap();
        let text_with = |name: &str, hosts: [&str; 2]| {
            let [a, b] = hosts;
            let mut setup = Setup::of(&two).and(&format!(
                "[[site]]\nname = \"b\"\nhosts = [{b}]\n[site.cache]\ngrace = \"{name}\"\n\
                 [[site.origin]]\nurl = \"{}\"\n\
                 [[site]]\nname = \"a\"\nhosts = [{a}]\nvcl = \"{}\"\n[site.cache]\ngrace = \"{name}\"\n",
                two.url(),
                path.display()
            ));
            setup.origins = String::new();
            setup.settings()
        };
        let usual = ["\"a.example\", \"c.example\"", "\"b.example\""];
        let text = |name: &str| text_with(name, usual);
        let mut setup = Setup::of(&two);
        setup.origins = String::new();
        let inherited = &mut Inherited::default();
        let node =
            TestNode { node: freshet_node::node::Node::start(text("1s"), inherited).unwrap() };
        std::fs::write(&path, "vcl 4.1; nonsense").unwrap();
        node.node.reload(text("2s")).unwrap();
        assert_eq!(ask(&node, "a.example", "/x", &[]).await.text(), "one /x");
        let grace = |name: &str| {
            node.node.snapshot().sites.named(name).unwrap().settings.cache.grace.as_secs()
        };
        assert_eq!((grace("a"), grace("b")), (1, 2));
        // What another site is for now is not served by the one that stayed.
        let moved = ["\"a.example\"", "\"b.example\", \"c.example\""];
        node.node.reload(text_with("3s", moved)).unwrap();
        assert_eq!(ask(&node, "c.example", "/x", &[]).await.text(), "two /x");
        assert_eq!(ask(&node, "a.example", "/x", &[]).await.text(), "one /x");
        // At a start there is nothing to go on with.
        let error = freshet_node::node::Node::start(text("1s"), inherited).err().unwrap();
        assert!(error.to_string().contains("site `a`"), "{error}");
    });
}

#[test]
fn a_certificate_that_cannot_be_used_leaves_its_site_as_it_was_and_the_others_are_renewed() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let (before, after) = (Authority::new(), Authority::new());
        let issue = |authority: &Authority, file: &str, host: &str| {
            authority.issue(file, &[host]).replace("[[certificate]]", "[[site.certificate]]")
        };
        let encrypted = |grace: &str, certificates: [&str; 2]| {
            let [a, b] =
                certificates.map(|own| format!("[site.cache]\ngrace = \"{grace}\"\n{own}"));
            let list = [("a", "\"a.example\"", &*a), ("b", "\"b.example\"", &*b)];
            let mut setup = sites(&[&one, &two], &list);
            setup.listen.push_str("tls = true\n");
            setup
        };
        let (a, b) = (issue(&before, "a", "a.example"), issue(&before, "b", "b.example"));
        let node = encrypted("1s", [&a, &b]).start();
        let shown = async |authority: &Authority, host: &str| {
            let config = authority.client(&["http/1.1"]);
            let stream = secure(node.address(), &config, host).await.ok()?;
            let mut client = Client::over(stream);
            client.send(format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            Some(client.answer("GET").await.text().to_owned())
        };
        let grace = |name: &str| {
            node.node.snapshot().sites.named(name).unwrap().settings.cache.grace.as_secs()
        };
        let stayed = || {
            let snapshot = node.node.snapshot();
            let stayed = snapshot.stayed.iter();
            stayed.map(|one| (one.name().unwrap().to_owned(), one.why.clone())).collect::<Vec<_>>()
        };
        let renewed = issue(&after, "b", "b.example");
        let unlike = issue(&before, "c", "a.example").replace("c.pem", "a.pem");
        let good = std::fs::read(before.path("a.pem")).unwrap();
        // The file is no certificate; then its key is another's. It does not matter how often.
        for (seconds, a, content) in [(2, &a, &b"nonsense"[..]), (3, &unlike, &good)] {
            std::fs::write(before.path("a.pem"), content).unwrap();
            node.node.reload(encrypted(&format!("{seconds}s"), [a, &renewed]).settings()).unwrap();
            assert_eq!((grace("a"), grace("b")), (1, seconds));
            assert!(matches!(&*stayed(), [(name, why)] if name == "a" && why.contains("a.pem")));
            assert_eq!(shown(&before, "a.example").await.as_deref(), Some("one /x"));
            assert_eq!(shown(&before, "b.example").await, None);
            assert_eq!(shown(&after, "b.example").await.as_deref(), Some("two /x"));
        }
        std::fs::write(before.path("a.pem"), "nonsense").unwrap();
        let whole = issue(&after, "a", "a.example");
        // A site that stays for something else has its certificate as well.
        let nobody = format!("{whole}\n[[site.access]]\nusers = \"/nowhere/users\"\n");
        node.node.reload(encrypted("3s", [&nobody, &renewed]).settings()).unwrap();
        assert!(
            matches!(&*stayed(), [(name, why)] if name == "a" && why.contains("/nowhere/users"))
        );
        assert_eq!(shown(&before, "a.example").await.as_deref(), Some("one /x"));
        node.node.reload(encrypted("4s", [&whole, &renewed]).settings()).unwrap();
        assert_eq!((grace("a"), grace("b"), stayed()), (4, 4, Vec::new()));
        assert_eq!(shown(&after, "a.example").await.as_deref(), Some("one /x"));
        // A new site has nothing to go on with, and neither has a start.
        let list = [("new", "\"new.example\"", &*a)];
        let mut new = sites(&[&one], &list);
        new.listen.push_str("tls = true\n");
        let error = node.node.reload(new.settings()).unwrap_err().to_string();
        assert!(error.contains("site `new`") && error.contains("a.pem"), "{error}");
        assert_eq!(shown(&after, "b.example").await.as_deref(), Some("two /x"));
    });
}

#[test]
fn requests_are_counted_and_explained_by_site() {
    run(async {
        let (one, two) = (named("one"), named("two"));
        let node =
            sites(&[&one, &two], &[("a", "\"a.example\"", ""), ("b", "\"b.example\"", "")]).start();
        for _ in 0..3 {
            ask(&node, "a.example", "/x", &[]).await;
        }
        ask(&node, "b.example", "/x", &[]).await;
        let sums = |name: &str| {
            let mut sums = freshet_node::site_stats::SiteSums::default();
            node.node.shared.stats.iter().for_each(|worker| worker.sites.add_to(name, &mut sums));
            sums
        };
        until(|| (sums("a").requests, sums("b").requests) == (3, 1)).await;
        assert_eq!((sums("a").hits, sums("b").hits), (2, 0));
        assert_eq!(sums("a").body_bytes, 3 * "one /x".len() as u64);
        let head = freshet_http::message::RequestHead {
            authority: "b.example".into(),
            target: "/x".into(),
            ..Default::default()
        };
        let snapshot = node.node.snapshot();
        let key =
            freshet_node::preview::key_of(&node.node.shared, &snapshot, head, UnixMillis::now());
        assert_eq!(key.unwrap().to_string(), "b b.example /x");
    });
}

#[test]
fn a_write_invalidates_what_it_names_within_its_site() {
    run(async {
        let writable = |name: &'static str| {
            Origin::serve(move |asked| match asked.method() {
                "POST" => response("201 Created", &["Location: /list"], "made"),
                _ => response("200 OK", &["Cache-Control: max-age=3600"], format!("{name} list")),
            })
        };
        let (one, two) = (writable("one"), writable("two"));
        let node = sites(&[&one, &two], &[("a", "\"a.example\"", ""), ("b", "\"*\"", "")]).start();
        for host in ["a.example", "b.example"] {
            ask(&node, host, "/list", &[]).await;
        }
        let mut client = Client::to(&node).await;
        let head = "POST /new HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";
        client.send(head).await;
        assert_eq!(client.answer("POST").await.status, 201);
        for host in ["a.example", "b.example"] {
            ask(&node, host, "/list", &[]).await;
        }
        // What the write names was asked for anew, and the other site's was not.
        assert_eq!((one.count(), two.count()), (3, 1));
    });
}

//! Rate limits, limits on what is under way, and blocks, on real sockets.

use crate::authority::Authority;
use crate::client::{Answer, Client, HOST, get, get_with};
use crate::h2;
use crate::h3_client::H3Client;
use crate::harness::{Setup, TestNode, proxied, run, until};
use crate::origin::{Origin, fresh, head, response};
use crate::skip;
use freshet_limits::{Block, Cause};
use freshet_net::handover::Inherited;
use freshet_node::node::Node;
use std::process::Command;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

/// A rate of which nothing comes back during a test.
const THREE: &str = "[[rate_limit]]\nrate = \"3/d\"\n";

fn limited(origin: &Origin, rest: &str) -> TestNode {
    Setup::of(origin).behind_proxy().and(rest).start()
}

/// A connection of the client with this address.
async fn client(node: &TestNode, address: &str) -> Client {
    let mut client = Client::to(node).await;
    client.send(proxied(address)).await;
    client
}

async fn statuses(client: &mut Client, target: &str, times: usize) -> Vec<u16> {
    let mut all = Vec::new();
    for _ in 0..times {
        all.push(client.get(target).await.status);
    }
    all
}

fn block(node: &TestNode, network: &str, site: Option<&str>) {
    let cause = Cause::Asked("".into());
    let network = network.parse().unwrap();
    let block = Block { network, site: site.map(Into::into), until_ms: u64::MAX, cause };
    node.node.shared.limiter.blocks.add(block, 0).unwrap();
}

#[test]
fn a_client_beyond_its_rate_is_refused_and_told_and_others_are_not() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = limited(&origin, THREE);
        let mut one = client(&node, "192.0.2.1").await;
        assert_eq!(statuses(&mut one, "/a", 3).await, [200; 3]);
        let refused = one.get("/a").await;
        assert_eq!((refused.status, refused.text().as_str()), (429, "429 Too Many Requests\n"));
        let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
        assert!((28_000..=28_800).contains(&wait), "{wait}");
        assert_eq!(refused.field("ratelimit-policy"), Some("\"limit-1\";q=3;w=86400"));
        let left = refused.field("ratelimit").unwrap();
        assert!(left.starts_with("\"limit-1\";r=0;t=8"), "{left}");
        assert!(refused.cache().ends_with("detail=client-too-many"), "{}", refused.cache());
        // A connection of its own, which may be another worker's, changes nothing.
        for _ in 0..4 {
            assert_eq!(client(&node, "192.0.2.1").await.get("/a").await.status, 429);
        }
        assert_eq!(client(&node, "192.0.2.2").await.get("/a").await.status, 200);
        assert_eq!((node.count("requests_limited"), origin.count()), (5, 1));
    });
}

#[test]
fn a_limit_is_the_same_over_all_versions_of_http() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let authority = Authority::new();
        let more = "http3 = true\n[[listen]]\naddress = \"127.0.0.1:0\"\n";
        let node = Setup::of(&origin).encrypted(&authority, more).and(THREE).start();
        let clear = node.node.socket_addresses()[1];
        let mut over_3 = H3Client::connect(node.address(), &authority).await;
        assert_eq!(over_3.get("/a").await.status, 200);
        let mut over_2 =
            h2::over(TcpStream::connect(clear).await.unwrap(), Default::default()).await;
        assert_eq!(h2::ask(&mut over_2, "GET", "/a").await.await.unwrap().status(), 200);
        let mut over_1 = Client::connect(clear).await;
        assert_eq!(over_1.get("/a").await.status, 200);
        let refused = over_3.get("/a").await;
        assert_eq!(
            (refused.status, refused.body.as_slice()),
            (429, &b"429 Too Many Requests\n"[..])
        );
        assert!(refused.field("retry-after").is_some() && refused.field("ratelimit").is_some());
        let refused = h2::ask(&mut over_2, "GET", "/a").await.await.unwrap();
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("ratelimit-policy"));
        assert_eq!(over_1.get("/a").await.status, 429);
    });
}

#[test]
fn networks_count_together_and_exceptions_not_at_all() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let rest =
            format!("[limits]\nnetwork_bits_v4 = 24\n{THREE}except = [\"192.0.2.128/25\"]\n");
        let node = limited(&origin, &rest);
        for last in 1..=3 {
            let mut one = client(&node, &format!("192.0.2.{last}")).await;
            assert_eq!(one.get("/a").await.status, 200);
        }
        assert_eq!(client(&node, "192.0.2.4").await.get("/a").await.status, 429);
        let mut excepted = client(&node, "192.0.2.200").await;
        assert_eq!(statuses(&mut excepted, "/a", 5).await, [200; 5]);
    });
}

#[test]
fn caches_behind_this_one_are_not_limited() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = limited(&origin, &format!("[cache]\npeers = [\"192.0.2.0/24\"]\n{THREE}"));
        let mut peer = client(&node, "192.0.2.1").await;
        assert_eq!(statuses(&mut peer, "/a", 5).await, [200; 5]);
    });
}

#[test]
fn a_path_is_found_however_it_is_spelt() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = limited(&origin, "[[rate_limit]]\nrate = \"1/d\"\npath = \"/api/\"\n");
        let mut one = client(&node, "192.0.2.1").await;
        assert_eq!(statuses(&mut one, "/public", 3).await, [200; 3]);
        assert_eq!(one.get("/api/a").await.status, 200);
        for target in [
            "/api/b",
            "//api/b",
            "/%61pi/b",
            "/x/../api/b",
            "/x/%2e%2e/api/b?q",
            "/%61pi/%252e%252e/",
            "/x/..;/api/b",
        ] {
            assert_eq!(one.get(target).await.status, 429, "{target}");
        }
        assert_eq!(one.get("/apis").await.status, 200);
    });
}

#[test]
fn requests_are_counted_by_field_path_or_all_together() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = limited(
            &origin,
            "[[rate_limit]]\nname = \"key\"\nby = \"header\"\nheader = \"X-Key\"\nrate = \"1/d\"\n\
             [[rate_limit]]\nname = \"path\"\nby = \"path\"\nrate = \"2/d\"\n\
             [[rate_limit]]\nname = \"all\"\nby = \"site\"\nrate = \"6/d\"\n",
        );
        let mut one = client(&node, "192.0.2.1").await;
        let ask = async |client: &mut Client, target: &str, key: &str| -> Answer {
            client.get_with(target, &[&format!("X-Key: {key}")]).await
        };
        assert_eq!(ask(&mut one, "/a", "k1").await.status, 200);
        let refused = ask(&mut one, "/b", "k1").await;
        assert_eq!(refused.field("ratelimit-policy"), Some("\"key\";q=1;w=86400"));
        assert_eq!(ask(&mut one, "/a?x", "k2").await.status, 200);
        let refused = one.get("/a?y").await;
        assert_eq!(refused.field("ratelimit-policy"), Some("\"path\";q=2;w=86400"));
        for target in ["/c", "/d", "/e", "/f"] {
            assert_eq!(client(&node, "192.0.2.9").await.get(target).await.status, 200);
        }
        let refused = client(&node, "192.0.2.9").await.get("/g").await;
        assert_eq!(refused.field("ratelimit-policy"), Some("\"all\";q=6;w=86400"));
    });
}

#[test]
fn what_is_left_is_told_with_every_response_where_that_is_wanted() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = Setup::of(&origin).and(&format!("{THREE}fields = \"always\"\n")).start();
        for left in [2, 1, 0] {
            let answer = get(&node, "/a").await;
            let said = answer.field("ratelimit").unwrap();
            assert!(said.starts_with(&format!("\"limit-1\";r={left};t=")), "{said}");
            assert_eq!(answer.field("retry-after"), None);
        }
        // It is of one client, so it is not kept with the object.
        assert_eq!((origin.count(), get(&node, "/a").await.status), (1, 429));
    });
}

#[test]
fn a_dry_run_counts_and_refuses_nothing() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let rest = format!("{THREE}dry_run = true\nblock_after = 1\nfields = \"always\"\n");
        let node = limited(&origin, &rest);
        let mut one = client(&node, "192.0.2.1").await;
        assert_eq!(statuses(&mut one, "/a", 8).await, [200; 8]);
        // Who obeys what it is told would stop, though nobody is refused.
        let answer = one.get("/a").await;
        assert_eq!((answer.status, answer.field("ratelimit")), (200, None));
        assert_eq!(answer.field("ratelimit-policy"), None);
        let snapshot = node.node.snapshot();
        assert_eq!(snapshot.sites.all()[0].rate_limits[0].refused.value(), 6);
        assert!(node.node.shared.limiter.blocks.is_empty());
    });
}

#[test]
fn what_is_under_way_counts_until_its_response_is_sent_or_given_up() {
    run(async {
        let mut origin = Origin::scripted();
        let node = limited(&origin, "[[rate_limit]]\nconcurrent_max = 1\n");
        let mut one = client(&node, "192.0.2.1").await;
        one.ask("GET", "/slow", &[]).await;
        let asked = origin.next().await;
        let refused = client(&node, "192.0.2.1").await.get("/other").await;
        assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
        assert_eq!(refused.field("ratelimit"), None, "there is no rate");
        // Another client has a count of its own.
        let mut other = client(&node, "192.0.2.2").await;
        other.ask("GET", "/slow2", &[]).await;
        let others = origin.next().await;
        others.send(response("200 OK", &["Cache-Control: no-store"], "b"));
        assert_eq!(other.answer("GET").await.status, 200);
        // The head alone is not the end of it.
        asked.send(head("200 OK", &["Cache-Control: no-store"], Some(2)));
        asked.send("a");
        assert_eq!(one.head().await.unwrap().status(), 200);
        assert_eq!(client(&node, "192.0.2.1").await.get("/other").await.status, 429);
        asked.send("a");
        assert_eq!(one.some(2).await, b"aa");
        // Who gives up frees the place as well.
        for target in ["/gone1", "/gone2"] {
            let gone = loop {
                let mut next = client(&node, "192.0.2.1").await;
                next.ask("GET", target, &[]).await;
                tokio::select! {
                    _ = origin.next() => break next,
                    refused = next.answer("GET") => assert_eq!(refused.status, 429),
                }
            };
            drop(gone);
        }
    });
}

#[test]
fn who_is_refused_too_often_is_blocked_at_that_site_for_a_while() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let origins = format!("[[site.origin]]\nurl = \"{}\"\n", origin.url());
        let mut setup = Setup::of(&origin).behind_proxy();
        setup.origins.clear();
        let node = setup
            .and(&format!("[[site]]\nname = \"shop\"\nhosts = [\"{HOST}\"]\n{origins}"))
            .and("[[site.rate_limit]]\nname = \"login\"\npath = \"/login\"\nrate = \"1/d\"")
            .and("block_after = 2\nblock_for = \"1h\"")
            .and(&format!("[[site]]\nname = \"other\"\nhosts = [\"other.test\"]\n{origins}"))
            .start();
        let mut one = client(&node, "192.0.2.1").await;
        assert_eq!(statuses(&mut one, "/login", 4).await, [200, 429, 429, 429]);
        let blocked = one.get("/free").await;
        assert_eq!(blocked.status, 403);
        assert!(blocked.cache().ends_with("detail=client-blocked"), "{}", blocked.cache());
        let list = node.node.shared.limiter.blocks.list(0);
        assert_eq!((list.len(), list[0].network.to_string()), (1, "192.0.2.1".into()));
        assert_eq!(list[0].cause, Cause::Limit("shop/login".into()));
        assert_eq!(list[0].site.as_deref(), Some("shop"));
        let hour = 3_600_000;
        let now = freshet_base::clock::UnixMillis::now().0;
        assert!((now + hour - 60_000..=now + hour).contains(&list[0].until_ms));
        let mut other = client(&node, "192.0.2.1").await;
        other.send("GET /a HTTP/1.1\r\nHost: other.test\r\n\r\n").await;
        assert_eq!(other.answer("GET").await.status, 200);
        assert_eq!(client(&node, "192.0.2.2").await.get("/free").await.status, 200);
        assert_eq!(node.count("requests_blocked"), 1);
        node.node.shared.limiter.blocks.remove(list[0].network, Some("shop"));
        assert_eq!(one.get("/free").await.status, 200);
    });
}

#[test]
fn a_network_that_is_blocked_at_the_node_cannot_connect() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = limited(&origin, "");
        let mut open = client(&node, "192.0.2.1").await;
        assert_eq!(open.get("/a").await.status, 200);
        block(&node, "192.0.2.0/24", None);
        assert_eq!(open.get("/a").await.status, 403, "what was open is told");
        assert!(client(&node, "192.0.2.1").await.ended().await);
        assert_eq!(client(&node, "198.51.100.1").await.get("/a").await.status, 200);
        assert_eq!(node.count("connections_blocked"), 1);
    });
}

#[test]
fn a_network_has_only_so_many_connections() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let node = limited(&origin, "[limits]\nconnections_network_max = 2\n");
        let (mut one, mut two) =
            (client(&node, "192.0.2.1").await, client(&node, "192.0.2.1").await);
        assert_eq!((one.get("/a").await.status, two.get("/a").await.status), (200, 200));
        assert!(client(&node, "192.0.2.1").await.ended().await);
        assert_eq!(client(&node, "192.0.2.2").await.get("/a").await.status, 200);
        assert_eq!(node.count("connections_network_refused"), 1);
        drop(two);
        let has_room = async || {
            let mut stream = TcpStream::connect(node.address()).await.unwrap();
            stream.write_all(proxied("192.0.2.1").as_bytes()).await.unwrap();
            let mut client = Client::over(stream);
            client.ask("GET", "/a", &[]).await;
            client.head().await.is_some()
        };
        while !has_room().await {}
        assert_eq!(one.get("/a").await.status, 200);
    });
}

#[test]
fn a_balancer_has_room_for_all_its_clients_and_each_has_so_many_requests() {
    run(async {
        let mut origin = Origin::scripted();
        let rest = "[limits]\nconnections_network_max = 2\n[forwarded]\nfrom = [\"192.0.2.1\"]\n";
        let node = limited(&origin, rest);
        let ask = async |target: &str, of: &str| {
            let mut next = client(&node, "192.0.2.1").await;
            next.ask("GET", target, &[&format!("X-Forwarded-For: {of}")]).await;
            next
        };
        let mut open = Vec::new();
        for (at, of) in ["203.0.113.1", "203.0.113.1", "203.0.113.2"].into_iter().enumerate() {
            open.push((ask(&format!("/{at}"), of).await, origin.next().await));
        }
        let refused = ask("/more", "203.0.113.1").await.answer("GET").await;
        assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
        assert_eq!(node.count("connections_network_refused"), 1);
        for (mut client, asked) in open {
            asked.send(response("200 OK", &["Cache-Control: no-store"], "b"));
            assert_eq!(client.answer("GET").await.status, 200);
        }
        // Who is in front of nobody has connections, as before.
        let mut own = [client(&node, "192.0.2.9").await, client(&node, "192.0.2.9").await];
        for one in &mut own {
            // Connections are counted once it is known who they are of.
            one.ask("GET", "/own", &[]).await;
            origin.next().await.send(response("200 OK", &["Cache-Control: no-store"], "b"));
            assert_eq!(one.answer("GET").await.status, 200);
        }
        assert!(client(&node, "192.0.2.9").await.ended().await);
        drop(own);
    });
}

#[test]
fn connections_over_http_3_count_too() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let authority = Authority::new();
        let setup = Setup::of(&origin).encrypted(&authority, "http3 = true\n");
        let node = setup.and("[limits]\nconnections_network_max = 1\n").start();
        let mut one = H3Client::connect(node.address(), &authority).await;
        assert_eq!(one.get("/a").await.status, 200);
        let mut two = H3Client::connect(node.address(), &authority).await;
        two.until(|client| client.lost.is_some()).await;
        assert!(node.count("connections_network_refused") >= 1);
        one.close();
    });
}

#[test]
fn a_reload_keeps_what_was_counted_and_may_change_the_limit() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let setup = |rate: &str| {
            Setup::of(&origin).and(&format!("[[rate_limit]]\nname = \"l\"\nrate = \"{rate}\"\n"))
        };
        let node = TestNode {
            node: Node::start(setup("2/d").settings(), &mut Inherited::default()).unwrap(),
        };
        for status in [200, 200, 429] {
            assert_eq!(get(&node, "/a").await.status, status);
        }
        node.node.reload(setup("2/d").settings()).unwrap();
        assert_eq!(get(&node, "/a").await.status, 429);
        let refused = || node.node.snapshot().sites.all()[0].rate_limits[0].refused.value();
        assert_eq!(refused(), 2);
        node.node.reload(setup("20/d").settings()).unwrap();
        until(|| node.node.snapshot().settings.site.rate_limits[0].rate.unwrap().burst() == 20)
            .await;
        // Workers take the new configuration one after the other.
        while get(&node, "/a").await.status != 200 {}
    });
}

#[test]
fn a_policy_in_vcl_makes_the_page_of_a_refusal() {
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.vcl");
        let address = origin.url().replace("http://", "");
        let (host, port) = address.split_once(':').unwrap();
        let text = format!(
            "vcl 4.1;\nbackend a {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
             sub vcl_synth {{ set resp.http.X-Page = resp.status; \
             set resp.body = \"slow down\"; return (deliver); }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut setup = Setup::of(&origin);
        setup.origins = format!("vcl = \"{}\"\n", file.display());
        setup.listen = std::mem::take(&mut setup.origins) + &setup.listen;
        let node = setup.and("[[rate_limit]]\nrate = \"1/d\"\n").start();
        assert_eq!(get(&node, "/a").await.status, 200);
        let refused = get_with(&node, "/a", &["X-A: b"]).await;
        assert_eq!((refused.status, refused.text().as_str()), (429, "slow down"));
        assert_eq!(refused.field("x-page"), Some("429"));
        assert!(refused.field("retry-after").is_some());
    });
}

#[test]
fn a_balancer_on_a_unix_socket_has_clients_that_are_counted_apart() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.sock");
        let mut origin = Origin::scripted();
        let mut setup = Setup::of(&origin)
            .and("[limits]\nconnections_network_max = 2\n[forwarded]\nfrom = [\"192.0.2.1\"]\n");
        setup.listen = format!("[[listen]]\naddress = \"unix:{}\"\n", path.display());
        let node = setup.start();
        let ask = async |target: &str, of: &str| {
            let mut next = Client::over(UnixStream::connect(&path).await.unwrap());
            next.ask("GET", target, &[&format!("X-Forwarded-For: {of}")]).await;
            next
        };
        let mut open = Vec::new();
        for (at, of) in ["203.0.113.1", "203.0.113.1", "203.0.113.2"].into_iter().enumerate() {
            open.push((ask(&format!("/{at}"), of).await, origin.next().await));
        }
        let told = open.iter().map(|(_, asked)| asked.request.field("x-forwarded-for"));
        let told: Vec<_> = told.map(Option::unwrap).collect();
        assert_eq!(told, ["203.0.113.1", "203.0.113.1", "203.0.113.2"]);
        let refused = ask("/more", "203.0.113.1").await.answer("GET").await;
        assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
        assert_eq!(node.count("connections_network_refused"), 1);
        for (mut client, asked) in open {
            asked.send(response("200 OK", &["Cache-Control: no-store"], "b"));
            assert_eq!(client.answer("GET").await.status, 200);
        }
    });
}

#[test]
fn curl_hears_that_its_upload_over_http_2_is_refused() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip::missing("curl");
    }
    run(async {
        let origin = Origin::serve(|_| fresh("a"));
        let authority = Authority::new();
        let setup = Setup::of(&origin).encrypted(&authority, "");
        let node = setup.and("[[rate_limit]]\nrate = \"1/d\"\n").start();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("upload");
        std::fs::write(&file, vec![b'a'; 3_000_000]).unwrap();
        let url = format!("https://{}/a", node.address());
        let said = |arguments: Vec<std::ffi::OsString>| {
            let mut curl = Command::new("curl");
            curl.args(["-sSk", "--http2", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"]);
            curl.arg(&url).args(arguments);
            async {
                let output = tokio::task::spawn_blocking(move || curl.output()).await;
                let output = output.unwrap().unwrap();
                (
                    String::from_utf8(output.stdout).unwrap(),
                    String::from_utf8(output.stderr).unwrap(),
                )
            }
        };
        assert_eq!(said(Vec::new()).await, ("200".to_owned(), String::new()));
        for _ in 0..10 {
            let refused = said(vec!["-T".into(), file.clone().into()]).await;
            assert_eq!(refused, ("429".to_owned(), String::new()));
        }
    });
}

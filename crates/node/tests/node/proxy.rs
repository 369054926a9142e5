//! Where clients and origins are: PROXY headers, IPv6, Unix sockets, HTTPS origins.

use crate::authority::Authority;
use crate::client::{Client, get};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, fresh, response};
use crate::vcl::governed_over;
use freshet_net::address::Address;
use tokio::net::UnixStream;

/// An origin that answers with a field of the request.
fn telling(name: &'static str) -> Origin {
    Origin::serve(move |asked| {
        response("200 OK", &["Cache-Control: no-store"], asked.field(name).unwrap_or("none"))
    })
}

fn behind_proxy(origin: &Origin) -> TestNode {
    Setup::of(origin).behind_proxy().start()
}

#[test]
fn the_origin_hears_of_the_client_and_of_those_before() {
    run(async {
        let origin = telling("x-forwarded-for");
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a").await.text(), "127.0.0.1");
        let mut client = Client::to(&node).await;
        let before = ["X-Forwarded-For: 192.0.2.1"];
        // What is fetched for all is fetched for no other's words.
        assert_eq!(client.get_with("/a", &before).await.text(), "127.0.0.1");
        let answer = client.request("OPTIONS", "/a", &before).await;
        assert_eq!(answer.text(), "192.0.2.1, 127.0.0.1");
        let trusting = Setup::of(&origin).and("[cache]\nforward = [\"x-forwarded-for\"]").start();
        let answer = Client::to(&trusting).await.get_with("/a", &before).await;
        assert_eq!(answer.text(), "192.0.2.1, 127.0.0.1");
    });
}

#[test]
fn a_proxy_header_of_version_1_names_the_client() {
    run(async {
        let origin = telling("x-forwarded-for");
        let node = behind_proxy(&origin);
        for (line, client_address) in [
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\n", "192.0.2.7"),
            ("PROXY TCP6 2001:db8::7 2001:db8::1 1234 80\r\n", "2001:db8::7"),
            ("PROXY UNKNOWN\r\n", "127.0.0.1"),
        ] {
            let mut client = Client::to(&node).await;
            client.send(line).await;
            // The header holds for every request of the connection.
            for _ in 0..2 {
                assert_eq!(client.get("/a").await.text(), client_address);
            }
        }
    });
}

/// A header of version 2 with this command and IPv4 addresses.
fn version_2(command: u8) -> Vec<u8> {
    version_2_with(command, &[])
}

/// As [`version_2`], with type-length-values.
fn version_2_with(command: u8, tlvs: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend_from_slice(&[0x20 | command, 0x11]);
    header.extend_from_slice(&u16::try_from(12 + tlvs.len()).unwrap().to_be_bytes());
    header.extend_from_slice(&[192, 0, 2, 9, 198, 51, 100, 1]);
    header.extend_from_slice(&[0x04, 0xd2, 0, 80]);
    header.extend_from_slice(tlvs);
    header
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[kind], &length[..], value].concat()
}

/// What a client's TLS was like: flags, result, and the texts in it.
fn ssl(flags: u8, result: u32, inner: &[Vec<u8>]) -> Vec<u8> {
    tlv(0x20, &[&[flags], &result.to_be_bytes()[..], &inner.concat()].concat())
}

#[test]
fn a_proxy_header_of_version_2_names_the_client() {
    run(async {
        let origin = telling("x-forwarded-for");
        let node = behind_proxy(&origin);
        for (command, client_address) in [(1, "192.0.2.9"), (0, "127.0.0.1")] {
            let mut client = Client::to(&node).await;
            // In one segment with the request behind it, and apart from it.
            let mut bytes = version_2(command);
            bytes.extend_from_slice(b"GET /a HTTP/1.1\r\nHost: example.test\r\n\r\n");
            client.send(&bytes).await;
            assert_eq!(client.answer("GET").await.text(), client_address);
            let mut client = Client::to(&node).await;
            let header = version_2(command);
            client.send(&header[..5]).await;
            client.send(&header[5..]).await;
            assert_eq!(client.get("/a").await.text(), client_address);
        }
    });
}

#[test]
fn a_policy_is_told_what_a_proxy_header_says_of_tls() {
    run(async {
        let origin = telling("x-asked");
        let governed = governed_over(
            &origin,
            r#"
            import proxy;
            sub vcl_recv {
                set req.http.X-Told = "" + proxy.is_ssl() + " " + proxy.client_has_cert_conn() + " " +
                    proxy.client_has_cert_sess() + " " + proxy.ssl_verify_result() + " " +
                    proxy.alpn() + " " + proxy.authority() + " " + proxy.ssl_version() + " " +
                    proxy.ssl_cipher() + " " + proxy.cert_sign() + " " + proxy.cert_key() + " " +
                    proxy.client_cert_cn();
                return (pass);
            }
            sub vcl_backend_fetch { set bereq.http.X-Asked = proxy.authority(); }
            sub vcl_deliver { set resp.http.X-Told = req.http.X-Told; }
            "#,
            "proxy_protocol = true\n",
        );
        let inner = [
            tlv(0x21, b"TLSv1.3"),
            tlv(0x22, b"me.example"),
            tlv(0x23, b"TLS_AES_128_GCM_SHA256"),
            tlv(0x24, b"RSA-SHA256"),
            tlv(0x25, b"EC256"),
        ];
        let names = [tlv(0x01, b"h2"), tlv(0x02, b"cdn.example")].concat();
        let full = [&names[..], &ssl(0x07, 0, &inner)].concat();
        let twice = [&full[..], &tlv(0x02, b"other.example"), &ssl(0, 9, &[])].concat();
        let said = "true true true 0 h2 cdn.example TLSv1.3 TLS_AES_128_GCM_SHA256 RSA-SHA256 \
                    EC256 me.example";
        let nothing = "false false false 0";
        for (command, tlvs, told, asked) in [
            (1, &full[..], said, "cdn.example"),
            (1, &twice, said, "cdn.example"),
            (1, &ssl(0x05, 10, &inner[..1]), "true false true 10   TLSv1.3", ""),
            (1, &names, "false false false 0 h2 cdn.example", "cdn.example"),
            (1, &tlv(0xee, b"what nobody knows"), nothing, ""),
            (1, b"", nothing, ""),
            // What a proxy says for itself is about no client.
            (0, &full, nothing, ""),
        ] {
            let mut client = Client::to(&governed.node).await;
            client.send(&version_2_with(command, tlvs)).await;
            // The header holds for every request of the connection.
            for _ in 0..2 {
                let answer = client.get("/a").await;
                assert_eq!(answer.field("x-told").map(str::trim_end), Some(told));
                assert_eq!(answer.text(), asked, "{told}");
            }
        }
    });
}

#[test]
fn a_proxy_header_with_broken_values_closes_the_connection() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let node = behind_proxy(&origin);
        let broken: [&[u8]; 7] = [
            &[0x01],
            &[0x01, 0, 3, b'h', b'2'],
            &tlv(0x02, b"a\r\nX-Injected: 1"),
            &tlv(0x03, &[0; 4]),
            &tlv(0x20, &[1, 0, 0, 0]),
            &ssl(1, 0, &[vec![0x21, 0]]),
            &ssl(1, 0, &[vec![0x21, 0, 9, b'T']]),
        ];
        for tlvs in broken {
            let mut client = Client::to(&node).await;
            let request = b"GET /a HTTP/1.1\r\nHost: example.test\r\n\r\n";
            client.send(&[&version_2_with(1, tlvs), &request[..]].concat()).await;
            assert!(client.ended().await, "{tlvs:?}");
        }
        assert_eq!((node.count("proxy_header_errors"), origin.count()), (7, 0));
        // One that says it is longer than what is sent waits for the rest, and ends with the client.
        let mut client = Client::to(&node).await;
        client.send(&version_2_with(1, &tlv(0x02, b"cdn.example"))[..30]).await;
        drop(client);
        assert_eq!(get_through(&node).await, "/a");
    });
}

/// A request over a connection with a good header.
async fn get_through(node: &TestNode) -> String {
    let mut client = Client::to(node).await;
    client.send(&version_2(1)).await;
    client.get("/a").await.text()
}

#[test]
fn a_connection_without_its_proxy_header_is_closed() {
    run(async {
        let origin = telling("x-forwarded-for");
        let node = behind_proxy(&origin);
        for bytes in ["GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "PROXY TCP4 x y 1 2\r\n"] {
            let mut client = Client::to(&node).await;
            client.send(bytes).await;
            assert!(client.ended().await, "{bytes}");
        }
        assert_eq!((node.count("proxy_header_errors"), origin.count()), (2, 0));
    });
}

#[test]
fn a_peer_outside_of_proxy_from_cannot_choose_an_address() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let mut setup = Setup::of(&origin).behind_proxy();
        setup.listen.push_str("proxy_from = [\"192.0.2.0/24\"]\n");
        setup.listen.push_str("[[listen]]\naddress = \"127.0.0.1:0\"\n");
        let node = setup.start();
        let open = node.node.socket_addresses()[1];
        assert_eq!(Client::connect(open).await.get("/a").await.text(), "/a");
        // An address that PURGE is open to, by either version; and none at all.
        let mut local = version_2(1);
        local[16..20].copy_from_slice(&[127, 0, 0, 1]);
        for header in [&b"PROXY TCP4 127.0.0.1 127.0.0.1 1 80\r\n"[..], &local, b""] {
            let mut client = Client::to(&node).await;
            client
                .send(&[header, b"PURGE /a HTTP/1.1\r\nHost: example.test\r\n\r\n"].concat())
                .await;
            assert!(client.ended().await);
        }
        assert_eq!((node.count("proxy_untrusted"), node.count("proxy_header_errors")), (3, 0));
        assert_eq!((node.count("purges"), node.count("requests")), (0, 1));
    });
}

#[test]
fn a_unix_socket_takes_the_word_of_whom_its_file_lets_in() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.sock");
        let origin = telling("x-forwarded-for");
        let mut setup = Setup::of(&origin);
        setup.listen = format!("[[listen]]\naddress = \"unix:{}\"\n", path.display());
        setup.listen.push_str("proxy_protocol = true\nproxy_from = []\n");
        let _node = setup.start();
        let mut client = Client::over(UnixStream::connect(&path).await.unwrap());
        client.send("PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\n").await;
        assert_eq!(client.get("/a").await.text(), "192.0.2.7");
    });
}

#[test]
fn a_listener_on_ipv6_serves() {
    run(async {
        let origin = telling("x-forwarded-for");
        let mut setup = Setup::of(&origin);
        setup.listen = "[[listen]]\naddress = \"[::1]:0\"\n".into();
        let node = setup.start();
        assert!(node.address().is_ipv6());
        assert_eq!(get(&node, "/a").await.text(), "::1");
    });
}

#[test]
fn a_listener_on_all_addresses_serves_both_families() {
    run(async {
        let origin = telling("x-forwarded-for");
        let mut setup = Setup::of(&origin);
        setup.listen = "[[listen]]\naddress = \":0\"\n".into();
        let node = setup.start();
        let port = node.address().port();
        for (from, seen) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")] {
            let mut client = Client::connect(format!("{from}:{port}").parse().unwrap()).await;
            assert_eq!(client.get("/a").await.text(), seen);
        }
    });
}

#[test]
fn a_unix_socket_listens_and_its_clients_have_no_address() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.sock");
        let origin = telling("x-forwarded-for");
        let mut setup = Setup::of(&origin);
        setup.listen = format!("[[listen]]\naddress = \"unix:{}\"\n", path.display());
        let node = setup.start();
        assert_eq!(node.path(), path);
        for _ in 0..8 {
            let mut client = Client::over(UnixStream::connect(&path).await.unwrap());
            assert_eq!(client.get("/a").await.text(), "none");
            assert_eq!(client.request("PURGE", "/a", &[]).await.status, 405);
        }
    });
}

#[test]
fn an_origin_on_a_unix_socket_is_asked() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("origin.sock");
        let origin = Origin::serve_at(Address::Unix(path), None, |asked| fresh(asked.target()));
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/over/unix").await.text(), "/over/unix");
        assert_eq!(origin.requests()[0].field("host"), Some("example.test"));
    });
}

#[test]
fn an_https_origin_is_asked_when_its_certificate_is_good() {
    run(async {
        let authority = Authority::new();
        let local = Address::Tcp(([127, 0, 0, 1], 0).into());
        let origin = Origin::serve_at(local, Some(authority.server()), |asked| {
            response("200 OK", &["Cache-Control: no-store"], asked.target())
        });
        let mut setup = Setup::of(&origin);
        setup.origins.push_str(&format!("ca = \"{}\"\n", authority.path("ca.pem").display()));
        let node = setup.start();
        for target in ["/1", "/2", "/3"] {
            assert_eq!(get(&node, target).await.text(), target);
        }
        assert!(origin.connections() <= 2, "one connection for each worker at most");
    });
}

#[test]
fn an_https_origin_whose_certificate_is_not_good_is_a_502() {
    run(async {
        let (authority, other) = (Authority::new(), Authority::new());
        let local = Address::Tcp(([127, 0, 0, 1], 0).into());
        let origin =
            Origin::serve_at(local, Some(authority.server()), |asked| fresh(asked.target()));
        let ca =
            |authority: &Authority| format!("ca = \"{}\"\n", authority.path("ca.pem").display());
        for wrong in [ca(&other), format!("{}sni = \"other.test\"\n", ca(&authority))] {
            let mut setup = Setup::of(&origin);
            setup.origins.push_str(&wrong);
            let node = setup.start();
            let answer = get(&node, "/a").await;
            assert_eq!(answer.status, 502);
            let status = answer.field("proxy-status").unwrap();
            assert!(status.contains("error=tls_certificate_error"), "{status}");
        }
        let mut setup = Setup::of(&origin);
        setup.origins.push_str("verify = false\n");
        assert_eq!(get(&setup.start(), "/a").await.text(), "/a");
    });
}

#[test]
fn the_configured_host_is_sent_instead_of_the_clients() {
    run(async {
        let origin = telling("host");
        let mut setup = Setup::of(&origin);
        setup.origins.push_str("host = \"inside.test\"\n");
        assert_eq!(get(&setup.start(), "/a").await.text(), "inside.test");
    });
}

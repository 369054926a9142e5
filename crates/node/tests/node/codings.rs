//! Bodies that are kept in another form than they come in: packed, unpacked, put together.

use crate::client::{Answer, Client, get, get_with, request};
use crate::harness::{Setup, run, until};
use crate::origin::{Origin, Request, fresh, response, then_close};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read as _, Write as _};

const GZIP: &[&str] = &["Accept-Encoding: gzip"];
const TEXT: &str = "Content-Type: text/html";
const PAGE: &str = "Surrogate-Control: content=\"ESI/1.0\"";
const FRESH: &str = "Cache-Control: max-age=60";

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn unpacked(answer: &Answer) -> String {
    assert_eq!(answer.field("content-encoding"), Some("gzip"), "{:?}", answer.head);
    let mut text = String::new();
    let mut decoder = GzDecoder::new(&*answer.body);
    decoder.read_to_string(&mut text).unwrap();
    assert!(decoder.into_inner().is_empty(), "something follows behind the end");
    text
}

#[test]
fn a_text_is_kept_packed_once_and_unpacked_for_those_without_gzip() {
    run(async {
        let text = "all work and no play ".repeat(5000);
        let kept = text.clone();
        let origin = Origin::serve(move |asked: &Request| {
            assert_eq!(asked.field("accept-encoding"), Some("gzip"));
            let digest = "Repr-Digest: sha-256=:eA==:";
            response("200 OK", &[TEXT, FRESH, "ETag: \"a\"", digest], &kept)
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true").start();
        let first = get(&node, "/").await;
        // It was of the bytes as they came.
        assert_eq!((first.text(), first.field("repr-digest")), (text.clone(), None));
        let small = get_with(&node, "/", GZIP).await;
        assert_eq!(unpacked(&small), text);
        assert!(small.body.len() < text.len() / 10, "{}", small.body.len());
        assert_eq!(small.field("etag"), Some("W/\"a\""));
        let plain = get_with(&node, "/", &["Accept-Encoding: gzip;q=0"]).await;
        assert_eq!((plain.text(), plain.field("content-encoding")), (text.clone(), None));
        let length = text.len().to_string();
        assert_eq!(plain.field("content-length"), Some(&*length));
        assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
        let part = get_with(&node, "/", &["Range: bytes=4-7"]).await;
        assert_eq!((part.status, part.text()), (206, "work".to_owned()));
        let head = request(&node, "HEAD", "/", &[]).await;
        assert_eq!(head.field("content-length"), Some(&*length));
        let unchanged = get_with(&node, "/", &["If-None-Match: \"a\""]).await;
        assert_eq!(unchanged.status, 304);
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn what_was_packed_is_unpacked_also_when_the_site_packs_no_more() {
    run(async {
        let text = "all work and no play ".repeat(500);
        for was in ["gzip = true", "codings = [\"br\"]"] {
            let kept = text.clone();
            let origin = Origin::serve(move |asked: &Request| {
                let fields = [TEXT, FRESH, "ETag: \"a\"", "Vary: Accept-Encoding"];
                match (asked.target(), asked.field("accept-encoding")) {
                    ("/packed", Some(_)) => {
                        let fields = [&fields[..], &["Content-Encoding: gzip"]].concat();
                        response("200 OK", &fields, packed(kept.as_bytes()))
                    }
                    _ => response("200 OK", &fields, &kept),
                }
            });
            let node = Setup::of(&origin).and(&format!("[cache]\n{was}")).start();
            for path in ["/plain", "/packed"] {
                assert_eq!(unpacked(&get_with(&node, path, GZIP).await), text);
            }
            let after = Setup::of(&origin).and("[cache]\nname = \"after\"");
            node.node.reload(after.settings()).unwrap();
            while !get(&node, "/plain").await.cache().starts_with("after") {}
            for path in ["/plain", "/packed"] {
                for wanted in
                    ["Accept: */*", "Accept-Encoding: identity", "Accept-Encoding: gzip;q=0"]
                {
                    let plain = get_with(&node, path, &[wanted]).await;
                    assert_eq!(plain.text(), text, "{was} {path} {wanted}");
                    assert_eq!(plain.field("content-encoding"), None);
                    assert_eq!(plain.field("etag"), Some("W/\"a\""));
                }
                let part = get_with(&node, path, &["Range: bytes=4-7"]).await;
                assert_eq!((part.status, part.text()), (206, "work".to_owned()));
                let head = request(&node, "HEAD", path, &[]).await;
                assert_eq!(head.field("content-length"), Some(&*text.len().to_string()));
                assert_eq!(unpacked(&get_with(&node, path, GZIP).await), text);
            }
            assert_eq!(origin.count(), 2, "{was}");
        }
    });
}

#[test]
fn what_an_origin_packed_is_unpacked_and_pictures_stay_as_they_are() {
    run(async {
        let origin = Origin::serve(|asked: &Request| match asked.target() {
            "/packed" => response(
                "200 OK",
                &[TEXT, FRESH, "Content-Encoding: gzip"],
                packed(b"hello hello hello"),
            ),
            _ => response("200 OK", &["Content-Type: image/png", FRESH], "not really"),
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true").start();
        assert_eq!(get(&node, "/packed").await.text(), "hello hello hello");
        assert_eq!(unpacked(&get_with(&node, "/packed", GZIP).await), "hello hello hello");
        let picture = get_with(&node, "/picture", GZIP).await;
        assert_eq!(
            (picture.text(), picture.field("content-encoding")),
            ("not really".into(), None)
        );
    });
}

#[test]
fn what_says_gzip_and_is_none_breaks_off_and_is_not_kept() {
    run(async {
        let origin = Origin::serve(|_: &Request| {
            let mut broken = packed("hello ".repeat(20_000).as_bytes());
            let middle = broken.len() / 2;
            broken.truncate(middle);
            response("200 OK", &[TEXT, FRESH, "Content-Encoding: gzip"], broken)
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true").start();
        for _ in 0..2 {
            let answer = get(&node, "/").await;
            assert!(!answer.complete || answer.status >= 500, "{:?}", answer.head);
        }
        assert_eq!(origin.count(), 2);
        // Who wants it packed gets what the origin sent, and nobody else does.
        get_with(&node, "/", GZIP).await;
        until(|| node.objects() == 0).await;
    });
}

#[test]
fn a_page_is_put_together_of_its_own_text_and_other_responses() {
    run(async {
        let origin = Origin::serve(|asked: &Request| match asked.target() {
            "/page" => response(
                "200 OK",
                &[TEXT, FRESH, PAGE],
                "<p>a<esi:include src=\"/one\"/>b<esi:remove>no</esi:remove>\
                 <!--esi <esi:include src=\"two\"/>-->c<esi:comment text=\"x\"/>",
            ),
            "/one" => response("200 OK", &[TEXT, "Cache-Control: no-store"], "[1]"),
            "/two" => response(
                "200 OK",
                &[TEXT, FRESH, PAGE],
                "<i>2<esi:include src=\"http://OTHER.example/x/../three#top\"/></i>",
            ),
            "/three" => {
                assert_eq!(asked.field("host"), Some("other.example"));
                response("200 OK", &[TEXT, FRESH, "Content-Encoding: gzip"], packed(b"(3)"))
            }
            other => panic!("nobody asks for {other}"),
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true\nesi = true").start();
        let want = "<p>a[1]b <i>2(3)</i>c";
        let first = get(&node, "/page").await;
        assert_eq!(first.text(), want);
        assert_eq!(first.field("surrogate-control"), None);
        assert_eq!(unpacked(&get_with(&node, "/page", GZIP).await), want);
        assert_eq!(get_with(&node, "/page", &["Range: bytes=0-1"]).await.text(), want);
        assert_eq!(request(&node, "HEAD", "/page", &[]).await.status, 200);
        assert_eq!((first.field("etag"), first.field("last-modified")), (None, None));
        // The pages were fetched once, and what may not be kept each time.
        assert_eq!(origin.count(), 3 + 3);
        assert_eq!(node.count("esi_requests"), 9);
    });
}

#[test]
fn an_include_that_fails_is_its_error_page_and_the_page_goes_on() {
    run(async {
        let origin = Origin::serve(|asked: &Request| match asked.target() {
            "/page" => response(
                "200 OK",
                &[TEXT, FRESH, PAGE],
                "<p><esi:include src=\"/gone\"/><esi:include src=\"/page\"/>",
            )
            .into(),
            _ => then_close(""),
        });
        let node = Setup::of(&origin).and("[cache]\nesi = true").start();
        let answer = get(&node, "/page").await;
        // A page that includes itself ends at the depth that is allowed.
        assert_eq!(answer.text().matches("<p>").count(), 6, "{}", answer.text());
        assert_eq!(answer.text().matches("502").count(), 5, "{}", answer.text());
    });
}

#[test]
fn a_page_that_is_larger_than_memory_streams_through() {
    run(async {
        let line = "<p>some words of a long page<esi:include src=\"/one\"/></p>\n";
        let lines = 400_000;
        let origin = Origin::serve(move |asked: &Request| match asked.target() {
            "/page" => response("200 OK", &[TEXT, FRESH, PAGE], line.repeat(lines)),
            _ => response("200 OK", &[TEXT, FRESH], "1"),
        });
        let many =
            "[cache]\nesi = true\nobject_bytes_max = \"1MiB\"\n[esi]\nincludes_max = 1000000";
        let setup = Setup::of(&origin).and(many);
        let node = setup.start();
        let answer = get(&node, "/page").await;
        assert!(answer.complete);
        assert_eq!(answer.body.len(), "<p>some words of a long page1</p>\n".len() * lines);
        assert_eq!(node.objects(), 1);
    });
}

#[test]
fn a_page_that_includes_itself_stops_at_the_limit_and_lets_others_have_their_turn() {
    run(async {
        let bomb = format!("<p>{}</p>", "<esi:include src=\"/bomb\"/>".repeat(30));
        let origin = Origin::serve(move |asked| match asked.target() {
            "/bomb" => {
                let fields =
                    ["Cache-Control: max-age=60", "Surrogate-Control: content=\"ESI/1.0\""];
                response("200 OK", &fields, &bomb)
            }
            _ => fresh("other"),
        });
        const LIMIT: u64 = 30_000;
        let rest = format!("[cache]\nesi = true\n[esi]\nincludes_max = {LIMIT}\n");
        let node = Setup { workers: 1, ..Setup::of(&origin).and(&rest) }.start();
        get(&node, "/other").await;
        let (mut first, mut second) = (Client::to(&node).await, Client::to(&node).await);
        first.ask("GET", "/bomb", &[]).await;
        node.counted("esi_requests", 1).await;
        assert_eq!(second.get("/other").await.text(), "other");
        assert!(node.count("esi_requests") < LIMIT / 2, "the other one waited for the page");
        let answer = first.answer("GET").await;
        assert_eq!((answer.status, answer.complete), (200, true));
        assert_eq!((node.count("esi_requests"), node.count("esi_limited")), (LIMIT, 1));
    });
}

#[test]
fn a_page_ends_when_its_client_leaves() {
    run(async {
        // Nothing but includes: no write tells that nobody is there.
        let bomb = format!("<!--{}-->", "<esi:include src=\"/bomb\"/>".repeat(30));
        let bomb = format!("<esi:remove>{}</esi:remove>{}", "x", &bomb[4..bomb.len() - 3]);
        let origin = Origin::serve(move |_| response("200 OK", &[TEXT, FRESH, PAGE], &bomb));
        let rest = "[cache]\nesi = true\n[esi]\nincludes_max = 1000000\n";
        let node = Setup { workers: 1, ..Setup::of(&origin).and(rest) }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/bomb", &[]).await;
        node.counted("esi_requests", 100).await;
        drop(client);
        node.counted("responses_aborted", 1).await;
        assert_eq!(node.count("esi_limited"), 0);
    });
}

#[test]
fn a_page_breaks_off_at_the_limits_on_its_length_and_its_time() {
    run(async {
        let mut origin = Origin::scripted();
        let rest = "[cache]\nesi = true\n[esi]\nbytes_max = \"1MB\"\ntimeout = \"300ms\"\n";
        let node = Setup::of(&origin).and(rest).start();
        let page = |src: &str, count: usize| {
            let text = format!("<p>{}</p>", format!("<esi:include src=\"{src}\"/>").repeat(count));
            response("200 OK", &[TEXT, FRESH, PAGE], text)
        };
        let part = fresh("x".repeat(300_000));
        // The same part again and again; and a page that is within the limit.
        for (target, count, is_whole) in [("/long", 30, false), ("/short", 3, true)] {
            let mut client = Client::to(&node).await;
            client.ask("GET", target, &[]).await;
            origin.next().await.send(page("/part", count));
            if !is_whole {
                origin.next().await.send(part.clone());
            }
            let answer = client.answer("GET").await;
            assert_eq!(answer.complete, is_whole, "{target}");
            assert!((900_000..1_000_000).contains(&answer.body.len()), "{}", answer.body.len());
        }
        assert_eq!(node.count("esi_limited"), 1);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/late", &[]).await;
        origin.next().await.send(page("/never", 1));
        let _asked = origin.next().await;
        let answer = client.answer("GET").await;
        assert!(!answer.complete && answer.text() == "<p>", "{}", answer.text());
        assert_eq!(node.count("esi_limited"), 2);
    });
}

#[test]
fn all_streams_of_gzip_count_and_padding_does_not() {
    run(async {
        let (one, other) = ("A".repeat(3000), "B".repeat(500));
        let (first, second) = (packed(one.as_bytes()), packed(other.as_bytes()));
        let origin = Origin::serve(move |asked: &Request| {
            let rest = if asked.target() == "/two" { &second[..] } else { &[0; 64] };
            let body = [&first[..], rest].concat();
            response("200 OK", &[TEXT, FRESH, "Content-Encoding: gzip"], body)
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true").start();
        for (target, text) in [("/two", format!("{one}{other}")), ("/padded", one)] {
            get_with(&node, target, GZIP).await;
            until(|| {
                let cache = &node.node.shared.cache;
                let known = cache.peek(&cache.key(crate::client::HOST, target)).variants;
                known.iter().all(|object| object.body().is_complete())
            })
            .await;
            let plain = get(&node, target).await;
            assert_eq!((plain.complete, plain.text()), (true, text.clone()));
            assert_eq!(plain.head.number("content-length"), Some(text.len() as u64));
            let last = get_with(&node, target, &["Range: bytes=-4"]).await;
            let range = format!("bytes {}-{}/{}", text.len() - 4, text.len() - 1, text.len());
            assert_eq!((last.status, last.field("content-range")), (206, Some(&*range)));
            assert_eq!(last.text(), text[text.len() - 4..]);
        }
    });
}

#[test]
fn a_part_of_what_is_unpacked_is_none_of_what_was_packed() {
    run(async {
        let origin = Origin::serve(|_: &Request| {
            let fields = [TEXT, FRESH, "Content-Encoding: gzip", "ETag: \"gz\""];
            response("200 OK", &fields, packed("hello ".repeat(99).as_bytes()))
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true").start();
        let first = get_with(&node, "/", GZIP).await;
        assert_eq!(first.field("etag"), Some("\"gz\""));
        let range = "Range: bytes=6-10";
        let part = get_with(&node, "/", &[GZIP[0], range, "If-Range: \"gz\""]).await;
        assert_eq!((part.status, &*part.body), (206, &first.body[6..11]));
        // Not even by the weak tag it has without gzip (RFC 9110 §13.1.5).
        for tag in ["\"gz\"", "W/\"gz\""] {
            let whole = get_with(&node, "/", &[range, &format!("If-Range: {tag}")]).await;
            assert_eq!((whole.status, whole.text()), (200, "hello ".repeat(99)), "{tag}");
        }
        let known = get_with(&node, "/", &["If-None-Match: \"gz\""]).await;
        assert_eq!((known.status, known.field("etag")), (304, Some("W/\"gz\"")));
        assert_eq!(get_with(&node, "/", &[range]).await.text(), "hello");
        let behind = get_with(&node, "/", &["Range: bytes=9999-"]).await;
        assert_eq!((behind.status, behind.field("content-encoding")), (416, None));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_download_of_what_is_packed_here_goes_on_by_no_date() {
    run(async {
        const SINCE: &str = "Wed, 21 Oct 2015 07:28:00 GMT";
        let kept = "hello ".repeat(99);
        let origin = Origin::serve(move |asked: &Request| {
            let modified = format!("Last-Modified: {SINCE}");
            match asked.target() {
                "/packed" => {
                    let fields = [TEXT, FRESH, &modified, "Content-Encoding: gzip"];
                    response("200 OK", &fields, packed(kept.as_bytes()))
                }
                _ => response("200 OK", &[TEXT, FRESH, &modified], &kept),
            }
        });
        let node = Setup::of(&origin).and("[cache]\ncodings = [\"zstd\", \"gzip\"]").start();
        let since = format!("If-Range: {SINCE}");
        let part = ["Range: bytes=5-14", &since];
        for coding in ["gzip", "zstd"] {
            let takes = format!("Accept-Encoding: {coding}");
            let first = get_with(&node, "/", &[&takes]).await;
            assert_eq!(first.field("content-encoding"), Some(coding));
            // What is packed another time are other bytes (RFC 9110 §8.8.1).
            let whole = get_with(&node, "/", &[&takes, part[0], part[1]]).await;
            assert_eq!((whole.status, whole.body == first.body), (200, true), "{coding}");
            let asked = get_with(&node, "/", &[&takes, part[0]]).await;
            assert_eq!((asked.status, &*asked.body), (206, &first.body[5..15]), "{coding}");
        }
        // What the origin packed is the same each time.
        let first = get_with(&node, "/packed", GZIP).await;
        let asked = get_with(&node, "/packed", &[GZIP[0], part[0], part[1]]).await;
        assert_eq!((asked.status, &*asked.body), (206, &first.body[5..15]));
        let unchanged = format!("If-Modified-Since: {SINCE}");
        assert_eq!(get_with(&node, "/", &[GZIP[0], &unchanged]).await.status, 304);
    });
}

#[test]
fn what_nobody_may_change_comes_as_it_was_sent_and_as_the_client_takes_it() {
    run(async {
        let text = "hello ".repeat(99);
        let kept = text.clone();
        let origin = Origin::serve(move |asked: &Request| {
            let takes = asked.field("accept-encoding").is_some_and(|value| value.contains("gzip"));
            let takes = takes || asked.target() == "/always";
            let control = "Cache-Control: max-age=60, no-transform";
            let (coding, body) = match takes {
                true => ("Content-Encoding: gzip", packed(kept.as_bytes())),
                false => ("X-Coding: none", kept.clone().into_bytes()),
            };
            let digest = "Repr-Digest: sha-256=:eA==:";
            response("200 OK", &[TEXT, control, "ETag: \"a\"", digest, coding], body)
        });
        let node = Setup::of(&origin).and("[cache]\ngzip = true").start();
        for _ in 0..2 {
            let plain = get(&node, "/").await;
            assert_eq!((plain.text(), plain.field("content-encoding")), (text.clone(), None));
            let coded = get_with(&node, "/coded", GZIP).await;
            assert_eq!(unpacked(&coded), text);
            let same = get(&node, "/coded").await;
            assert_eq!((same.text(), same.field("content-encoding")), (text.clone(), None));
            for answer in [plain, coded, same] {
                assert_eq!(answer.field("etag"), Some("\"a\""));
                assert_eq!(answer.field("repr-digest"), Some("sha-256=:eA==:"));
            }
            // What its origin sends packed to everybody is that origin's word.
            assert_eq!(unpacked(&get(&node, "/always").await), text);
        }
        // Twice where the client takes no gzip, once where it does, and nothing a second time.
        assert_eq!(origin.count(), 2 + 1 + 2 + 2);
    });
}

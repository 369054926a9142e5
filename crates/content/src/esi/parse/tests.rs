use super::*;
use proptest::prelude::*;

#[derive(Debug, Default, Eq, PartialEq)]
struct Page {
    text: String,
    whole: Vec<u8>,
    includes: Vec<(String, String)>,
    complaints: Vec<String>,
}

fn parse_with(page: &[u8], piece_bytes: usize, settings: EsiSettings) -> Page {
    let mut parser = Parser::new(settings, "/dir/page?x=/y");
    let mut out = Page::default();
    let mut text = Vec::new();
    let mut take = |found: Found<'_>| match found {
        Found::Text(bytes) => {
            text.extend_from_slice(bytes);
            out.whole.extend_from_slice(bytes);
        }
        Found::Markup(bytes) => out.whole.extend_from_slice(bytes),
        Found::Include(include) => {
            text.extend_from_slice(b"[]");
            let words = [include.host, include.target]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let [host, target] = words;
            out.includes.push((host, target));
        }
    };
    for piece in page.chunks(piece_bytes) {
        parser.feed(piece, &mut take);
    }
    parser.end(&mut take);
    out.text = String::from_utf8_lossy(&text).into_owned();
    out.complaints = parser
        .take_complaints()
        .into_iter()
        .map(|one| format!("{} {}", one.offset, one.text))
        .collect();
    out
}

fn parse(page: &str) -> Page {
    let out = parse_with(page.as_bytes(), 1 << 20, EsiSettings::default());
    assert_eq!(out, parse_with(page.as_bytes(), 1, EsiSettings::default()), "byte by byte");
    out
}

#[test]
fn text_goes_through_and_tags_of_ours_do_not() {
    let page = parse("<p>a<esi:include src=\"/b\"/>c<esi:comment x/>d<esi:remove>e</esi:remove>f");
    assert_eq!(page.text, "<p>a[]cdf");
    assert_eq!(page.includes, [(String::new(), "/b".to_owned())]);
    assert_eq!(page.complaints, [""; 0]);
}

#[test]
fn what_is_in_our_comment_is_parsed_and_what_is_in_others_is_not() {
    let page = parse(
        "<x><!--esi a<esi:include src='/b'/>- -- --->c<!-- <esi:include/> --><![CDATA[<esi:x>]]>",
    );
    assert_eq!(page.text, "<x> a[]- -- -c<!-- <esi:include/> --><![CDATA[<esi:x>]]>");
    assert_eq!(parse("<!---->a<!-->b-->").text, "<!---->a<!-->b-->");
    assert_eq!(page.complaints, [""; 0]);
    let page = parse("<x><!--esi a<!---->b-->c<!--esi d<!-- e -->f-->g");
    assert_eq!(page.text, "<x> a<!---->bc d<!-- e -->f-->g");
}

#[test]
fn it_is_known_whether_anything_was_found() {
    let has_found = |page: &[u8]| {
        let mut parser = Parser::new(EsiSettings::default(), "/");
        parser.feed(page, &mut |_| ());
        parser.has_found()
    };
    for page in ["<a><esi:comment", "<a></esi:x>", "<a><!--esi b-->"] {
        assert!(has_found(page.as_bytes()), "{page}");
    }
    for page in ["<a><!--esi b", "<a>--><!-- c -->", "<es:include src=\"/\"/>"] {
        assert!(!has_found(page.as_bytes()), "{page}");
    }
}

#[test]
fn addresses_are_of_the_page_or_of_another_host() {
    let page = parse(
        "<esi:include src=\"http://h.example:81/a?b=1&amp;c=2\"/><esi:include src='d'/>\
         <esi:include src=\"//i/e\"/><esi:include src=\"https://j/f\"/>",
    );
    let words = |host: &str, target: &str| (host.to_owned(), target.to_owned());
    assert_eq!(
        page.includes,
        [words("h.example:81", "/a?b=1&c=2"), words("", "/dir/d"), words("i", "/e")]
    );
    assert_eq!(page.complaints, ["102 ESI 1.0 <esi:include> with https:// ignored"]);
}

#[test]
fn a_page_whose_path_has_no_folder_is_one() {
    for (page, target) in [("/a?x=/y", "/b"), ("/a/", "/a/b"), ("a", "a/b"), ("", "/b")] {
        let mut parser = Parser::new(EsiSettings::default(), page);
        let mut targets = Vec::new();
        parser.feed(b"<esi:include src='b'/>", &mut |found| {
            if let Found::Include(include) = found {
                targets.push(include.target);
            }
        });
        assert_eq!(targets, [target.as_bytes()], "{page}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let of = |page: &str| parse(page).complaints.join("; ");
    assert_eq!(of("<a><esi:bogus/>"), "3 ESI 1.0 <esi:bogus> element");
    assert_eq!(of("<a><esi:include/>"), "3 ESI 1.0 <esi:include> lacks src attr");
    assert_eq!(of("<a><esi:include 2=x/>"), "3 XML 1.0 Illegal attribute start char");
    assert_eq!(of("<a><esi:include k?=x/>"), "3 XML 1.0 Illegal attr char");
    assert_eq!(of("<a><esi:include src=/>"), "3 XML 1.0 Missing end attribute delimiter");
    assert_eq!(of("<a><esi:include src= />"), "3 XML 1.0 Illegal attribute delimiter");
    let one_by_one = "6 ESI 1.0 <esi:bogus> element; 13 ESI 1.0 <esi:bogus> element";
    assert_eq!(of("<a>b c<esi:x><esi:y>"), one_by_one);
    assert_eq!(
        of("<a><esi:remove>b<esi:comment/>"),
        "3 ESI 1.0 <esi:comment> element nested in <esi:remove>"
    );
    assert_eq!(of("<a><esi:remove><b"), "3 VEP ended inside a tag");
    assert_eq!(of("<a><esi:includes src='/'/>"), "3 XML 1.0 Illegal attribute start char");
    let has_two = "3 ESI 1.0 <esi:include> has multiple src= attributes";
    assert_eq!(of("<a><esi:include src='/' src='/' k?=x/>"), has_two);
    assert_eq!(of("<a><esi:comment / >"), "3 XML 1.0 '>' does not follow '/' in tag");
    assert_eq!(of("<a><esi:comment doo>"), "3 ESI 1.0 <esi:comment> needs final '/'");
    assert_eq!(of("<a><esi:remove x='y'/>"), "3 ESI 1.0 <esi:remove/> not legal");
    assert_eq!(of("<a></esi:remove>"), "3 ESI 1.0 <esi:remove> not open");
    assert_eq!(of("<a><esi:include src='/'>"), "3 ESI 1.0 <esi:include> lacks final '/'");
    assert_eq!(parse("<a><esi:include src='/x\ny'/>b").text, "<a>b");
}

/// One by one they cost 270 ns each, and a page under gzip can have a thousand times its length.
#[test]
fn bytes_of_a_tag_that_is_too_long_go_by_in_runs() {
    let page = [b"<esi:include src=\"", &[b'a'; 1 << 20][..], b"\">text"].concat();
    let mut parser = Parser::new(EsiSettings::default(), "/");
    let (mut runs, mut text) = (0, Vec::new());
    parser.feed(&page, &mut |found| {
        runs += 1;
        if let Found::Text(bytes) = found {
            text.extend_from_slice(bytes);
        }
    });
    assert_eq!((runs, text.as_slice()), (3, &b"text"[..]));
}

#[test]
fn an_include_within_another_tag_is_found_only_if_those_are_text() {
    let page = b"<a href=\"<esi:include src='/x'/>\">";
    assert_eq!(parse_with(page, 7, EsiSettings::default()).includes, []);
    let settings = EsiSettings { ignore_other_elements: true, ..EsiSettings::default() };
    assert_eq!(parse_with(page, 7, settings).text, "<a href=\"[]\">");
}

proptest! {
    #[test]
    fn no_byte_is_lost_and_pieces_do_not_matter(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "<", ">", "/", "esi:", "include", "remove", " src=", "'", "\"", "<!--", "esi",
                "-->", "-", "<![CDATA[", "]]>", "a", " ", "<esi:remove>", "</esi:remove>",
                "<esi:include src='/x'/>", "<!--esi",
            ]),
            0..40,
        ),
        piece_bytes in 1usize..20,
        ignore_other_elements in any::<bool>(),
    ) {
        let text = words.concat();
        let settings = EsiSettings { ignore_other_elements, ..EsiSettings::default() };
        let page = parse_with(text.as_bytes(), piece_bytes, settings.clone());
        prop_assert_eq!(&page.whole, text.as_bytes());
        prop_assert_eq!(page, parse_with(text.as_bytes(), 1 << 20, settings));
    }
}

//! What is written is read back as it was.

use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, ResponseHead, Scheme, Version, reason_phrase};
use freshet_wire::h1::{Framing, Limits, request, response, write};
use proptest::prelude::*;

/// Fields that the writer does not own.
fn fields() -> impl Strategy<Value = Fields> {
    let name = "[xX][!#$%&'*+.^_`|~0-9A-Za-z-]{0,19}";
    let value = "([!-~\u{80}-\u{ff}]([ \t!-~\u{80}-\u{ff}]{0,30}[!-~\u{80}-\u{ff}])?)?";
    proptest::collection::vec((name, value), 0..12).prop_map(|lines| lines.into_iter().collect())
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![Just(Framing::None), any::<u64>().prop_map(Framing::Length), Just(Framing::Chunked)]
}

prop_compose! {
    fn request_head()(
        method in "(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|PURGE|[A-Z][A-Z0-9-]{0,20})",
        authority in "([a-z0-9][a-z0-9-]{0,10}(\\.[a-z0-9]{1,5}){0,3}|\\[::[1-9a-f]\\])(:[1-9][0-9]{0,3})?",
        target in "/[!$-;=?-\\[\\]-_a-~]{0,60}",
        fields in fields(),
    ) -> RequestHead {
        RequestHead {
            method: Method::from_name(&method),
            scheme: Scheme::Https,
            authority,
            target,
            version: Version::Http11,
            fields,
        }
    }
}

prop_compose! {
    fn response_head()(
        status in 100..1000u16,
        reason in proptest::option::of("[!-~][ \t!-~]{0,20}[!-~]"),
        fields in fields(),
    ) -> ResponseHead {
        let reason = reason.filter(|text| text != reason_phrase(status)).map(Into::into);
        ResponseHead { status, reason, version: Version::Http11, fields }
    }
}

/// The fields without those that the writer adds.
fn without_framing(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    fields.retain(|name, _| {
        let added: [&[u8]; 3] = [b"Content-Length", b"Transfer-Encoding", b"Connection"];
        !added.contains(&name)
    });
    fields
}

proptest! {
    #[test]
    fn requests_come_back(head in request_head(), framing in framing()) {
        prop_assume!(!matches!(head.method, Method::Connect | Method::Trace));
        let mut text = Vec::new();
        write::request_head(&head, framing, &mut text);
        let limits = Limits::default();
        let parse = |text: &[u8]| request::parse(text, Scheme::Https, &limits);
        let got = parse(&text).expect("a good head").expect("a complete head");
        prop_assert_eq!((got.framing, got.head_bytes), (framing, text.len()));
        prop_assert!(got.keep_alive && !got.upgrade);
        let fields = without_framing(&got.head.fields);
        prop_assert_eq!(RequestHead { fields, ..got.head }, head);
        for end in 0..text.len() {
            prop_assert_eq!(parse(&text[..end]), Ok(None));
        }
    }

    #[test]
    fn responses_come_back(
        head in response_head(),
        framing in prop_oneof![framing(), Just(Framing::UntilClose)],
        keep_alive: bool,
    ) {
        let mut text = Vec::new();
        write::response_head(&head, framing, keep_alive, Version::Http11, &mut text);
        let limits = Limits::default();
        let parse = |text: &[u8]| response::parse(text, &Method::Get, &limits);
        let got = parse(&text).expect("a good head").expect("a complete head");
        let want = match head.status {
            100..200 | 204 | 304 => Framing::None,
            _ if framing == Framing::None => Framing::UntilClose,
            _ => framing,
        };
        prop_assert_eq!((got.framing, got.head_bytes), (want, text.len()));
        let fields = without_framing(&got.head.fields);
        prop_assert_eq!(ResponseHead { fields, ..got.head }, head);
        for end in 0..text.len() {
            prop_assert_eq!(parse(&text[..end]), Ok(None));
        }
    }
}

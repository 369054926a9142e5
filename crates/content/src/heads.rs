//! What a coding changes in a response's head.

use crate::chain::Filter;
use freshet_cache::Form;
use freshet_http::coding::Coding;
use freshet_http::fields::Fields;

/// Makes an entity tag weak: a coded body is not byte for byte the same (RFC 9110 §8.8.1). Whether it
/// was strong.
pub fn weaken_etag(fields: &mut Fields) -> bool {
    let strong = fields.get("etag").filter(|tag| !tag.starts_with(b"W/"));
    let weak = strong.map(|tag| [b"W/", tag].concat());
    let was_strong = weak.is_some();
    if let Some(weak) = weak {
        fields.set("ETag", weak);
    }
    was_strong
}

/// Takes away what is a sum of the bytes as they came (RFC 9530 §2, §3; RFC 1864): of others it would be
/// wrong, and clients that look at it would throw the body away.
pub fn remove_digests(fields: &mut Fields) {
    for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
        fields.remove(name);
    }
}

/// Takes away what is said of a body that has no place any more, but for how much there is of it
/// (RFC 9110 §14.4): the rest of the head is about the request.
pub fn remove_content_fields(fields: &mut Fields) {
    remove_digests(fields);
    for name in [
        "accept-ranges",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-type",
        "etag",
        "last-modified",
        "trailer",
    ] {
        fields.remove(name);
    }
}

/// Says that the bytes are others than those that came, though they mean the same.
pub fn note_other_bytes(fields: &mut Fields, form: &mut Form) {
    form.recoded = true;
    form.weakened |= weaken_etag(fields);
    remove_digests(fields);
}

/// Says that caches nearer to the client have to look at what coding it takes.
pub fn vary_by_encoding(fields: &mut Fields) {
    if !fields.tokens("vary").any(|name| name.eq_ignore_ascii_case(b"accept-encoding")) {
        fields.append_to_list("Vary", b"Accept-Encoding");
    }
}

/// Whether a body is under gzip and nothing else.
pub fn is_gzip(fields: &Fields) -> bool {
    fields.get("content-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"))
}

/// Whether nobody on the way may change the body (RFC 9110 §7.7).
pub fn forbids_change(fields: &Fields) -> bool {
    fields.has_token("cache-control", "no-transform")
}

/// Brings a head in line with `filters`, and says which of them apply and what form the body then
/// has. One that does not fit what the body is by then is left out.
pub fn apply(filters: &[Filter], fields: &mut Fields, form: &mut Form) -> Vec<Filter> {
    let mut applied = Vec::new();
    for filter in filters {
        let (now, is_plain) = (Coding::of(fields), !fields.contains("content-encoding"));
        match *filter {
            Filter::Unpack(coding) if now == Some(coding) => {
                fields.remove("content-encoding");
                note_other_bytes(fields, form);
                form.gzip = false;
            }
            Filter::Check(coding) if now == Some(coding) => {
                vary_by_encoding(fields);
                form.gzip = coding == Coding::Gzip;
            }
            Filter::Pack(coding) if is_plain && !form.parts => {
                put_on(coding, fields, form);
            }
            Filter::Esi if is_plain && !form.parts => form.parts = true,
            Filter::EsiGzip if is_plain && !form.parts => {
                put_on(Coding::Gzip, fields, form);
                form.parts = true;
            }
            _ => continue,
        }
        applied.push(*filter);
    }
    applied
}

fn put_on(coding: Coding, fields: &mut Fields, form: &mut Form) {
    fields.set("Content-Encoding", coding.name());
    vary_by_encoding(fields);
    note_other_bytes(fields, form);
    form.gzip = coding == Coding::Gzip;
}

/// The filters for what a policy wants done, where it names none itself.
pub fn filters_for(fields: &Fields, wish: Wish) -> Vec<Filter> {
    let is_plain = !fields.contains("content-encoding");
    // What is under another coding is as it is for who knows gzip only.
    let knows = |coding: &Coding| *coding == Coding::Gzip || wish.recodes;
    let now = Coding::of(fields).filter(knows);
    let pack = wish.pack.filter(|_| wish.may_code);
    let kept = match now {
        None => pack.filter(|_| is_plain),
        Some(Coding::Gzip) if wish.gunzip && wish.may_code => None,
        Some(now) => pack.filter(|_| wish.recodes).or(Some(now)),
    };
    let mut filters = Vec::new();
    if let Some(now) = now.filter(|_| wish.esi || kept != now) {
        filters.push(Filter::Unpack(now));
    }
    match (wish.esi, kept) {
        (true, Some(_)) => filters.push(Filter::EsiGzip),
        (true, None) => filters.push(Filter::Esi),
        (false, Some(kept)) if now == Some(kept) => filters.push(Filter::Check(kept)),
        (false, Some(kept)) => filters.push(Filter::Pack(kept)),
        (false, None) => {}
    }
    filters
}

/// What is to be done to a body before it is kept.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch a policy has")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// To be taken apart for includes.
    pub esi: bool,
    /// To be put under this coding.
    pub pack: Option<Coding>,
    /// To be kept without gzip.
    pub gunzip: bool,
    /// Whether codings may be changed at all.
    pub may_code: bool,
    /// Whether what comes under one coding may be put under another.
    pub recodes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_already_is_only_checked_and_a_page_is_opened_first() {
        let packed: Fields = [("Content-Encoding", "gzip")].into_iter().collect();
        let (plain, other) = (Fields::new(), [("Content-Encoding", "br")].into_iter().collect());
        let all = Wish { pack: Some(Coding::Gzip), may_code: true, ..Wish::default() };
        assert_eq!(filters_for(&packed, all), [Filter::Check(Coding::Gzip)]);
        assert_eq!(filters_for(&plain, all), [Filter::Pack(Coding::Gzip)]);
        assert_eq!(filters_for(&other, all), []);
        let esi = Wish { esi: true, gunzip: true, may_code: true, ..Wish::default() };
        assert_eq!(filters_for(&packed, esi), [Filter::Unpack(Coding::Gzip), Filter::Esi]);
        let esi = Wish { gunzip: false, ..esi };
        assert_eq!(filters_for(&packed, esi), [Filter::Unpack(Coding::Gzip), Filter::EsiGzip]);
    }

    #[test]
    fn who_keeps_several_codings_changes_one_into_another() {
        let under = |coding: &str| [("Content-Encoding", coding)].into_iter().collect::<Fields>();
        let (br, zstd) = (Coding::Brotli, Coding::Zstd);
        let wish = Wish { pack: Some(br), may_code: true, recodes: true, ..Wish::default() };
        assert_eq!(filters_for(&Fields::new(), wish), [Filter::Pack(br)]);
        assert_eq!(filters_for(&under("br"), wish), [Filter::Check(br)]);
        assert_eq!(filters_for(&under("zstd"), wish), [Filter::Unpack(zstd), Filter::Pack(br)]);
        assert_eq!(filters_for(&under("deflate"), wish), []);
        assert_eq!(filters_for(&under("gzip, br"), wish), []);
        let page = Wish { esi: true, ..wish };
        assert_eq!(filters_for(&under("br"), page), [Filter::Unpack(br), Filter::EsiGzip]);
        assert_eq!(filters_for(&under("br"), Wish { pack: None, ..wish }), [Filter::Check(br)]);
    }

    #[test]
    fn a_head_says_what_the_body_has_become() {
        let mut fields: Fields =
            [("ETag", "\"a\""), ("Vary", "Cookie"), ("Repr-Digest", "sha-256=:eA==:")]
                .into_iter()
                .collect();
        let mut form = Form::default();
        let gzip = Filter::Pack(Coding::Gzip);
        let filters = [Filter::Check(Coding::Gzip), gzip, gzip];
        assert_eq!(apply(&filters, &mut fields, &mut form), [Filter::Pack(Coding::Gzip)]);
        let field = |name| fields.get_str(name);
        assert_eq!(field("content-encoding"), Some("gzip"));
        assert_eq!(field("repr-digest"), None);
        assert_eq!(
            (field("etag"), field("vary")),
            (Some("W/\"a\""), Some("Cookie, Accept-Encoding"))
        );
        assert_eq!(form, Form { gzip: true, recoded: true, weakened: true, ..Form::default() });
    }
}

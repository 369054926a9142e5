//! What a coding changes in a response's head.

use super::Filter;
use freshet_cache::Form;
use freshet_http::fields::Fields;

/// Makes an entity tag weak: a coded body is not byte for byte the same (RFC 9110 §8.8.1).
pub(crate) fn weaken_etag(fields: &mut Fields) {
    let strong = fields.get("etag").filter(|tag| !tag.starts_with(b"W/"));
    if let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) {
        fields.set("ETag", weak);
    }
}

/// Says that caches nearer to the client have to look at what coding it takes.
fn vary_by_encoding(fields: &mut Fields) {
    if !fields.tokens("vary").any(|name| name.eq_ignore_ascii_case(b"accept-encoding")) {
        crate::fetch::prepare::append_to_list(fields, "Vary", b"Accept-Encoding");
    }
}

/// Whether a body is under gzip and nothing else.
pub(crate) fn is_gzip(fields: &Fields) -> bool {
    fields.get("content-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"))
}

/// Brings a head in line with `filters`, and says which of them apply and what form the body then
/// has. One that does not fit what the body is by then is left out.
pub(crate) fn apply(filters: &[Filter], fields: &mut Fields, form: &mut Form) -> Vec<Filter> {
    let mut applied = Vec::new();
    for filter in filters {
        let (is_gzip, is_plain) = (is_gzip(fields), !fields.contains("content-encoding"));
        match filter {
            Filter::Gunzip if is_gzip => {
                fields.remove("content-encoding");
                weaken_etag(fields);
                (form.gzip, form.recoded) = (false, true);
            }
            Filter::CheckGzip if is_gzip => {
                vary_by_encoding(fields);
                form.gzip = true;
            }
            Filter::Gzip if is_plain && !form.parts => {
                fields.set("Content-Encoding", "gzip");
                vary_by_encoding(fields);
                weaken_etag(fields);
                (form.gzip, form.recoded) = (true, true);
            }
            Filter::Esi if is_plain && !form.parts => form.parts = true,
            Filter::EsiGzip if is_plain && !form.parts => {
                fields.set("Content-Encoding", "gzip");
                vary_by_encoding(fields);
                weaken_etag(fields);
                (form.gzip, form.parts, form.recoded) = (true, true, true);
            }
            _ => continue,
        }
        applied.push(*filter);
    }
    applied
}

/// The filters for what a policy wants done, where it names none itself.
pub(crate) fn filters_for(fields: &Fields, wish: Wish) -> Vec<Filter> {
    let (is_gzip, is_plain) = (is_gzip(fields), !fields.contains("content-encoding"));
    let gzips = wish.gzip && wish.may_code && is_plain;
    let gunzips = wish.gunzip && wish.may_code && is_gzip;
    let mut filters = Vec::new();
    if gunzips || (is_gzip && wish.esi) {
        filters.push(Filter::Gunzip);
    }
    match (wish.esi, gzips || (is_gzip && !gunzips)) {
        (true, true) => filters.push(Filter::EsiGzip),
        (true, false) => filters.push(Filter::Esi),
        (false, true) if gzips => filters.push(Filter::Gzip),
        (false, true) => filters.push(Filter::CheckGzip),
        (false, false) => {}
    }
    filters
}

/// What is to be done to a body before it is kept.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch a policy has")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) esi: bool,
    pub(crate) gzip: bool,
    pub(crate) gunzip: bool,
    /// Whether codings may be changed at all.
    pub(crate) may_code: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_already_is_only_checked_and_a_page_is_opened_first() {
        let packed: Fields = [("Content-Encoding", "gzip")].into_iter().collect();
        let (plain, other) = (Fields::new(), [("Content-Encoding", "br")].into_iter().collect());
        let all = Wish { gzip: true, may_code: true, ..Wish::default() };
        assert_eq!(filters_for(&packed, all), [Filter::CheckGzip]);
        assert_eq!(filters_for(&plain, all), [Filter::Gzip]);
        assert_eq!(filters_for(&other, all), []);
        let esi = Wish { esi: true, gunzip: true, may_code: true, ..Wish::default() };
        assert_eq!(filters_for(&packed, esi), [Filter::Gunzip, Filter::Esi]);
        let esi = Wish { gunzip: false, ..esi };
        assert_eq!(filters_for(&packed, esi), [Filter::Gunzip, Filter::EsiGzip]);
    }

    #[test]
    fn a_head_says_what_the_body_has_become() {
        let mut fields: Fields = [("ETag", "\"a\""), ("Vary", "Cookie")].into_iter().collect();
        let mut form = Form::default();
        let filters = [Filter::CheckGzip, Filter::Gzip, Filter::Gzip];
        assert_eq!(apply(&filters, &mut fields, &mut form), [Filter::Gzip]);
        let field = |name| fields.get_str(name);
        assert_eq!(field("content-encoding"), Some("gzip"));
        assert_eq!(
            (field("etag"), field("vary")),
            (Some("W/\"a\""), Some("Cookie, Accept-Encoding"))
        );
        assert_eq!(form, Form { gzip: true, recoded: true, ..Form::default() });
    }
}

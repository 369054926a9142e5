//! A request, as far as tokens care.

use crate::denied::Denied;
use crate::limits::{COOKIES_MAX, TOKEN_BYTES_MAX};
use crate::text::query_values;
use crate::used::Used;
use freshet_http::cookie;
use freshet_http::fields::Fields;
use freshet_http::message::RequestHead;
use freshet_http::path::path_of;
use std::borrow::Cow;
use std::net::IpAddr;

/// Where clients are and whose networks they are in.
pub trait Places: std::fmt::Debug {
    /// Whether an address is in a country or a part of one, by its code of ISO 3166-1 or -2 (`AT`,
    /// `AT-6`).
    fn is_in(&self, client: IpAddr, code: &str) -> bool;
    /// The autonomous system an address is of.
    fn asn(&self, client: IpAddr) -> Option<u32>;
    /// Latitude and longitude of an address, in degrees.
    fn coordinates(&self, client: IpAddr) -> Option<(f64, f64)>;
}

/// A request, as far as tokens care.
#[derive(Clone, Debug, Default)]
pub struct Question<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The authority, as the client wrote it.
    pub authority: &'a str,
    /// Path and query, as the client wrote them.
    pub target: &'a str,
    /// The method.
    pub method: &'a str,
    /// The client's address, where it has one.
    pub client: Option<IpAddr>,
    /// Fields of the request; none in examples.
    pub fields: Option<&'a Fields>,
    /// The protocol its connection agreed on (RFC 7301), where it did.
    pub alpn: Option<&'a [u8]>,
    /// Who knows where clients are, where somebody does.
    pub places: Option<&'a dyn Places>,
    /// Who remembers which tokens were used; without it those for one use let nobody in.
    pub used: Option<&'a Used>,
    /// Seconds of Unix time.
    pub now_s: u64,
}

/// Where a token may be. They are looked at in this order, and there may be one in each.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Source {
    /// A field of the request; `Authorization` is one of scheme `Bearer`.
    pub header: Option<String>,
    /// A cookie.
    pub cookie: Option<String>,
    /// A parameter of the query.
    pub parameter: Option<String>,
}

/// Where a token was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// In a field of its own.
    Header,
    /// In a cookie.
    Cookie,
    /// In the query.
    Parameter,
}

/// All that is of a token in requests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Parts<'a> {
    /// Parameters of the query.
    pub parameters: Vec<&'a str>,
    /// Cookies.
    pub cookies: Vec<&'a str>,
    /// A field.
    pub header: Option<&'a str>,
}

impl Parts<'_> {
    /// What of it is in this place.
    #[must_use]
    pub fn of(self, place: Place) -> Self {
        match place {
            Place::Header => Self { header: self.header, ..Self::default() },
            Place::Cookie => Self { cookies: self.cookies, ..Self::default() },
            Place::Parameter => Self { parameters: self.parameters, ..Self::default() },
        }
    }

    /// What of it is not of another.
    #[must_use]
    pub fn besides(mut self, other: &Self) -> Self {
        self.parameters.retain(|name| !other.parameters.contains(name));
        self.cookies.retain(|name| !other.cookies.contains(name));
        let is_others =
            |name: &&str| other.header.is_some_and(|one| one.eq_ignore_ascii_case(name));
        self.header = self.header.filter(|name| !is_others(name));
        self
    }
}

impl<'a> Question<'a> {
    /// A GET without fields or client.
    pub fn get(scheme: &'a str, authority: &'a str, target: &'a str, now_s: u64) -> Self {
        Self { scheme, authority, target, method: "GET", now_s, ..Self::default() }
    }

    /// The path, without the query.
    pub fn path(&self) -> &'a str {
        path_of(self.target)
    }

    /// The query, without the `?`.
    pub fn query(&self) -> &'a str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The value of a parameter as it was sent; `None` where there is none.
    ///
    /// # Errors
    /// [`Denied::Ambiguous`] where there are several.
    pub(crate) fn parameter(&self, name: &str) -> Result<Option<&'a str>, Denied> {
        let mut values = query_values(self.query(), name);
        let first = values.next();
        if values.next().is_some() { Err(Denied::Ambiguous) } else { Ok(first) }
    }

    /// The value of a cookie, as it was sent but for quotes; `None` where there is none.
    ///
    /// # Errors
    /// [`Denied::Ambiguous`] where there are several, [`Denied::Malformed`] where it is no text.
    pub(crate) fn cookie(&self, name: &str) -> Result<Option<&'a str>, Denied> {
        let mut values = self.cookies(name);
        let first = values.next();
        if values.next().is_some() {
            return Err(Denied::Ambiguous);
        }
        first.transpose()
    }

    /// The values of the cookies of a name. Others need not be text.
    fn cookies<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = Result<&'a str, Denied>> + use<'a, 'n> {
        let lines = self.fields.into_iter().flat_map(|fields| fields.get_all("cookie"));
        let values = lines.flat_map(cookie::pairs).filter_map(|pair| cookie::value_of(pair, name));
        values.map(|value| {
            let text = std::str::from_utf8(value).map_err(|_| Denied::Malformed)?;
            Ok(text.trim_matches('"'))
        })
    }

    /// The path with its encoding taken off, where it can be read in one way only: without `//`, `.`
    /// and `..`, also where those have parameters (`..;x`), and without anything encoded that has a
    /// meaning in a path.
    ///
    /// # Errors
    /// [`Denied::Path`].
    pub fn decoded_path(&self) -> Result<Cow<'a, [u8]>, Denied> {
        let path = self.path();
        if !path.starts_with('/') || path.contains("//") || path.contains('\\') {
            return Err(Denied::Path);
        }
        let decoded = crate::text::decode(path).ok_or(Denied::Path)?;
        let says_more = |byte: &u8| matches!(byte, b'%' | b'\\' | 0);
        let slashes = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'/').count();
        let is_dots = |segment: &[u8]| {
            let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            matches!(name, b"." | b"..") || (name.is_empty() && !segment.is_empty())
        };
        if decoded.iter().any(says_more)
            || slashes(&decoded) != slashes(path.as_bytes())
            || decoded.split(|byte| *byte == b'/').any(is_dots)
        {
            return Err(Denied::Path);
        }
        Ok(decoded)
    }
}

impl Source {
    /// All of it.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            parameters: self.parameter.as_deref().into_iter().collect(),
            cookies: self.cookie.as_deref().into_iter().collect(),
            header: self.header.as_deref(),
        }
    }

    /// What `check` makes of a request's token: of that in the field, else in cookies, else in the
    /// parameter, the first that it finds good. A client may send each alone, so nobody gets in by this who
    /// would not, and a browser sends a cookie whether its player means it or not: also several of one name, where a
    /// site and a renewal gave it those for different paths (RFC 6265 §5.4).
    ///
    /// # Errors
    /// [`Denied::Ambiguous`] where the field or the parameter is there twice, or a cookie more than
    /// [`COOKIES_MAX`] times, or why the first one is not good, or [`Denied::Missing`].
    pub(crate) fn first_good<T>(
        &self,
        question: &Question<'_>,
        mut check: impl FnMut(&str, Place) -> Result<T, Denied>,
    ) -> Result<T, Denied> {
        let header = self.in_header(question).transpose().map(|found| (Place::Header, found));
        let parameter =
            self.in_parameter(question).transpose().map(|found| (Place::Parameter, found));
        let is_twice = |(_, token): &(_, Result<_, Denied>)| *token == Err(Denied::Ambiguous);
        let mut cookies: Vec<_> = self.in_cookies(question).take(COOKIES_MAX + 1).collect();
        if header.iter().chain(&parameter).any(is_twice) || cookies.len() > COOKIES_MAX {
            return Err(Denied::Ambiguous);
        }
        let cookies = cookies.drain(..).map(|found| (Place::Cookie, found.map(Cow::Borrowed)));
        let mut why = None;
        for (place, token) in header.into_iter().chain(cookies).chain(parameter) {
            let result = match token {
                Ok(token) if token.len() <= TOKEN_BYTES_MAX => check(&token, place),
                Ok(_) => Err(Denied::Malformed),
                Err(denied) => Err(denied),
            };
            match result {
                Ok(good) => return Ok(good),
                Err(denied) => why = why.or(Some(denied)),
            }
        }
        Err(why.unwrap_or(Denied::Missing))
    }

    fn in_header<'a>(&'a self, question: &Question<'a>) -> Result<Option<Cow<'a, str>>, Denied> {
        let (Some(name), Some(fields)) = (&self.header, question.fields) else { return Ok(None) };
        let is_bearer = name.eq_ignore_ascii_case("authorization");
        let mut found = None;
        for value in fields.get_all(name) {
            let text = std::str::from_utf8(value).map_err(|_| Denied::Malformed)?.trim();
            let token = if is_bearer { bearer(text) } else { Some(text) };
            if token.is_some_and(|token| found.replace(token).is_some()) {
                return Err(Denied::Ambiguous);
            }
        }
        Ok(found.map(Cow::Borrowed))
    }

    fn in_cookies<'a>(
        &self,
        question: &Question<'a>,
    ) -> impl Iterator<Item = Result<&'a str, Denied>> {
        self.cookie.iter().flat_map(|name| question.cookies(name))
    }

    fn in_parameter<'a>(&self, question: &Question<'a>) -> Result<Option<Cow<'a, str>>, Denied> {
        let Some(name) = &self.parameter else { return Ok(None) };
        let Some(value) = question.parameter(name)? else { return Ok(None) };
        Ok(Some(match crate::text::decode(value).ok_or(Denied::Malformed)? {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(bytes) => {
                Cow::Owned(String::from_utf8(bytes).map_err(|_| Denied::Malformed)?)
            }
        }))
    }
}

/// The token of an `Authorization` field of scheme `Bearer` (RFC 6750 §2.1).
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Takes tokens out of a request.
pub fn without_token(head: &mut RequestHead, parts: &Parts<'_>) {
    if let Some(target) = url_without(&head.target, &parts.parameters) {
        head.target = target;
    }
    if let Some(name) = parts.header {
        head.fields.remove(name);
    }
    let is_token =
        |pair: &&[u8]| parts.cookies.iter().any(|name| cookie::value_of(pair, name).is_some());
    let all = || head.fields.get_all("cookie").flat_map(cookie::pairs);
    if !all().any(|pair| is_token(&pair)) {
        // Others' cookies stay as they came.
        return;
    }
    let kept = all().filter(|pair| !is_token(pair)).collect::<Vec<_>>().join(&b"; "[..]);
    head.fields.remove("cookie");
    if !kept.is_empty() {
        head.fields.append("Cookie", kept);
    }
}

/// Takes parameters out of the URL that a request says it comes from (RFC 9110 §10.1.3).
pub fn referer_without(fields: &mut Fields, parameters: &[&str]) {
    let urls = || fields.get_all("referer").map(String::from_utf8_lossy);
    if urls().all(|url| url_without(&url, parameters).is_none()) {
        return;
    }
    let without =
        |url: Cow<'_, str>| url_without(&url, parameters).unwrap_or_else(|| url.into_owned());
    let kept: Vec<_> = urls().map(without).collect();
    fields.remove("referer");
    kept.into_iter().for_each(|url| fields.append("Referer", url));
}

/// A URL without these parameters of its query; `None` where it has none of them.
fn url_without(url: &str, parameters: &[&str]) -> Option<String> {
    let (path, query) = url.split_once('?')?;
    let is_kept = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        !parameters.contains(&name)
    };
    let kept: Vec<_> = query.split('&').filter(is_kept).collect();
    if kept.len() == query.split('&').count() {
        return None;
    }
    let kept = kept.join("&");
    Some(if kept.is_empty() { path.to_owned() } else { format!("{path}?{kept}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            header: Some("Authorization".into()),
            cookie: Some("t".into()),
            parameter: Some("t".into()),
        }
    }

    fn token(target: &str, fields: &[(&str, &str)]) -> Result<String, Denied> {
        let fields: Fields = fields.iter().copied().collect();
        let question = Question { fields: Some(&fields), ..Question::get("http", "h", target, 0) };
        source().first_good(&question, |token, _| Ok(token.to_owned()))
    }

    #[test]
    fn a_token_is_found_wherever_it_may_be_and_once_in_a_place_only() {
        assert_eq!(token("/a?t=x%2Ey&u=1", &[]), Ok("x.y".into()));
        assert_eq!(token("/a", &[("Authorization", "bearer  x.y")]), Ok("x.y".into()));
        assert_eq!(token("/a", &[("Cookie", "tt=1; t=\"x\"; u=2")]), Ok("x".into()));
        assert_eq!(token("/a", &[("Authorization", "Basic eA==")]), Err(Denied::Missing));
        assert_eq!(token("/a?tt=x", &[("Cookie", "xt=1")]), Err(Denied::Missing));
        assert_eq!(token("/a?t=x&t=x", &[]), Err(Denied::Ambiguous));
        assert_eq!(token("/a?t=x", &[("Cookie", "t=y")]), Ok("y".into()));
        let both = [("Cookie", "t=y"), ("Authorization", "Bearer z")];
        assert_eq!(token("/a?t=x", &both), Ok("z".into()));
        assert_eq!(token("/a?t=%zz", &both), Ok("z".into()));
        assert_eq!(token("/a?t=x&t=x", &both), Err(Denied::Ambiguous));
        assert_eq!(token("/a", &[("Cookie", "t=x"), ("Cookie", "t=y")]), Ok("x".into()));
        let many = "t=x; ".repeat(COOKIES_MAX + 1);
        assert_eq!(token("/a", &[("Cookie", &many)]), Err(Denied::Ambiguous));
        assert_eq!(token("/a?t=%zz", &[]), Err(Denied::Malformed));
        assert_eq!(token("/a?t=%ff", &[]), Err(Denied::Malformed));
        let long = format!("/a?t={}", "x".repeat(TOKEN_BYTES_MAX + 1));
        assert_eq!(token(&long, &[]), Err(Denied::Malformed));
    }

    #[test]
    fn a_token_that_is_not_good_is_none_beside_one_that_is() {
        let fields: Fields =
            [("Authorization", "Bearer z"), ("Cookie", "t=y")].into_iter().collect();
        let question =
            Question { fields: Some(&fields), ..Question::get("http", "h", "/a?t=x", 0) };
        let good = |only: &'static str| {
            source().first_good(&question, |token, place| match token == only {
                true => Ok(place),
                false if token == "z" => Err(Denied::Expired),
                false => Err(Denied::Signature),
            })
        };
        assert_eq!(good("z"), Ok(Place::Header));
        assert_eq!(good("y"), Ok(Place::Cookie));
        assert_eq!(good("x"), Ok(Place::Parameter));
        assert_eq!(good("w"), Err(Denied::Expired));
    }

    #[test]
    fn each_cookie_of_a_name_may_be_the_good_one_and_others_need_not_be_text() {
        let mut fields = Fields::default();
        fields.append("Cookie", b"n=J\xfcrgen; t=old; t=\"new\"");
        let question = Question { fields: Some(&fields), ..Question::get("http", "h", "/a", 0) };
        let good = |only: &'static str| {
            source().first_good(&question, |token, _| match token == only {
                true => Ok(()),
                false => Err(Denied::Expired),
            })
        };
        assert_eq!((good("old"), good("new")), (Ok(()), Ok(())));
        assert_eq!(good("other"), Err(Denied::Expired));
        let mut head = RequestHead { fields: fields.clone(), ..RequestHead::default() };
        without_token(&mut head, &source().parts());
        assert_eq!(head.fields.get("cookie"), Some(&b"n=J\xfcrgen"[..]));
    }

    #[test]
    fn only_paths_with_one_meaning_have_tokens() {
        let path =
            |target| Question::get("http", "h", target, 0).decoded_path().map(Cow::into_owned);
        assert_eq!(path("/caf%C3%A9/a%20b?x=%2e"), Ok("/café/a b".into()));
        assert_eq!(path("/a;v=1/b;c"), Ok("/a;v=1/b;c".into()));
        for target in [
            "//a",
            "/a//b",
            "/a/../b",
            "/a/./b",
            "/a/%2e%2e/b",
            "/a/%2E./b",
            "/a%2fb",
            "/a%5Cb",
            "/a\\b",
            "/a%00",
            "/a%252e",
            "/a%2",
            "/a%zz",
            "a",
            "*",
            "/..",
            "/a/%2e",
            "/a/..;/b",
            "/a/..;x=1/b",
            "/a/.%3b/b",
            "/;x/a",
        ] {
            assert_eq!(path(target), Err(Denied::Path), "{target}");
        }
    }

    #[test]
    fn tokens_leave_nothing_behind() {
        let target = "/a?b=1&t=x&t=y&tt=2".into();
        let mut head = RequestHead { target, ..RequestHead::default() };
        head.fields.append("Authorization", "Bearer x");
        head.fields.append("Cookie", "a=1; t=x");
        head.fields.append("Cookie", "t=y; b=2");
        without_token(&mut head, &source().parts());
        assert_eq!(head.target, "/a?b=1&tt=2");
        assert_eq!(head.fields.get_str("cookie"), Some("a=1; b=2"));
        assert!(!head.fields.contains("authorization"));
        let odd = "prefs={\"a\":1,\"b\":2}; seen=7,8,9;";
        head.fields.set("Cookie", odd);
        without_token(&mut head, &source().parts());
        assert_eq!(head.fields.get_str("cookie"), Some(odd), "nothing was to be taken out");
        head.fields.append("Cookie", "t=x");
        without_token(&mut head, &source().parts());
        let left = "prefs={\"a\":1,\"b\":2}; seen=7,8,9";
        assert_eq!(head.fields.get_str("cookie"), Some(left));
        head.fields.append("Referer", "https://h/watch?t=x&b=1");
        head.fields.append("Referer", "https://h/?u=t");
        referer_without(&mut head.fields, &["t"]);
        let referers: Vec<_> = head.fields.get_all("referer").collect();
        assert_eq!(referers, [&b"https://h/watch?b=1"[..], b"https://h/?u=t"]);
        head.target = "/a?t=x".into();
        head.fields.set("Cookie", "t=x");
        without_token(&mut head, &source().parts());
        assert_eq!(head.target, "/a");
        assert!(!head.fields.contains("cookie"));
    }
}

//! `[[cache_rule]]`: what a site keeps, for how long and under which key, by path.

use super::document::{Document, Row};
use super::key::{Key, Kind, per_site};
use super::mistake::{Mistake, Place};
use super::values::beginning;
use freshet_base::units;
use freshet_http::path;
use std::borrow::Cow;
use std::time::Duration;

/// Most of them in a site: each may be looked at for each request.
const PER_SITE_MAX: usize = 256;

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    per_site(
        "cache_rule[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/img/`, after `[[path]]`. The first rule that \
         fits counts.",
    ),
    per_site(
        "cache_rule[].suffixes",
        Kind::TextList,
        "",
        "What the path ends with, as `.css` or `.js`, in capitals or not; anything if empty.",
    ),
    per_site(
        "cache_rule[].ttl",
        Kind::Span,
        "0s",
        "How long responses with 200, 203, 204, 206, 300, 301 and 308 are fresh, where the origin \
         does not say; with `override` where it does.",
    ),
    per_site(
        "cache_rule[].override",
        Kind::Choice(&["nothing", "lifetime", "everything"]),
        "nothing",
        "What an origin says that `ttl` takes the place of: `lifetime` is `max-age`, `s-maxage` and \
         `Expires`, `everything` also `no-store`, `private`, `no-cache` and `must-revalidate`. What \
         sets cookies, answers to `Authorization` and `Vary: *` stay what they are.",
    ),
    per_site("cache_rule[].negative", Kind::Span, "0s", "In place of `cache.negative`."),
    per_site("cache_rule[].grace", Kind::Span, "0s", "In place of `cache.grace`."),
    per_site(
        "cache_rule[].stale_if_error",
        Kind::Span,
        "0s",
        "In place of `cache.stale_if_error`.",
    ),
    per_site(
        "cache_rule[].bypass",
        Kind::Bool,
        "false",
        "Whether such requests go to the origin each by itself, and nothing is kept.",
    ),
    per_site(
        "cache_rule[].bypass_cookies",
        Kind::TextList,
        "",
        "Cookies whose requests do, as `session` or `wordpress_logged_in_*`; one with an empty value, as `session=`, \
         is none.",
    ),
    per_site(
        "cache_rule[].query_keep",
        Kind::TextList,
        "",
        "Parameters of the query that count, as `v` or `page_*`; the others are left out of the key \
         and do not reach the origin. `-` alone keeps none.",
    ),
    per_site(
        "cache_rule[].query_drop",
        Kind::TextList,
        "",
        "Parameters that are left out, as `utm_*` or `fbclid`.",
    ),
    per_site(
        "cache_rule[].query_sort",
        Kind::Bool,
        "false",
        "Whether the order of parameters makes no difference: they are put in order, those of one \
         name as they came.",
    ),
];

/// `[[cache_rule]]`
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct CacheRule {
    /// What the path begins with.
    pub path: String,
    /// What it ends with, in small letters; anything where empty.
    pub suffixes: Vec<String>,
    /// How long responses are fresh, where the rule says.
    pub ttl: Option<Duration>,
    /// What of the origin's word that takes the place of.
    pub overrides: Override,
    /// `cache.negative` here, where the rule says.
    pub negative: Option<Duration>,
    /// `cache.grace` here, where the rule says.
    pub grace: Option<Duration>,
    /// `cache.stale_if_error` here, where the rule says.
    pub stale_if_error: Option<Duration>,
    /// Whether nothing is kept.
    pub bypass: bool,
    /// Names of cookies whose requests go past the cache.
    pub bypass_cookies: Vec<Name>,
    /// What becomes of the query.
    pub query: QueryRule,
    /// Where its path is written.
    pub place: Place,
}

/// What an origin says that a rule's lifetime takes the place of.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Override {
    /// Nothing: the rule holds where the origin is silent.
    #[default]
    Nothing,
    /// How long.
    Lifetime,
    /// All of it.
    Everything,
}

/// What becomes of a query.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct QueryRule {
    /// Parameters that are kept; all where `None`.
    pub keep: Option<Vec<Name>>,
    /// Parameters that are left out.
    pub drop: Vec<Name>,
    /// Whether they are put in order.
    pub sort: bool,
}

/// A name, or with `*` at the end of its text the beginning of names.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Name {
    text: String,
    is_prefix: bool,
}

impl Name {
    fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self { text: prefix.into(), is_prefix: true },
            None => Self { text: text.into(), is_prefix: false },
        }
    }

    /// Whether it is for this name.
    pub fn is(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.text) } else { name == self.text }
    }
}

impl CacheRule {
    /// Whether it is for a reading of a path.
    pub(super) fn is_for(&self, path: &[u8]) -> bool {
        path::is_below(path, &self.path) && ends(path, &self.suffixes)
    }

    /// Whether a request with these `Cookie` lines goes past the cache.
    pub fn is_past_cache<'a>(&self, cookies: impl Iterator<Item = &'a [u8]>) -> bool {
        self.bypass || (!self.bypass_cookies.is_empty() && self.has_cookie(cookies))
    }

    fn has_cookie<'a>(&self, mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
        let is_named = |pair: &[u8]| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            let name = String::from_utf8_lossy(parts.next().unwrap_or_default());
            // One without a value is what is left of a cookie that was taken back.
            parts.next() != Some(b"") && self.bypass_cookies.iter().any(|known| known.is(&name))
        };
        lines.any(|line| line.split(|byte| *byte == b';').any(is_named))
    }

    /// What it does, as `freshet explain` says it.
    pub fn sentence(&self) -> String {
        let mut parts: Vec<Cow<'_, str>> = Vec::new();
        if self.bypass {
            parts.push("nothing is kept".into());
        }
        if !self.bypass_cookies.is_empty() {
            parts.push("with some cookies nothing is kept".into());
        }
        if let Some(ttl) = self.ttl {
            let ttl = units::span(ttl);
            parts.push(match self.overrides {
                Override::Nothing => format!("fresh for {ttl} where the origin is silent").into(),
                Override::Lifetime => {
                    format!("fresh for {ttl}, however long the origin says").into()
                }
                Override::Everything => format!("fresh for {ttl}, whatever the origin says").into(),
            });
        }
        for (name, span) in [
            ("negative", self.negative),
            ("grace", self.grace),
            ("stale_if_error", self.stale_if_error),
        ] {
            parts.extend(span.map(|span| format!("{name} {}", units::span(span)).into()));
        }
        if !self.query.is_plain() {
            parts.push("not all of the query counts as it is".into());
        }
        let suffixes = self.suffixes.join(" ");
        let space = if suffixes.is_empty() { "" } else { " " };
        format!("{}{space}{suffixes}: {}", self.path, parts.join(", "))
    }
}

/// Whether a path ends with one of these, in capitals or not; with anything where there are none.
pub(super) fn ends(path: &[u8], suffixes: &[String]) -> bool {
    let ends = |suffix: &String| {
        let at = path.len().checked_sub(suffix.len());
        let end = at.and_then(|at| path.get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
    };
    suffixes.is_empty() || suffixes.iter().any(ends)
}

/// What is wrong with the ends of paths that `key` gives, where something is.
pub(super) fn wrong_suffix(key: &str, suffixes: &[String]) -> Option<String> {
    let wrong = suffixes.iter().find(|suffix| suffix.contains(['*', '?', '/']))?;
    Some(format!("{key} are ends of paths, as `.css`, without `*`, `?` and `/`, not `{wrong}`"))
}

impl QueryRule {
    /// Whether queries stay as they are.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The target with the query as the rule has it; `None` where it is that already.
    pub fn changed(&self, target: &str) -> Option<String> {
        if self.is_plain() {
            return None;
        }
        let (path, query) = target.split_once('?')?;
        let name = |pair: &'_ str| pair.split('=').next().unwrap_or_default().to_owned();
        let counts = |pair: &&str| {
            let name = name(pair);
            self.keep.as_ref().is_none_or(|keep| keep.iter().any(|known| known.is(&name)))
                && !self.drop.iter().any(|known| known.is(&name))
        };
        let mut kept: Vec<_> = query.split('&').filter(counts).collect();
        if self.sort {
            kept.sort_by_key(|pair| name(pair));
        }
        let kept = kept.join("&");
        let changed = if kept.is_empty() { path.to_owned() } else { format!("{path}?{kept}") };
        (changed != target).then_some(changed)
    }
}

/// What a document says of them; what is wrong is listed.
pub(super) fn cache_rules(document: &Document, wrong: &mut Vec<Mistake>) -> Vec<CacheRule> {
    let rows = document.rows("cache_rule");
    if rows.len() > PER_SITE_MAX {
        let message = format!("a site has at most {PER_SITE_MAX} of [[cache_rule]]");
        wrong.push(Mistake::error(document.at("cache_rule[].path"), message));
    }
    rows.iter().filter_map(|row| cache_rule(row, wrong)).collect()
}

fn cache_rule(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<CacheRule> {
    let before = wrong.len();
    let path = beginning(row, "cache_rule[].path", "/img/", wrong).unwrap_or_default();
    let key = |name: &str| format!("cache_rule[].{name}");
    let value = |name: &str| row.value(&key(name));
    let list = |name: &str| value(name).list();
    let given = |name: &str| row.has(&key(name)).then(|| value(name).span());
    let names = |name: &str| list(name).iter().map(|text| Name::new(text)).collect::<Vec<_>>();
    let mut refuse = |name: &str, message: String| {
        wrong.push(Mistake::error(row.at(&key(name)), message));
    };
    let rule = CacheRule {
        path,
        suffixes: list("suffixes"),
        ttl: given("ttl"),
        overrides: match value("override").text().as_str() {
            "lifetime" => Override::Lifetime,
            "everything" => Override::Everything,
            _ => Override::Nothing,
        },
        negative: given("negative"),
        grace: given("grace"),
        stale_if_error: given("stale_if_error"),
        bypass: value("bypass").bool(),
        bypass_cookies: names("bypass_cookies"),
        query: QueryRule {
            keep: match &*list("query_keep") {
                [] => None,
                [none] if none == "-" => Some(Vec::new()),
                _ => Some(names("query_keep")),
            },
            drop: names("query_drop"),
            sort: value("query_sort").bool(),
        },
        place: row.at(&key("path")),
    };
    if let Some(message) = wrong_suffix("cache_rule.suffixes", &rule.suffixes) {
        refuse("suffixes", message);
    }
    if rule.overrides != Override::Nothing && rule.ttl.is_none() {
        let message =
            "cache_rule.override needs `ttl`, which takes the place of what the origin says";
        refuse("override", message.to_owned());
    }
    if rule.bypass && (rule.ttl.is_some() || !rule.query.is_plain()) {
        let message =
            "cache_rule.bypass keeps nothing, so `ttl` and `query_…` beside it mean nothing";
        refuse("bypass", message.to_owned());
    }
    let is_name = |name: &&Name| !name.text.is_empty() && !name.text.contains(['=', ';', '&', '*']);
    for (key, names) in [
        ("bypass_cookies", Some(&rule.bypass_cookies)),
        ("query_keep", rule.query.keep.as_ref()),
        ("query_drop", Some(&rule.query.drop)),
    ] {
        if let Some(name) = names.into_iter().flatten().find(|name| !is_name(name)) {
            let message = format!(
                "cache_rule.{key} has names, with `*` at the end at most, not `{}`",
                name.text
            );
            refuse(key, message);
        }
    }
    if rule.query.keep.is_some() && !rule.query.drop.is_empty() {
        let message =
            "cache_rule.query_drop says what is left out, query_keep what is not: give one";
        refuse("query_drop", message.to_owned());
    }
    let (path, suffixes) = (rule.path.clone(), rule.suffixes.clone());
    // One that says `bypass = false` takes its paths out of the rules below it.
    if rule == (CacheRule { path, suffixes, ..CacheRule::default() }) && !row.has(&key("bypass")) {
        let message =
            "a [[cache_rule]] says something: give `ttl`, `bypass` or another of its keys";
        refuse("path", message.to_owned());
    }
    (wrong.len() == before).then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<CacheRule>, Vec<Mistake>> {
        let document = Document::parse(text).expect("the text is well-formed");
        let mut wrong = Vec::new();
        let rules = cache_rules(&document, &mut wrong);
        if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
    }

    fn rule(text: &str) -> CacheRule {
        of(&format!("[[cache_rule]]\n{text}\n")).expect("it is a rule").remove(0)
    }

    #[test]
    fn a_rule_is_for_paths_by_their_beginning_and_end() {
        let rule = rule("path = \"/img/\"\nsuffixes = [\".jpg\", \".PNG\"]\nttl = \"1h\"");
        for (target, is_for) in [
            ("/img/a.jpg", true),
            ("/img/a.JPG?b", true),
            ("/img/b.png", true),
            ("/img/a.gif", false),
            ("/a.jpg", false),
            ("/img/?a.jpg", false),
            ("/img/é", false),
            ("*", false),
        ] {
            assert_eq!(rule.is_for(path::path_of(target).as_bytes()), is_for, "{target}");
        }
    }

    #[test]
    fn queries_are_what_a_rule_leaves_of_them() {
        let keep = rule("query_keep = [\"v\", \"page_*\"]");
        let drop = rule("query_drop = [\"utm_*\", \"fbclid\"]");
        let sort = rule("query_sort = true");
        let none = rule("query_keep = [\"-\"]");
        for (rule, target, expected) in [
            (&keep, "/a?x=1&v=2&page_a=3&vv=4", "/a?v=2&page_a=3"),
            (&keep, "/a?x=1", "/a"),
            (&keep, "/a?v", "/a?v"),
            (&keep, "/a", "/a"),
            (&drop, "/a?utm_source=b&c=d&fbclid=e&fbclid2=f", "/a?c=d&fbclid2=f"),
            (&drop, "/a?c=d", "/a?c=d"),
            (&sort, "/a?b=2&a=1&b=1&a=0", "/a?a=1&a=0&b=2&b=1"),
            (&sort, "/a?b=?&a", "/a?a&b=?"),
            (&none, "/a?b", "/a"),
            (&none, "/a?", "/a"),
        ] {
            let changed = rule.query.changed(target);
            assert_eq!(changed.as_deref().unwrap_or(target), expected, "{target}");
            // Once more changes nothing.
            assert_eq!(rule.query.changed(expected), None, "{target}");
        }
    }

    #[test]
    fn cookies_lead_past_the_cache_by_name() {
        let rule = rule("bypass_cookies = [\"session\", \"wordpress_logged_in_*\"]");
        for (lines, is_past) in [
            (&["a=1; session=2"][..], true),
            (&["a=1", "session=2"], true),
            (&["session"], true),
            (&["session="], false),
            (&["a=1; session= ; b=2"], false),
            (&["session=; session=2"], true),
            (&["wordpress_logged_in_0a1b=c"], true),
            (&["a=session", "sessions=1", "Session=1", "wordpress_test_cookie=1"], false),
            (&[], false),
        ] {
            assert_eq!(rule.is_past_cache(lines.iter().map(|line| line.as_bytes())), is_past);
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (text, says) in [
            ("path = \"img\"", "begins with `/`"),
            ("suffixes = [\"*.css\"]\nttl = \"1h\"", "as `.css`"),
            ("override = \"everything\"", "needs `ttl`"),
            ("bypass = true\nttl = \"1h\"", "keeps nothing"),
            ("bypass_cookies = [\"*\"]", "has names"),
            ("query_drop = [\"a=b\"]", "has names"),
            ("query_drop = [\"a\"]\nquery_keep = [\"b\"]", "give one"),
            ("path = \"/a\"", "says something"),
        ] {
            let wrong = of(&format!("[[cache_rule]]\n{text}\n")).expect_err(text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{text}: {wrong:?}");
        }
    }
}

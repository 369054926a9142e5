//! `[[header]]`, `[[redirect]]`, `[[path]]`, `[cors]` and `[[cache_rule]]`: what a site does to
//! requests and responses beyond what HTTP says.

use super::access::Statuses;
use super::cache_rules::{CacheRule, cache_rules, ends, wrong_suffix};
use super::document::{Document, Row};
use super::mistake::{Mistake, Place};
use super::template::{Template, Value};
use super::values::{beginning, optional};
use freshet_http::fields::{Fields, is_token};
use freshet_http::path::{Firsts, Readings, is_below};
use freshet_http::target;
use std::borrow::Cow;
use std::time::Duration;

/// The rules of one site, each list in the order of the file.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rules {
    /// `[[header]]` with `on = "request"`.
    pub request_fields: Vec<FieldRule>,
    /// `[[header]]` with `on = "response"`.
    pub response_fields: Vec<FieldRule>,
    /// `[[redirect]]`
    pub redirects: Vec<Redirect>,
    /// `[[path]]`
    pub paths: Vec<PathRule>,
    /// `[cors]`, where an origin is allowed.
    pub cors: Option<Cors>,
    /// `[[cache_rule]]`
    pub caching: Vec<CacheRule>,
}

/// `[[header]]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct FieldRule {
    /// What the path of the request begins with.
    pub path: String,
    /// What it ends with; anything where empty.
    pub suffixes: Vec<String>,
    /// Of which responses it is a field; of all where empty.
    pub statuses: Vec<Statuses>,
    /// The field's name.
    pub name: String,
    /// What becomes of it.
    pub action: FieldAction,
}

impl FieldRule {
    /// Whether it is for a path, in whichever way origins may read that.
    pub fn is_for(&self, path: &Readings<'_>) -> bool {
        path.any(|path| is_below(path, &self.path) && ends(path, &self.suffixes))
    }

    /// Whether the field means something over TLS alone, and must not be sent in the clear (RFC 6797 §7.2).
    pub fn is_for_tls(&self) -> bool {
        self.name.eq_ignore_ascii_case("strict-transport-security")
    }

    /// Whether it is for responses of a status.
    pub fn is_for_status(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.iter().any(|one| one.has(status))
    }
}

/// `header.action` with `header.value`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum FieldAction {
    /// It has this value and no other.
    Set(Template),
    /// It gets one line more.
    Add(Template),
    /// It goes.
    Remove,
}

impl FieldAction {
    /// The value it gives, where it gives one.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::Set(value) | Self::Add(value) => Some(value),
            Self::Remove => None,
        }
    }
}

/// `[[redirect]]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Redirect {
    /// The path it is for; with `/*` at its end all below.
    pub from: String,
    /// Only of clients that came this way: `http` or `https`.
    pub scheme: Option<String>,
    /// Where to: `{host}` is the request's host, `{rest}` what stood in the place of `*`, with the
    /// query.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Where its `to` is written.
    pub place: Place,
}

impl Redirect {
    /// Whether a request over `scheme` would be led to where this rule leads it on, for ever: to where it
    /// came from, to one page of those that it is for, or ever further down. Not where one of those `before`
    /// it may lead elsewhere from there.
    pub fn leads_to_itself(&self, scheme: &str, before: &[Self]) -> bool {
        if self.scheme.as_deref().is_some_and(|only| only != scheme) {
            return false;
        }
        let same_host = self.to.strip_prefix(scheme).and_then(|to| to.strip_prefix("://{host}"));
        let to = same_host.unwrap_or(&self.to);
        if to.replace("{rest}", "*") == self.from {
            return true;
        }
        let path = to.split(['?', '#']).next().unwrap_or_default();
        let path = path.split("{rest}").next().unwrap_or_default();
        self.is_for(path) && !before.iter().any(|rule| rule.is_for(path))
    }

    /// Whether it is for a request.
    pub(super) fn is_asked(&self, scheme: &str, path: &str) -> bool {
        self.scheme.as_deref().is_none_or(|only| only == scheme) && self.is_for(path)
    }

    /// Whether it is for a path.
    fn is_for(&self, path: &str) -> bool {
        match self.from.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == self.from,
        }
    }
}

/// `[[path]]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct PathRule {
    /// What the path begins with.
    pub prefix: String,
    /// What it begins with instead, in the key and at the origin.
    pub replace: String,
}

/// `[cors]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cors {
    /// Origins of pages that may read responses, in small letters; `*` for all, `https://*.example` for
    /// those at all hosts below one.
    pub origins: Vec<String>,
    /// Methods a preflight is told.
    pub methods: Vec<String>,
    /// Request fields a preflight is told; `*` for those it asks for.
    pub headers: Vec<String>,
    /// Response fields that scripts may read besides the safe ones.
    pub expose: Vec<String>,
    /// Whether with cookies.
    pub credentials: bool,
    /// How long a preflight holds.
    pub max_age: Duration,
}

impl Cors {
    /// Whether all pages may read responses.
    pub fn is_for_all(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }

    /// Whether pages of an origin, as a browser says it, may.
    pub fn allows(&self, asked: &str) -> bool {
        self.origins.iter().any(|origin| match origin.split_once("*.") {
            None => origin == asked || origin == "*",
            Some((scheme, domain)) => {
                let host = asked.strip_prefix(scheme).unwrap_or_default();
                let below = host.strip_suffix(domain).and_then(|host| host.strip_suffix('.'));
                below.is_some_and(|below| !below.is_empty() && below.bytes().all(is_of_host))
            }
        })
    }
}

/// Whether the name of a host may have it.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// What the `[[cache_rule]]` of a site have a request do.
#[derive(Clone, Copy, Debug)]
pub enum Caching<'a> {
    /// Go past the cache.
    Past,
    /// Through it, by this rule where there is one.
    Through(Option<&'a CacheRule>),
}

impl Rules {
    /// Whether every request is led elsewhere.
    pub fn redirect_everything(&self) -> bool {
        self.redirects.iter().any(|rule| rule.from == "/*" && rule.scheme.is_none())
    }

    /// The first `[[cache_rule]]` that is for a target; none where origins may take its path for one of
    /// another rule, so that nothing is kept for longer than is meant for what it turns out to be.
    pub fn caching_for(&self, target: &str) -> Option<&CacheRule> {
        self.agreed(&self.first_caching(target))
    }

    /// What they have a request for a target with these fields do: whichever reading of its path leads past
    /// the cache, it goes there.
    pub fn caching_of(&self, target: &str, fields: &Fields) -> Caching<'_> {
        let firsts = self.first_caching(target);
        let agreed = self.agreed(&firsts);
        let mut rules = firsts.places().filter_map(|place| self.caching.get(place));
        match rules.any(|rule| rule.is_past_cache(fields.get_all("cookie"))) {
            true => Caching::Past,
            false => Caching::Through(agreed),
        }
    }

    fn agreed(&self, firsts: &Firsts) -> Option<&CacheRule> {
        match firsts {
            Firsts::Same(place) => self.caching.get((*place)?),
            Firsts::Differ(_) => None,
        }
    }

    fn first_caching(&self, target: &str) -> Firsts {
        if self.caching.is_empty() {
            return Firsts::Same(None);
        }
        Readings::of(target).firsts(&self.caching, |rule, path| rule.is_for(path))
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a document says of them; what is wrong is listed.
pub(super) fn rules(document: &Document, wrong: &mut Vec<Mistake>) -> Rules {
    let mut rules = Rules { cors: cors(document, wrong), ..Rules::default() };
    for row in document.rows("header") {
        let Some(rule) = field_rule(&row, wrong) else { continue };
        match row.value("header[].on").text().as_str() {
            "request" => rules.request_fields.push(rule),
            _ => rules.response_fields.push(rule),
        }
    }
    rules.redirects =
        document.rows("redirect").iter().filter_map(|row| redirect(row, wrong)).collect();
    rules.caching = cache_rules(document, wrong);
    rules.paths = document.rows("path").iter().filter_map(|row| path_rule(row, wrong)).collect();
    rules
}

/// Fields that say how a message is framed or where it goes: a rule about them would break it.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-encoding",
];

/// Fields of a request by which an origin answers otherwise than the client has asked: with a part, with a 304 about what
/// the client does not have, or with a 100 first.
const ASKING: [&str; 7] = [
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
];

/// Whether it can be the value of a field (RFC 9110 §5.5), without spaces around it.
fn is_value(text: &str) -> bool {
    text.trim() == text && text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

fn field_rule(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<FieldRule> {
    let text = |path: &str| row.value(path).text();
    let (name, value) = (text("header[].name"), text("header[].value"));
    if !is_token(&name) {
        let message = format!("header.name is the name of a field, not `{name}`");
        wrong.push(Mistake::error(row.at("header[].name"), message));
        return None;
    }
    if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
        let message = format!(
            "header.name `{name}` is what the node itself sets for each message; leave it out"
        );
        wrong.push(Mistake::error(row.at("header[].name"), message));
        return None;
    }
    if !is_value(&value) {
        let message = format!("header.value of `{name}` has bytes that no field may have");
        wrong.push(Mistake::error(row.at("header[].value"), message));
        return None;
    }
    let template = match Template::parse(&value) {
        Ok(template) => template,
        Err(message) => {
            let message = format!("header.value of `{name}`: {message}");
            wrong.push(Mistake::error(row.at("header[].value"), message));
            return None;
        }
    };
    let is_request = text("header[].on") == "request";
    if is_request && template.values().any(Value::is_of_response) {
        let message = format!(
            "header.value of `{name}` has {{hit}} or {{reason}}, which are known of a response \
             only: leave it out, or set `on = \"response\"`"
        );
        wrong.push(Mistake::error(row.at("header[].value"), message));
        return None;
    }
    let action = text("header[].action");
    if is_request && action != "remove" && ASKING.contains(&name.to_ascii_lowercase().as_str()) {
        let message = format!(
            "header.name `{name}` would have the origin answer what no client has asked for; leave it out"
        );
        wrong.push(Mistake::error(row.at("header[].name"), message));
        return None;
    }
    if action != "remove" && value.is_empty() {
        let message = format!("header.value of `{name}` is empty");
        let help = "give it a value, or take the field away with `action = \"remove\"`";
        wrong.push(Mistake::error(row.at("header[].value"), message).help(help));
    }
    let action = match action.as_str() {
        "add" => FieldAction::Add(template),
        "remove" if value.is_empty() => FieldAction::Remove,
        "remove" => {
            let message = format!("header.value of `{name}` means nothing where action is remove");
            wrong.push(Mistake::error(row.at("header[].value"), message));
            return None;
        }
        _ => FieldAction::Set(template),
    };
    let path = beginning(row, "header[].path", "/app/", wrong)?;
    let suffixes = row.value("header[].suffixes").list();
    if let Some(message) = wrong_suffix("header.suffixes", &suffixes) {
        wrong.push(Mistake::error(row.at("header[].suffixes"), message));
        return None;
    }
    let mut statuses = Vec::new();
    for text in row.value("header[].status").list() {
        let Some(one) = Statuses::parse(&text).filter(|_| !is_request) else {
            let message = match is_request {
                true => "header.status is for fields of responses".to_owned(),
                false => format!("header.status has 200 to 599 and `2xx` to `5xx`, not `{text}`"),
            };
            wrong.push(Mistake::error(row.at("header[].status"), message));
            return None;
        };
        statuses.push(one);
    }
    Some(FieldRule { path, suffixes, statuses, name, action })
}

fn redirect(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<Redirect> {
    let text = |path: &str| row.value(path).text();
    let (from, to) = (encoded(text("redirect[].from")), encoded(text("redirect[].to")));
    let status = u16::try_from(row.value("redirect[].status").number()).unwrap_or(0);
    let mut refuse = |key: &str, message: String| {
        wrong.push(Mistake::error(row.at(&format!("redirect[].{key}")), message));
    };
    if from.contains(['?', '#']) {
        refuse("from", format!("redirect.from is a path without a query, not `{from}`"));
    } else if !from.starts_with('/')
        || from.strip_suffix('*').unwrap_or(&from).contains('*')
        || from.bytes().any(|byte| byte.is_ascii_control())
    {
        refuse(
            "from",
            format!("redirect.from is a path, with `*` at its end at most, not `{from}`"),
        );
    } else if to.starts_with("//")
        || !(to.starts_with('/') || to.starts_with("http://") || to.starts_with("https://"))
        || to.bytes().any(|byte| !byte.is_ascii_graphic())
    {
        refuse("to", format!("redirect.to is a path or an `https://` URL, not `{to}`"));
    } else if let Some(word) = unknown_word(&to) {
        let message = format!(
            "redirect.to `{to}` has {{{word}}}: what there is are {{host}}, the host that was asked \
             for, and {{rest}}, what `*` in from stands for"
        );
        refuse("to", message);
    } else if to.contains("{rest}") && !from.ends_with('*') {
        let message =
            format!("redirect.to `{to}` has {{rest}}, which is what `*` in from stands for");
        refuse("to", message);
    } else if has_rest_in_authority(&to) {
        let message = format!(
            "redirect.to `{to}` has {{rest}} in the place of a host, which clients would choose then: \
             write `/{{rest}}`"
        );
        refuse("to", message);
    } else if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let message = format!("redirect.status is 301, 302, 303, 307 or 308, not {status}");
        refuse("status", message);
    } else {
        let scheme = optional(text("redirect[].scheme"));
        return Some(Redirect { from, scheme, to, status, place: row.at("redirect[].to") });
    }
    None
}

/// A path or URL with what stands in none encoded behind its host, as clients send it.
fn encoded(text: String) -> String {
    let path = match text.split_once("://") {
        Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
        None => 0,
    };
    let (place, path) = text.split_at(path);
    match target::encoded(path.as_bytes()) {
        Some(Cow::Owned(path)) => format!("{place}{path}"),
        _ => text,
    }
}

/// Whether what a client asks for would be a part of the authority, as in `https://a.example{rest}`.
fn has_rest_in_authority(to: &str) -> bool {
    let behind = to.split_once("://").map(|(_, behind)| behind);
    let authority = behind.and_then(|behind| behind.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains("{rest}"))
}

/// A word in braces that stands for nothing.
fn unknown_word(to: &str) -> Option<&str> {
    let mut words = to.split('{').skip(1).filter_map(|behind| Some(behind.split_once('}')?.0));
    words.find(|word| {
        let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_word && !word.is_empty() && !matches!(*word, "host" | "rest")
    })
}

fn path_rule(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<PathRule> {
    let prefix = beginning(row, "path[].prefix", "/live/", wrong);
    let replace = beginning(row, "path[].replace", "/live/", wrong);
    let (prefix, replace) = (prefix?, replace?);
    Some(PathRule { prefix, replace })
}

/// An origin as browsers write it: in small letters, and without the port that its scheme has by itself (RFC 6454
/// §6.2).
fn as_sent(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let shorter = match origin.split_once("://") {
        Some(("https", _)) => origin.strip_suffix(":443"),
        Some(("http", _)) => origin.strip_suffix(":80"),
        _ => None,
    };
    shorter.map_or_else(|| origin.clone(), str::to_owned)
}

fn cors(document: &Document, wrong: &mut Vec<Mistake>) -> Option<Cors> {
    let list = |path: &str| document.value(path).list();
    let origins: Vec<_> = list("cors.origins").iter().map(|origin| as_sent(origin)).collect();
    let (methods, headers, expose) =
        (list("cors.methods"), list("cors.headers"), list("cors.expose"));
    for origin in &origins {
        let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '*']);
        let is_origin = origin == "*"
            || origin
                .split_once("://")
                .is_some_and(|(_, host)| is_host(host.strip_prefix("*.").unwrap_or(host)));
        if !is_origin || origin.bytes().any(|byte| !byte.is_ascii_graphic()) {
            let message = format!(
                "cors.origins are as `https://www.example`, `https://*.example` or `*`, not `{origin}`"
            );
            wrong.push(Mistake::error(document.at("cors.origins"), message));
        }
    }
    for (path, words) in
        [("cors.methods", &methods), ("cors.headers", &headers), ("cors.expose", &expose)]
    {
        for word in words.iter().filter(|word| !is_token(word)) {
            let message = format!("{path}: `{word}` is no name of a method or field");
            wrong.push(Mistake::error(document.at(path), message));
        }
    }
    let credentials = document.value("cors.credentials").bool();
    if credentials && origins.iter().any(|origin| origin == "*") {
        let message = "cors.credentials with `*` in cors.origins would let every page use a \
                       visitor's cookies: name the origins";
        wrong.push(Mistake::error(document.at("cors.credentials"), message));
    }
    (!origins.is_empty()).then(|| Cors {
        origins,
        methods,
        headers,
        expose,
        credentials,
        max_age: document.value("cors.max_age").span(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Rules, Vec<Mistake>> {
        let document = Document::parse(text).expect("the text is well-formed");
        let mut wrong = Vec::new();
        let rules = rules(&document, &mut wrong);
        if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
    }

    #[test]
    fn rules_that_would_break_a_message_are_refused() {
        for (text, says) in [
            ("[[header]]\nname = \"X A\"\n", "name of a field"),
            ("[[header]]\nname = \"\"\n", "name of a field"),
            ("[[header]]\nname = \"Content-Length\"\nvalue = \"1\"\n", "the node itself sets"),
            (
                "[[header]]\non = \"request\"\nname = \"If-None-Match\"\nvalue = \"a\"\n",
                "no client has asked for",
            ),
            ("[[header]]\nname = \"X\"\nvalue = \"a\\r\\nSet-Cookie: b\"\n", "bytes that no field"),
            ("[[header]]\nname = \"X\"\n", "is empty"),
            ("[[header]]\non = \"request\"\nname = \"X\"\nvalue = \"\"\n", "is empty"),
            ("[[header]]\nname = \"X\"\naction = \"remove\"\nvalue = \"a\"\n", "means nothing"),
            ("[[header]]\nname = \"X\"\nvalue = \"{clinet}\"\n", "did you mean `{client}`"),
            ("[[header]]\non = \"request\"\nname = \"X\"\nvalue = \"{hit}\"\n", "a response only"),
            ("[[header]]\nname = \"X\"\npath = \"app\"\n", "header.path begins"),
            ("[[header]]\nname = \"X\"\nsuffixes = [\"*.css\"]\n", "as `.css`"),
            ("[[header]]\nname = \"X\"\nstatus = [\"6xx\"]\n", "header.status has"),
            ("[[header]]\non = \"request\"\nname = \"X\"\nstatus = [\"200\"]\n", "of responses"),
            ("[[redirect]]\nfrom = \"/a*b\"\nto = \"/\"\n", "redirect.from"),
            ("[[redirect]]\nfrom = \"/a**\"\nto = \"/\"\n", "redirect.from"),
            ("[[redirect]]\nfrom = \"/a?x=1\"\nto = \"/b\"\n", "without a query"),
            ("[[redirect]]\nto = \"//evil\"\n", "redirect.to"),
            ("[[redirect]]\nto = \"javascript:x\"\n", "redirect.to"),
            ("[[redirect]]\nfrom = \"/a\"\nto = \"/{rest}\"\n", "{rest}"),
            ("[[redirect]]\nto = \"https://a.example{rest}\"\n", "write `/{rest}`"),
            ("[[redirect]]\nto = \"https://{host}{rest}/\"\n", "write `/{rest}`"),
            ("[[redirect]]\nto = \"/a\"\nstatus = 304\n", "redirect.status"),
            ("[[redirect]]\nto = \"https://{hostname}/\"\n", "what there is are {host}"),
            ("[[path]]\nprefix = \"a\"\n", "path.prefix"),
            ("[cors]\norigins = [\"a.example\"]\n", "cors.origins"),
            ("[cors]\norigins = [\"*\"]\ncredentials = true\n", "every page"),
        ] {
            let wrong = of(text).expect_err(text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn paths_are_as_clients_send_them() {
        let text = "[[redirect]]\nfrom = \"/über uns/*\"\nto = \"https://a.example/ü/{rest}\"\n\
                    [[redirect]]\nfrom = \"/%C3%BC\"\nto = \"/\"\n\
                    [[path]]\nprefix = \"/ä/\"\nreplace = \"/%C3%A4 b/\"\n";
        let rules = of(text).unwrap();
        assert_eq!(rules.redirects[0].from, "/%C3%BCber%20uns/*");
        assert_eq!(rules.redirects[0].to, "https://a.example/%C3%BC/{rest}");
        assert_eq!(rules.redirects[1].from, "/%C3%BC");
        let path = PathRule { prefix: "/%C3%A4/".into(), replace: "/%C3%A4%20b/".into() };
        assert_eq!(rules.paths, [path]);
        for to in ["https://bücher.example/", "https://a b/", "/a\\u0007b"] {
            assert!(of(&format!("[[redirect]]\nto = \"{to}\"\n")).is_err(), "{to}");
        }
    }

    #[test]
    fn pages_below_a_host_are_allowed_and_no_others() {
        let text = "[cors]\norigins = [\"https://*.Example.com\", \"http://a:8080\", \
                    \"https://c.example:443\", \"http://*.d.example:80\", \"http://e:443\"]\n";
        let cors = of(text).unwrap().cors.unwrap();
        for (asked, is_allowed) in [
            ("https://www.example.com", true),
            ("https://a.b.example.com", true),
            ("http://a:8080", true),
            // Browsers leave out a port that goes without saying.
            ("https://c.example", true),
            ("http://www.d.example", true),
            ("http://e:443", true),
            ("http://e", false),
            ("https://example.com", false),
            ("https://.example.com", false),
            ("https://evilexample.com", false),
            ("http://www.example.com", false),
            ("https://www.example.com:8443", false),
            ("https://www.example.com.evil", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(cors.allows(asked), is_allowed, "{asked}");
        }
        for wrong in ["https://*", "https://a.*.example", "*.example", "https://*.*"] {
            assert!(of(&format!("[cors]\norigins = [\"{wrong}\"]\n")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_rule_there_is_nothing_to_do() {
        assert!(of("[cors]\nmethods = [\"GET\"]\n").unwrap().is_empty());
    }
}

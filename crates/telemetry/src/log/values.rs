//! What a line of the access log can say of a request: one table for formats, for JSON, and for
//! `docs/log.md`.

use freshet_media::cmcd;
use std::fmt::Write as _;

/// Values a format can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the table says what each is")]
pub enum Value {
    Client,
    User,
    Time,
    RequestLine,
    Method,
    Target,
    Version,
    Authority,
    Status,
    BodyBytes,
    TotalBytes,
    TotalMicros,
    FirstByteMicros,
    UserAgent,
    Referer,
    Hit,
    ReasonCode,
    Site,
    Origin,
    ClientName,
    ClientSubject,
    ClientIssuer,
    ClientSerial,
    ClientFingerprint,
    TokenId,
    TraceId,
    Country,
    Continent,
    City,
    Asn,
    Id,
    /// All of what a player says.
    Cmcd,
    /// What one of its keys says.
    CmcdKey(&'static str),
}

/// A fact of a request, and how lines have it.
pub(super) struct Known {
    /// How a format asks for it, and what that is; nothing where only JSON has it.
    pub(super) in_format: Option<(&'static str, Value)>,
    /// Its name in JSON and what stands there; empty where JSON has only the parts of it.
    pub(super) in_json: (&'static str, &'static str),
    /// What it is, with its unit, as Markdown.
    pub(super) help: &'static str,
}

const TEXT: &str = "text";
const NUMBER: &str = "number";
const YES_OR_NO: &str = "`true`, `false`";
const OBJECT: &str = "object";

const fn both(
    format: &'static str,
    value: Value,
    json: &'static str,
    form: &'static str,
    help: &'static str,
) -> Known {
    Known { in_format: Some((format, value)), in_json: (json, form), help }
}

const fn format_only(format: &'static str, value: Value, help: &'static str) -> Known {
    Known { in_format: Some((format, value)), in_json: ("", ""), help }
}

const fn json_only(name: &'static str, form: &'static str, help: &'static str) -> Known {
    Known { in_format: None, in_json: (name, form), help }
}

/// All but fields by their names, `%{NAME}i` and `%{NAME}o`, and `%{cmcd.KEY}x`.
pub(super) const ALL: &[Known] = &[
    both(
        "%t",
        Value::Time,
        "time",
        NUMBER,
        "when the request's head was there: seconds since 1970 with three digits behind the point in JSON, \
         `[20/Nov/2026:09:38:11 +0000]` in a format",
    ),
    both("%h", Value::Client, "client", TEXT, "address of the client"),
    format_only("%r", Value::RequestLine, "first line of the request: method, target, protocol"),
    both("%m", Value::Method, "method", TEXT, "method"),
    both("%v", Value::Authority, "host", TEXT, "host and port that were asked"),
    both("%U", Value::Target, "target", TEXT, "target as it was sent: path and query"),
    both("%H", Value::Version, "protocol", TEXT, "version of HTTP"),
    both("%{hit}x", Value::Hit, "result", TEXT, "`hit` or `miss`"),
    both(
        "%{reason}x",
        Value::ReasonCode,
        "reason",
        TEXT,
        "why: the `detail` of `Cache-Status`, which `freshet explain` says at length",
    ),
    both("%{origin}x", Value::Origin, "origin", TEXT, "who was asked, if anybody"),
    both("%{site}x", Value::Site, "site", TEXT, "the site, where there are several"),
    both(
        "%{client_name}x",
        Value::ClientName,
        "client_name",
        TEXT,
        "first name in the client's [certificate](access.md#certificates-of-clients)",
    ),
    both("%{client_subject}x", Value::ClientSubject, "client_subject", TEXT, "whom that is for"),
    both("%{client_issuer}x", Value::ClientIssuer, "client_issuer", TEXT, "who signed it"),
    both(
        "%{client_serial}x",
        Value::ClientSerial,
        "client_serial",
        TEXT,
        "its serial number, in hexadecimal digits",
    ),
    both(
        "%{client_fingerprint}x",
        Value::ClientFingerprint,
        "client_fingerprint",
        TEXT,
        "its SHA-256, in hexadecimal digits",
    ),
    both(
        "%u",
        Value::User,
        "user",
        TEXT,
        "whose password or token let the request in; in a format spaces are `_`",
    ),
    both(
        "%{token_id}x",
        Value::TokenId,
        "token_id",
        TEXT,
        "the token's own name or number ([tokens.md](tokens.md))",
    ),
    both(
        "%{trace_id}x",
        Value::TraceId,
        "trace_id",
        TEXT,
        "the trace it is in, where [one is sent](operations.md#traces-and-metrics-by-opentelemetry)",
    ),
    both("%{User-agent}i", Value::UserAgent, "user_agent", TEXT, "what the client says of itself"),
    both("%{Referer}i", Value::Referer, "referer", TEXT, "the page that led to this"),
    both(
        "%{country}x",
        Value::Country,
        "country",
        TEXT,
        "country of the client, two letters \
         ([access.md](access.md#countries-continents-and-providers))",
    ),
    both("%{continent}x", Value::Continent, "continent", TEXT, "its continent, two letters"),
    both("%{city}x", Value::City, "city", TEXT, "its city, by its English name"),
    both("%{asn}x", Value::Asn, "asn", NUMBER, "number of the network it is in"),
    both(
        "%{cmcd}x",
        Value::Cmcd,
        "cmcd",
        OBJECT,
        "what a [player](media.md#what-players-say-of-themselves) says, by key in JSON, as it came in a \
         format",
    ),
    json_only("request", OBJECT, "the fields of the request that `log.request_fields` names"),
    json_only("response", OBJECT, "the fields of the response that `log.response_fields` names"),
    both("%s", Value::Status, "status", NUMBER, "status that was sent"),
    both("%b", Value::BodyBytes, "body_bytes", NUMBER, "bytes of the body that were sent"),
    json_only("head_bytes", NUMBER, "bytes of the head that were sent"),
    format_only("%O", Value::TotalBytes, "bytes of head and body that were sent"),
    both(
        "%F",
        Value::FirstByteMicros,
        "first_byte_us",
        NUMBER,
        "microseconds from there to the first byte of the response",
    ),
    both("%D", Value::TotalMicros, "total_us", NUMBER, "microseconds from there to the last byte"),
    json_only("tls", YES_OR_NO, "whether TLS was spoken"),
    json_only("aborted", YES_OR_NO, "whether the response was broken off"),
    both("%{id}x", Value::Id, "id", NUMBER, "number of the request on this node"),
];

/// How formats ask for values, and the values.
pub(super) fn in_formats() -> impl Iterator<Item = (&'static str, Value)> {
    ALL.iter().filter_map(|known| known.in_format)
}

/// The page as Markdown, the text of `docs/log.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Fields of the access log\n\nWhat a line can say of a request: in JSON (`log.format = \
         \"json\"`), and in a format of your own\nor Apache's `combined`. \
         [operations.md](operations.md#look-at-it) shows how a log is made.\n\nIn a format `-` \
         stands for what there is not. A JSON line leaves out what most requests do not have: the \
         site,\ncertificates, users, tokens, traces, places, `cmcd`, `request` and `response`; other \
         texts are empty.\nQuotes, backslashes and control characters are written so that a line \
         stays one: `\\\"`, `\\\\`, `\\x1b`, in JSON\n`\\u001b`.\n\n\
         A request that is refused by its head has what was read of it: of HTTP/1 the parts of its first line, 1 KiB at most, and all of that\n\
         as the target where it has none, as what TLS says to a port without; of HTTP/2 and HTTP/3 method, authority and path.\n\n| in a format | in JSON | JSON has | \
         |\n|---|---|---|---|\n",
    );
    for known in ALL {
        let code = |name: &str| match name {
            "" => "–".to_owned(),
            name => format!("`{name}`"),
        };
        let form = if known.in_json.1.is_empty() { "–" } else { known.in_json.1 };
        let format = code(known.in_format.map_or("", |(name, _)| name));
        let _ = writeln!(out, "| {format} | {} | {form} | {} |", code(known.in_json.0), known.help);
    }
    let keys: Vec<_> = cmcd::KEYS.iter().map(|key| format!("`{key}`")).collect();
    let _ = write!(
        out,
        "\nBesides, formats have `%%` for a `%`; `%{{NAME}}i` for any field of the request (`Host` is \
         what was asked, as\n`%v`), and `%{{NAME}}o` for one of the response, as the client got it, 1 \
         KiB of each at most; and `%{{cmcd.KEY}}x` for\nwhat one key of a player says, of\n{}.\n",
        keys.join(", ")
    );
    out
}

#[cfg(test)]
mod tests {
    use super::super::record::{Record, sample};
    use super::super::{Format, values};
    use freshet_geo::Geo;
    use std::collections::BTreeSet;

    /// The page in the repository is the one this code writes; `UPDATE_DOCS=1` writes it anew.
    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/log.md");
        let want = values::markdown();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &want).unwrap();
        }
        let have = std::fs::read_to_string(path).unwrap_or_default();
        assert!(have == want, "docs/log.md is old: run the tests with UPDATE_DOCS=1");
    }

    #[test]
    fn names_are_unique() {
        let formats: Vec<_> = values::in_formats().map(|(name, _)| name).collect();
        let json: Vec<_> = values::ALL
            .iter()
            .map(|known| known.in_json.0)
            .filter(|name| !name.is_empty())
            .collect();
        for names in [formats, json] {
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
    }

    /// All but where a client is, for which there is no database here.
    #[test]
    fn a_line_of_json_has_the_names_of_the_table_in_its_order() {
        let record = Record {
            site: "a",
            client_name: "a",
            client_subject: "a",
            client_issuer: "a",
            client_serial: "a",
            client_fingerprint: "a",
            user: "a",
            token_id: "a",
            trace_id: "a",
            cmcd: "bl=1",
            request_fields: "A: b\n",
            response_fields: "A: b\n",
            ..sample()
        };
        let mut line = String::new();
        Format::Json.write(&record, &Geo::default(), &mut line);
        // Objects have one name each here, so that commas and quotes are between names of the line only.
        let said: Vec<_> = line[2..].split(",\"").filter_map(|one| one.split_once("\":")).collect();
        let where_it_is = ["country", "continent", "city", "asn"];
        let known = values::ALL.iter().map(|known| known.in_json);
        let known: Vec<_> =
            known.filter(|(name, _)| !name.is_empty() && !where_it_is.contains(name)).collect();
        let names =
            |all: &[(&str, &str)]| all.iter().map(|one| one.0.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&said), names(&known));
        for ((name, value), (_, form)) in said.iter().zip(&known) {
            let is_as_said = match *form {
                super::TEXT => value.starts_with('"'),
                super::NUMBER => value.starts_with(|c: char| c.is_ascii_digit()),
                super::OBJECT => value.starts_with('{'),
                _ => value.starts_with("true") || value.starts_with("false"),
            };
            assert!(is_as_said, "{name}: {line}");
        }
    }
}

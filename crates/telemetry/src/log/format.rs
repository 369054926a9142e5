//! The forms an access log line can have.

use super::fields;
use super::record::Record;
use super::values::{self, Value};
use freshet_geo::{Code, Geo};
use freshet_http::fields::is_token;
use freshet_media::cmcd::{self, Cmcd};
use std::fmt::Write as _;

/// How a line looks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Pieces of text and values, as Apache's `LogFormat` has them.
    Template(Vec<Piece>),
}

/// A piece of a template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Piece {
    /// As it stands.
    Literal(String),
    /// A value.
    Value(Value),
    /// `%{NAME}i`: a field of the request.
    Request(Box<str>),
    /// `%{NAME}o`: a field of the response.
    Response(Box<str>),
}

const COMBINED: &str = "%h - %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-agent}i\"";

impl Format {
    /// A format from its configuration text.
    ///
    /// # Errors
    /// Names the `%` sequence that is unknown and the known ones, or says that there is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "json" => return Ok(Self::Json),
            "combined" => return Self::parse(COMBINED),
            _ => {}
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            if at > 0 {
                pieces.push(Piece::Literal(rest[..at].to_owned()));
            }
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("%%") {
                pieces.push(Piece::Literal("%".to_owned()));
                rest = after;
                continue;
            }
            // Formats of other servers have the name that identd says, for which nobody asks, and the last of several
            // statuses, of which there is one here.
            if let Some(after) = rest.strip_prefix("%l") {
                pieces.push(Piece::Literal("-".to_owned()));
                rest = after;
                continue;
            }
            let named = rest.strip_prefix("%>").or_else(|| rest.strip_prefix("%<"));
            let named = named.unwrap_or_else(|| &rest[1..]);
            let of = |name: &str| named.strip_prefix(name.trim_start_matches('%'));
            let known = values::in_formats().find_map(|(name, value)| Some((value, of(name)?)));
            let known = known.or_else(|| cmcd_key(rest));
            let known = known.map(|(value, after)| (Piece::Value(value), after));
            let Some((piece, after)) = known.or_else(|| field(rest)) else {
                let known: Vec<_> = values::in_formats().map(|(name, _)| name).collect();
                let end = rest.find([' ', '"']).unwrap_or(rest.len());
                let shown: String = rest[..end].chars().take(24).collect();
                return Err(format!(
                    "`{shown}` is not a log field; known are {}, %{{NAME}}i and %{{NAME}}o with names \
                     of fields, and %{{cmcd.KEY}}x with {}",
                    known.join(" "),
                    cmcd::KEYS.join(" ")
                ));
            };
            pieces.push(piece);
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        if pieces.iter().all(|piece| matches!(piece, Piece::Literal(_))) {
            return Err(format!(
                "`{text}` has no field of a request, so that all lines would be the same; it is `json`, \
                 `combined`, or has fields as %h %r %s"
            ));
        }
        Ok(Self::Template(pieces))
    }

    /// Appends the record as a line with its end.
    pub fn write(&self, record: &Record<'_>, geo: &Geo, out: &mut String) {
        match self {
            Self::Json => json(record, geo, out),
            Self::Template(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Literal(text) => out.push_str(text),
                        Piece::Value(value) => write_value(*value, record, geo, out),
                        Piece::Request(name) => text(fields::one(record.request_fields, name), out),
                        Piece::Response(name) => {
                            text(fields::one(record.response_fields, name), out)
                        }
                    }
                }
            }
        }
        out.push('\n');
    }
}

/// The field `%{NAME}i` or `%{NAME}o` at the start of a text, and what follows.
fn field(text: &str) -> Option<(Piece, &str)> {
    let (name, after) = text.strip_prefix("%{")?.split_once('}')?;
    let name = Some(name).filter(|name| is_token(name))?.into();
    match after.split_at_checked(1)? {
        ("i", after) => Some((Piece::Request(name), after)),
        ("o", after) => Some((Piece::Response(name), after)),
        _ => None,
    }
}

/// The value `%{cmcd.bl}x` at the start of a text, and what follows.
fn cmcd_key(text: &str) -> Option<(Value, &str)> {
    let (name, after) = text.strip_prefix("%{cmcd.")?.split_once("}x")?;
    let key = cmcd::KEYS.into_iter().find(|key| *key == name)?;
    Some((Value::CmcdKey(key), after))
}

fn json(record: &Record<'_>, geo: &Geo, out: &mut String) {
    let _ = write!(out, "{{\"time\":{}", record.time);
    let mut text = |name: &str, value: &str| {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":\"");
        escape_json(value, out);
        out.push('"');
    };
    text("client", &record.client.map(|c| c.to_string()).unwrap_or_default());
    text("method", record.method);
    text("host", record.authority);
    text("target", record.target);
    text("protocol", record.version);
    text("result", if record.hit { "hit" } else { "miss" });
    text("reason", record.reason().map_or("", |reason| reason.code()));
    text("origin", record.origin);
    if !record.site.is_empty() {
        text("site", record.site);
    }
    for (name, value) in [
        ("client_name", record.client_name),
        ("client_subject", record.client_subject),
        ("client_issuer", record.client_issuer),
        ("client_serial", record.client_serial),
        ("client_fingerprint", record.client_fingerprint),
        ("user", record.user),
        ("token_id", record.token_id),
        ("trace_id", record.trace_id),
    ] {
        if !value.is_empty() {
            text(name, value);
        }
    }
    text("user_agent", record.user_agent);
    text("referer", record.referer);
    if let Some(client) = record.client.filter(|_| !geo.is_empty()) {
        if let Some(country) = geo.country(client) {
            text("country", country.as_str());
        }
        if let Some(continent) = geo.continent(client) {
            text("continent", continent.as_str());
        }
        if let Some(city) = geo.city(client) {
            text("city", &city);
        }
        if let Some(asn) = geo.asn(client) {
            let _ = write!(out, ",\"asn\":{asn}");
        }
    }
    if !record.cmcd.is_empty() {
        json_cmcd(record.cmcd, out);
    }
    for (of, logged) in [("request", record.request_fields), ("response", record.response_fields)] {
        if !logged.is_empty() {
            let _ = write!(out, ",\"{of}\":");
            json_fields(logged, out);
        }
    }
    let _ = write!(
        out,
        ",\"status\":{},\"body_bytes\":{},\"head_bytes\":{},\"first_byte_us\":{},\"total_us\":{},\
         \"tls\":{},\"aborted\":{},\"id\":{}}}",
        record.status,
        record.body_bytes,
        record.head_bytes,
        record.first_byte_us,
        record.total_us,
        record.tls,
        record.aborted,
        record.id,
    );
}

/// Fields by their names, as the configuration has these.
fn json_fields(logged: &str, out: &mut String) {
    for (at, (name, value)) in fields::all(logged).enumerate() {
        let _ = write!(out, "{}\"{name}\":\"", if at == 0 { '{' } else { ',' });
        escape_json(value, out);
        out.push('"');
    }
    out.push('}');
}

/// What a player said, key by key.
fn json_cmcd(said: &str, out: &mut String) {
    let mut read = Cmcd::default();
    cmcd::read(said, &mut read);
    let values = cmcd::KEYS.iter().filter_map(|key| Some((key, read.value(key)?)));
    out.push_str(",\"cmcd\":{");
    for (at, (key, value)) in values.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\"{key}\":");
        match value {
            cmcd::Value::Text(value) => {
                out.push('"');
                escape_json(value, out);
                out.push('"');
            }
            value => {
                let _ = write!(out, "{value}");
            }
        }
    }
    out.push('}');
}

fn write_value(value: Value, record: &Record<'_>, geo: &Geo, out: &mut String) {
    let client = record.client;
    let _ = match value {
        Value::Client => match client {
            Some(client) => write!(out, "{client}"),
            None => write!(out, "-"),
        },
        // A space would begin the next field for those who read lines by them.
        Value::User => return text(&record.user.replace(' ', "_"), out),
        Value::TokenId => return text(record.token_id, out),
        Value::TraceId => return text(record.trace_id, out),
        Value::Time => {
            common_time(record, out);
            Ok(())
        }
        // What is no request line is all in one.
        Value::RequestLine if record.method.is_empty() => return text(record.target, out),
        Value::RequestLine => {
            text(record.method, out);
            out.push(' ');
            text(record.target, out);
            if !record.version.is_empty() {
                out.push(' ');
                text(record.version, out);
            }
            Ok(())
        }
        Value::Method => return text(record.method, out),
        Value::Target => return text(record.target, out),
        Value::Version => return text(record.version, out),
        Value::Authority => return text(record.authority, out),
        Value::UserAgent => return text(record.user_agent, out),
        Value::Referer => return text(record.referer, out),
        Value::Site => return text(record.site, out),
        Value::ClientName => return text(record.client_name, out),
        Value::ClientSubject => return text(record.client_subject, out),
        Value::ClientIssuer => return text(record.client_issuer, out),
        Value::ClientSerial => return text(record.client_serial, out),
        Value::ClientFingerprint => return text(record.client_fingerprint, out),
        Value::Origin => return text(record.origin, out),
        Value::Cmcd => return text(record.cmcd, out),
        Value::CmcdKey(key) => {
            let mut read = Cmcd::default();
            cmcd::read(record.cmcd, &mut read);
            return text(&read.value(key).map(|value| value.to_string()).unwrap_or_default(), out);
        }
        Value::Status => write!(out, "{}", record.status),
        Value::BodyBytes => write!(out, "{}", record.body_bytes),
        Value::TotalBytes => write!(out, "{}", record.body_bytes + record.head_bytes),
        Value::TotalMicros => write!(out, "{}", record.total_us),
        Value::FirstByteMicros => write!(out, "{}", record.first_byte_us),
        Value::Hit => write!(out, "{}", if record.hit { "hit" } else { "miss" }),
        Value::ReasonCode => write!(out, "{}", record.reason().map_or("-", |r| r.code())),
        Value::Country => return code(client.and_then(|client| geo.country(client)), out),
        Value::Continent => return code(client.and_then(|client| geo.continent(client)), out),
        Value::City => {
            return text(&client.and_then(|client| geo.city(client)).unwrap_or_default(), out);
        }
        Value::Asn => match client.and_then(|client| geo.asn(client)) {
            Some(number) => write!(out, "{number}"),
            None => write!(out, "-"),
        },
        Value::Id => write!(out, "{}", record.id),
    };
}

fn code(code: Option<Code>, out: &mut String) {
    out.push_str(code.as_ref().map_or("-", Code::as_str));
}

/// `[20/Nov/2026:09:38:11 +0000]`, always in UTC.
fn common_time(record: &Record<'_>, out: &mut String) {
    let mut date = Vec::with_capacity(32);
    freshet_http::date::write(record.time, &mut date);
    let date = String::from_utf8_lossy(&date);
    // IMF-fixdate: `Fri, 20 Nov 2026 09:38:11 GMT`, fixed places (RFC 9110 §5.6.7).
    let part = |range: std::ops::Range<usize>| date.get(range).unwrap_or("");
    let _ = write!(out, "[{}/{}/{}:{} +0000]", part(5..7), part(8..11), part(12..16), part(17..25));
}

/// Text of a client in a line-based log: an empty one as `-`, and nothing that could end the line
/// or a quoted part of it.
fn text(value: &str, out: &mut String) {
    if value.is_empty() {
        out.push('-');
    }
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

fn escape_json(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
    use super::*;

    #[test]
    fn combined_lines_are_what_log_readers_know() {
        let mut out = String::new();
        Format::parse("combined").unwrap().write(&sample(), &Geo::default(), &mut out);
        assert_eq!(
            out,
            "192.0.2.7 - - [20/Nov/2026:09:07:08 +0000] \"GET /live/1/\\\"seg\\\".m4s HTTP/2\" 200 \
             5120 \"-\" \"curl/8\\x01\"\n"
        );
    }

    #[test]
    fn what_is_no_request_is_a_line_of_its_own() {
        let line = |method, target, version| {
            let (mut out, record) = (String::new(), Record { method, target, version, ..sample() });
            Format::parse("\"%r\" %m %H").unwrap().write(&record, &Geo::default(), &mut out);
            out
        };
        assert_eq!(line("", "\u{16}\u{3}\"", ""), "\"\\x16\\x03\\\"\" - -\n");
        assert_eq!(line("", "", ""), "\"-\" - -\n");
        assert_eq!(line("GET", "/a", ""), "\"GET /a\" GET -\n");
        assert_eq!(line("GET", "/a", "HTTP/\""), "\"GET /a HTTP/\\\"\" GET HTTP/\\\"\n");
    }

    #[test]
    fn json_lines_hold_what_a_client_sends_without_breaking() {
        let mut out = String::new();
        Format::Json.write(&sample(), &Geo::default(), &mut out);
        assert!(out.starts_with("{\"time\":1795165628.630,\"client\":\"192.0.2.7\""), "{out}");
        assert!(out.contains("\"target\":\"/live/1/\\\"seg\\\".m4s\""), "{out}");
        assert!(out.contains("curl/8\\u0001"), "{out}");
        assert_eq!(out.matches('\n').count(), 1);
    }

    #[test]
    fn what_players_say_is_there_by_key() {
        let said = "bl=2900,sid=\"a b\",su,com.x=\"?\"";
        let record = Record { cmcd: said, ..sample() };
        let line = |format: &str, record: &Record<'_>| {
            let mut out = String::new();
            Format::parse(format).unwrap().write(record, &Geo::default(), &mut out);
            out
        };
        let template = "%{cmcd.bl}x %{cmcd.br}x %{cmcd.sid}x %{cmcd.su}x \"%{cmcd}x\"";
        let want = "2900 - a b true \"bl=2900,sid=\\\"a b\\\",su,com.x=\\\"?\\\"\"\n";
        assert_eq!(line(template, &record), want);
        assert_eq!(line("%{cmcd}x", &sample()), "-\n");
        let json = line("json", &record);
        assert!(json.contains(",\"cmcd\":{\"bl\":2900,\"sid\":\"a b\",\"su\":true}"), "{json}");
        assert!(!line("json", &sample()).contains("cmcd"));
        assert!(Format::parse("%{cmcd.xx}x").unwrap_err().contains("cmcd.KEY"));
    }

    #[test]
    fn fields_of_messages_are_there_by_name() {
        let record = Record {
            request_fields: "X-Id: \"7\"\nAccept: a/b\n",
            response_fields: "ETag: W/\"1\"\n",
            ..sample()
        };
        let line = |format: &str| {
            let mut out = String::new();
            Format::parse(format).unwrap().write(&record, &Geo::default(), &mut out);
            out
        };
        assert_eq!(line("%{x-id}i|%{Accept}i|%{etag}o|%{None}o"), "\\\"7\\\"|a/b|W/\\\"1\\\"|-\n");
        let want =
            ",\"request\":{\"X-Id\":\"\\\"7\\\"\",\"Accept\":\"a/b\"},\"response\":{\"ETag\":";
        assert!(line("json").contains(want), "{}", line("json"));
        assert!(Format::parse("%{a b}i").unwrap_err().contains("%{NAME}i"));
    }

    #[test]
    fn formats_of_other_servers_are_taken_as_they_are() {
        let apache = "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\"";
        assert_eq!(
            Format::parse(apache).map(|format| format!("{format:?}").matches("Value").count()),
            Format::parse(COMBINED).map(|format| format!("{format:?}").matches("Value").count())
        );
        let wrong = Format::parse("%h %zz \"%r\"").expect_err("there is no such field");
        assert!(wrong.starts_with("`%zz` is not"), "{wrong}");
    }

    #[test]
    fn templates_take_known_fields_and_name_unknown_ones() {
        let mut out = String::new();
        Format::parse("%s %{hit}x %D%%").unwrap().write(&sample(), &Geo::default(), &mut out);
        assert_eq!(out, "200 hit 1250%\n");
        for text in ["common", "", "$remote_addr \"$request\"", "100%%"] {
            let wrong = Format::parse(text).unwrap_err();
            assert!(
                wrong.contains("has no field of a request") && wrong.contains("combined"),
                "{wrong}"
            );
        }
        assert!(Format::parse("%h %q").unwrap_err().contains("`%q`"));
    }
}

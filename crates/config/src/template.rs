//! Values of fields with names in braces, which each request has its own text for: `"{client}"`.

use freshet_base::nearest::nearest;
use freshet_media::cmcd;

/// A value in its pieces.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Template(Vec<Piece>);

/// A piece of a value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Piece {
    /// As it stands.
    Text(String),
    /// What a request has for this.
    Value(Value),
}

/// What a request has a text for. Where the access log has the same, the name is the same.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Value {
    /// The client's address.
    Client,
    /// The host it asks for, without port.
    Host,
    /// `http` or `https`.
    Scheme,
    /// The method.
    Method,
    /// The path as the client sent it, without the query.
    Path,
    /// The query, without `?`.
    Query,
    /// The number of the request on this node.
    Id,
    /// The site's name.
    Site,
    /// Whose password or token let the request in.
    User,
    /// The name or number of the token that did.
    TokenId,
    /// The client's country.
    Country,
    /// Its continent.
    Continent,
    /// Its city.
    City,
    /// The autonomous system it is in.
    Asn,
    /// The first name in its certificate.
    ClientName,
    /// Whom its certificate is for.
    ClientSubject,
    /// The serial number of its certificate.
    ClientSerial,
    /// The SHA-256 of its certificate.
    ClientFingerprint,
    /// `cmcd.sid`: what a player says by this key.
    Cmcd(&'static str),
    /// `hit` or `miss`.
    Hit,
    /// Why the response is what it is.
    Reason,
}

const NAMES: [(&str, Value); 20] = [
    ("client", Value::Client),
    ("host", Value::Host),
    ("scheme", Value::Scheme),
    ("method", Value::Method),
    ("path", Value::Path),
    ("query", Value::Query),
    ("id", Value::Id),
    ("site", Value::Site),
    ("user", Value::User),
    ("token_id", Value::TokenId),
    ("country", Value::Country),
    ("continent", Value::Continent),
    ("city", Value::City),
    ("asn", Value::Asn),
    ("client_name", Value::ClientName),
    ("client_subject", Value::ClientSubject),
    ("client_serial", Value::ClientSerial),
    ("client_fingerprint", Value::ClientFingerprint),
    ("hit", Value::Hit),
    ("reason", Value::Reason),
];

/// What stands before the keys of what players say of themselves.
const OF_PLAYERS: &str = "cmcd.";

impl Value {
    /// Whether only a response has it.
    pub fn is_of_response(self) -> bool {
        matches!(self, Self::Hit | Self::Reason)
    }

    /// Whether it says of a client what tells it from others and is in no key, so that an origin whose
    /// response is kept for all must not hear it. Its address and the request's number it hears
    /// anyway.
    pub fn is_of_one_client(self) -> bool {
        match self {
            Self::User
            | Self::TokenId
            | Self::Country
            | Self::Continent
            | Self::City
            | Self::Asn
            | Self::ClientName
            | Self::ClientSubject
            | Self::ClientSerial
            | Self::ClientFingerprint
            | Self::Cmcd(_) => true,
            Self::Client
            | Self::Host
            | Self::Scheme
            | Self::Method
            | Self::Path
            | Self::Query
            | Self::Id
            | Self::Site
            | Self::Hit
            | Self::Reason => false,
        }
    }
}

impl Template {
    /// A value as it is written. A name in braces is one of those that are known, `{{` is `{`, and a
    /// brace before anything else than a small letter is itself, as in JSON.
    ///
    /// # Errors
    /// Names what is unknown, what may have been meant, and what is known.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            plain.push_str(before);
            if let Some(after) = after.strip_prefix('{') {
                plain.push('{');
                rest = after;
                continue;
            }
            let (name, behind) = after.split_at(name_bytes(after));
            let Some(behind) = behind.strip_prefix('}').filter(|_| !name.is_empty()) else {
                plain.push('{');
                rest = after;
                continue;
            };
            let value = value_of(name).ok_or_else(|| unknown(name))?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Value(value));
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// Its pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The text, where it is the same for all requests.
    pub fn plain(&self) -> Option<&str> {
        match &*self.0 {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// What requests have texts for.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Value(value) => Some(*value),
            Piece::Text(_) => None,
        })
    }
}

/// Bytes of the name at the start of a text: small letters, and behind `cmcd.` a key.
fn name_bytes(text: &str) -> usize {
    let letters = |text: &str| {
        let is_letter = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
        text.bytes().take_while(is_letter).count()
    };
    text.strip_prefix(OF_PLAYERS)
        .map_or_else(|| letters(text), |key| OF_PLAYERS.len() + letters(key))
}

fn value_of(name: &str) -> Option<Value> {
    if let Some(key) = name.strip_prefix(OF_PLAYERS) {
        return cmcd::KEYS.into_iter().find(|known| *known == key).map(Value::Cmcd);
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn unknown(name: &str) -> String {
    if name.starts_with(OF_PLAYERS) {
        let known = cmcd::KEYS.join(", ");
        return format!(
            "`{{{name}}}` is nothing a player says. Known behind {OF_PLAYERS} are {known}"
        );
    }
    let names = || NAMES.iter().map(|(known, _)| *known);
    let meant = nearest(name, names()).map(|name| format!("; did you mean `{{{name}}}`?"));
    let known: Vec<_> = names().collect();
    format!(
        "`{{{name}}}` is nothing a request has{} Known are {}, {OF_PLAYERS}KEY; `{{{{` is a brace",
        meant.unwrap_or_else(|| ".".into()),
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_values_and_other_braces_themselves() {
        let pieces = |text| Template::parse(text).unwrap().0;
        let text = |text: &str| Piece::Text(text.into());
        assert_eq!(pieces("{client}"), [Piece::Value(Value::Client)]);
        assert_eq!(
            pieces("for={client};host=\"{host}\""),
            [
                text("for="),
                Piece::Value(Value::Client),
                text(";host=\""),
                Piece::Value(Value::Host),
                text("\"")
            ]
        );
        let report = "{\"report_to\":\"a\",\"max_age\":{\"b\":{}}}";
        for plain in ["", "a", "{}", "{ }", "{client", "{Client}", "{a b}", "}", report] {
            assert_eq!(Template::parse(plain).unwrap().plain(), Some(plain));
        }
        assert_eq!(Template::parse("{{client}").unwrap().plain(), Some("{client}"));
        assert_eq!(Template::parse("{hit}").unwrap().plain(), None);
        assert_eq!(pieces("{cmcd.sid}"), [Piece::Value(Value::Cmcd("sid"))]);
        assert_eq!(Template::parse("{a.b}").unwrap().plain(), Some("{a.b}"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_one_that_was_meant() {
        let error = Template::parse("{contry}").unwrap_err();
        assert!(error.contains("did you mean `{country}`?"), "{error}");
        assert!(error.contains("client, host"), "{error}");
        let error = Template::parse("{cmcd.sidd}").unwrap_err();
        assert!(error.starts_with("`{cmcd.sidd}` is nothing a player says. "), "{error}");
        let error = Template::parse("{remote_addr}").unwrap_err();
        assert!(error.starts_with("`{remote_addr}` is nothing a request has."), "{error}");
    }
}

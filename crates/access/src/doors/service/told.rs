//! What a service's yes says of itself: for how long it is one, and how often it is.

use freshet_http::fields::Fields;
use freshet_limits::Rate;
use std::time::Duration;

/// How often a yes may be used without asking again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Quota {
    /// Whose it is: requests with the same one count together.
    pub(super) name: Box<str>,
    pub(super) rate: Rate,
}

/// How long an answer may be remembered, by what its `Cache-Control` says (RFC 9111 §5.2.2); `most` where it
/// says nothing of that.
pub(super) fn lifetime(answer: &Fields, most: Duration) -> Duration {
    let Some(line) = answer.joined("cache-control") else { return most };
    let line = String::from_utf8_lossy(&line).to_ascii_lowercase();
    let directives = line.split(',').map(str::trim);
    directives.fold(most, |lifetime, directive| match directive.split_once('=') {
        None if directive == "no-store" => Duration::ZERO,
        Some(("max-age", text)) => {
            // What cannot be read says nothing.
            let seconds = text.trim_matches('"').parse().map(Duration::from_secs);
            seconds.map_or(lifetime, |seconds| seconds.min(lifetime))
        }
        _ => lifetime,
    })
}

/// Which places at a server a request needs one of, and how it shares them with others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Share {
    /// The server's name.
    pub(super) server: Box<str>,
    /// How many places there are.
    pub(super) places: u32,
    /// Who takes one.
    pub(super) member: Box<str>,
    /// How many as much as others it is due.
    pub(super) weight: u32,
}

/// What an answer says of places: `"detector";places=64;member="partner";weight=2`. A weight is one where it
/// is not there; nothing is meant by what cannot be read.
pub(super) fn share(line: &str) -> Option<Share> {
    let (server, parameters) = quoted(line)?;
    let value = |key| parameter(parameters, key);
    let member = value("member").map_or(Some(""), |text| Some(quoted(text)?.0))?;
    Some(Share {
        server: server.into(),
        places: value("places")?.parse().ok().filter(|places| *places > 0)?,
        member: member.into(),
        weight: value("weight").map_or(Some(1), |text| text.parse().ok())?,
    })
}

/// A text in quotes, and what is behind it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim().strip_prefix('"')?.split_once('"')
}

/// The value of a parameter behind a `;`.
fn parameter<'a>(parameters: &'a str, key: &str) -> Option<&'a str> {
    let mut all = parameters.split(';').map(str::trim);
    all.find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The first policy of an answer (draft-ietf-httpapi-ratelimit-headers-10 §3): `"name";q=50;w=1`.
pub(super) fn quota(answer: &Fields) -> Option<Quota> {
    let line = answer.get_str("ratelimit-policy")?;
    let (name, parameters) = quoted(line)?;
    let first = parameters.split(',').next().unwrap_or_default();
    let number = |key| parameter(first, key)?.parse().ok();
    let rate = Rate::of(number("q")?, Duration::from_secs(number("w")?)).ok()?;
    Some(Quota { name: name.into(), rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str, value: &str) -> Fields {
        let mut fields = Fields::default();
        fields.append(name, value);
        fields
    }

    #[test]
    fn a_yes_holds_as_long_as_it_says_and_no_longer_than_is_configured() {
        let most = Duration::from_secs(30);
        for (text, seconds) in [
            ("private", 30),
            ("private, max-age=10", 10),
            ("max-age=600", 30),
            ("Max-Age=\"5\"", 5),
            ("max-age=x", 30),
            ("private, No-Store", 0),
            ("max-age=10, no-store", 0),
        ] {
            let found = lifetime(&fields("Cache-Control", text), most);
            assert_eq!(found, Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(lifetime(&Fields::default(), most), most);
    }

    #[test]
    fn a_share_says_of_what_and_whose_it_is() {
        let found = share("\"detector\"; places=64;member=\"partner\";weight=2").unwrap();
        let (server, member) = ("detector".into(), "partner".into());
        assert_eq!(found, Share { server, places: 64, member, weight: 2 });
        assert_eq!(share("\"a\";places=1").unwrap().weight, 1);
        for text in [
            "",
            "a;places=1",
            "\"a\"",
            "\"a\";places=0",
            "\"a\";places=-1",
            "\"a\";places=1;member=b",
            "\"a\";places=1;weight=x",
        ] {
            assert_eq!(share(text), None, "{text}");
        }
    }

    #[test]
    fn a_quota_is_the_first_policy() {
        let of = |text: &str| quota(&fields("RateLimit-Policy", text));
        let found = of("\"viewer:detector\";q=50;w=1, \"other\";q=1;w=9").unwrap();
        assert_eq!(&*found.name, "viewer:detector");
        assert_eq!(found.rate, Rate::parse("50/s", None).unwrap());
        for text in ["", "viewer;q=50;w=1", "\"viewer\";q=50", "\"viewer\";q=0;w=1", "\"viewer"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}

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

/// The first policy of an answer (draft-ietf-httpapi-ratelimit-headers-10 §3): `"name";q=50;w=1`.
pub(super) fn quota(answer: &Fields) -> Option<Quota> {
    let line = answer.get_str("ratelimit-policy")?;
    let (name, parameters) = line.strip_prefix('"')?.split_once('"')?;
    let first = parameters.split(',').next().unwrap_or_default();
    let number = |key: &str| -> Option<u64> {
        first
            .split(';')
            .find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
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

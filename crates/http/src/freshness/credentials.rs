//! What in a request says whom its response is for.

use crate::cookie;
use crate::fields::Fields;

/// Fields and cookies beside `Authorization` that say who asks: what they bring is kept for others as what that brings
/// is (RFC 9111 §3.5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credentials {
    /// Names of fields.
    pub fields: Vec<String>,
    /// Names of cookies.
    pub cookies: Vec<String>,
}

impl Credentials {
    /// Whether a request has any of them, or `Authorization`.
    pub fn are_in(of: Option<&Self>, request: &Fields) -> bool {
        let has_own = |own: &Self| {
            let is_own =
                |pair| own.cookies.iter().any(|name| cookie::value_of(pair, name).is_some());
            let pairs = || request.get_all("cookie").flat_map(cookie::pairs);
            own.fields.iter().any(|name| request.contains(name))
                || (!own.cookies.is_empty() && pairs().any(is_own))
        };
        request.contains("Authorization") || of.is_some_and(has_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_cookies_say_who_asks() {
        let own = Credentials { fields: vec!["X-Tok".into()], cookies: vec!["tok".into()] };
        for (name, value, is_one, is_own) in [
            ("authorization", "Bearer x", true, true),
            ("x-tok", "x", false, true),
            ("Cookie", "a=1; tok=2", false, true),
            ("Cookie", "a=1; token=2; b=tok=1", false, false),
            ("Accept", "tok=1", false, false),
        ] {
            let request: Fields = [(name, value)].into_iter().collect();
            let found = [None, Some(&own)].map(|of| Credentials::are_in(of, &request));
            assert_eq!(found, [is_one, is_own], "{name}: {value}");
        }
    }
}

//! Tokens that are not good any more.

use crate::denied::Denied;
use crate::verifier::Granted;
use std::collections::HashSet;

/// What editors put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Tokens that are not good any more.
#[derive(Debug, Default)]
pub struct Revoked {
    said: HashSet<Box<str>>,
    /// Whether ids are hexadecimal, in which case does not count.
    is_hex: bool,
}

impl Revoked {
    /// Reads a list: in each line an id (`jti`, `id`), or all tokens of a subject, as `sub:NAME`. Lines that begin with
    /// `#` are for people.
    pub fn read(text: &str) -> Self {
        let lines = text.trim_start_matches(BYTE_ORDER_MARK).lines().map(str::trim);
        let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
        Self { said: lines.filter(is_said).map(Into::into).collect(), is_hex: false }
    }

    /// The same with ids in hexadecimal, as those of Common Access Tokens are (`cti`).
    #[must_use]
    pub fn of_hex_ids(self) -> Self {
        let id = |line: Box<str>| match line.starts_with(SUBJECT) {
            true => line,
            false => line.to_ascii_lowercase().trim_start_matches("0x").into(),
        };
        Self { said: self.said.into_iter().map(id).collect(), is_hex: true }
    }

    /// Lines that look like something else than an id or a subject: a remark behind an id, several ids, an id that is
    /// not hexadecimal.
    pub fn odd(&self) -> impl Iterator<Item = &str> {
        let is_odd = |line: &&str| match line.strip_prefix(SUBJECT) {
            Some(name) => name.trim().len() != name.len(),
            None => {
                let is_hex = || line.bytes().all(|byte| byte.is_ascii_hexdigit());
                line.contains([' ', '\t', ',']) || (self.is_hex && !is_hex())
            }
        };
        self.said.iter().map(|line| &**line).filter(is_odd)
    }

    /// What lets in, unless its token is one of these.
    ///
    /// # Errors
    /// [`Denied::Revoked`].
    pub(crate) fn admit(&self, granted: Granted) -> Result<Granted, Denied> {
        let grant = &granted.grant;
        let has = |text: &str| self.said.contains(text);
        let is_one = !self.said.is_empty()
            && (grant.id.as_deref().is_some_and(has)
                || grant.subject.as_deref().is_some_and(|name| has(&format!("{SUBJECT}{name}"))));
        if is_one { Err(Denied::Revoked) } else { Ok(granted) }
    }
}

/// Before the name of a subject.
const SUBJECT: &str = "sub:";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verifier::Grant;

    fn is_revoked(revoked: &Revoked, id: Option<&str>, subject: Option<&str>) -> bool {
        let grant =
            Grant { id: id.map(Into::into), subject: subject.map(Into::into), ..Grant::default() };
        revoked.admit(grant.into()).is_err()
    }

    #[test]
    fn ids_and_subjects_are_told_line_by_line() {
        let revoked = Revoked::read("\u{feff}J1\r\n\n# why\n  my id \nsub:bob\n");
        for (id, subject, wanted) in [
            (Some("J1"), None, true),
            (Some("j1"), None, false),
            (Some("my id"), None, true),
            (Some("# why"), None, false),
            (None, Some("bob"), true),
            (Some("bob"), None, false),
            (Some("sub:bob"), None, true),
            (None, None, false),
        ] {
            assert_eq!(is_revoked(&revoked, id, subject), wanted, "{id:?} {subject:?}");
        }
        assert_eq!(revoked.odd().collect::<Vec<_>>(), ["my id"]);
    }

    #[test]
    fn ids_in_hexadecimal_are_the_same_in_either_case() {
        let revoked = Revoked::read("ABCD\n0x12ef\nsub:Bob\nxyz\nsub: Eve\n").of_hex_ids();
        assert!(is_revoked(&revoked, Some("abcd"), None));
        assert!(is_revoked(&revoked, Some("12ef"), None));
        assert!(is_revoked(&revoked, None, Some("Bob")));
        assert!(!is_revoked(&revoked, None, Some("bob")));
        let mut odd: Vec<_> = revoked.odd().collect();
        odd.sort_unstable();
        assert_eq!(odd, ["sub: Eve", "xyz"]);
    }
}

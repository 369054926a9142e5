//! Variables of playlists (draft-pantos-hls-rfc8216bis §4.3 and §4.4.2.3).

use super::attributes::attribute;
use crate::error::Unreadable;
use crate::limits::{MANIFEST_BYTES_MAX, REFERENCE_BYTES_MAX, VARIABLES_MAX};

/// What names stand for in a playlist.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variables(Vec<(Box<str>, Box<str>)>);

/// Where a playlist may take variables from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// The query it was asked for with, without the `?`.
    pub query: &'a str,
    /// What the multivariant playlist defines that names it, where that is known.
    pub imported: Option<&'a Variables>,
}

impl Variables {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of names and of what they stand for.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// What a name stands for.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// Takes over what an `EXT-X-DEFINE` says. One that makes no sense, or of a name that is there,
    /// defines nothing.
    fn define(&mut self, attributes: &str, given: &Given<'_>) {
        let of = |name| attribute(attributes, name);
        let defined = match (of("NAME"), of("IMPORT"), of("QUERYPARAM")) {
            (Some(name), None, None) => of("VALUE").map(|value| (name, value.into())),
            (None, Some(name), None) => given
                .imported
                .and_then(|variables| variables.value(name))
                .map(|value| (name, value.into())),
            (None, None, Some(name)) => parameter(given.query, name).map(|value| (name, value)),
            _ => None,
        };
        if let Some((name, value)) = defined
            && self.0.len() < VARIABLES_MAX
            && value.len() <= REFERENCE_BYTES_MAX
            && self.value(name).is_none()
        {
            self.0.push((name.into(), value.into()));
        }
    }

    /// Appends `line` with what its references `{$name}` stand for. One to nothing stays as it is. O(length
    /// of what is appended): no byte is looked at again behind a reference that is none.
    ///
    /// # Errors
    /// [`Unreadable::OriginTooLong`], with one value more than there is room for at most.
    fn put_in(&self, line: &str, out: &mut String) -> Result<(), Unreadable> {
        let mut parts = line.split("{$");
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let named = name_in(part).and_then(|(name, behind)| Some((self.value(name)?, behind)));
            let (value, behind) = named.unwrap_or(("{$", part));
            out.push_str(value);
            out.push_str(behind);
            if out.len() > MANIFEST_BYTES_MAX {
                break;
            }
        }
        if out.len() > MANIFEST_BYTES_MAX { Err(Unreadable::OriginTooLong) } else { Ok(()) }
    }
}

/// The text of a playlist with what its variables stand for, and these; `None` where it defines none.
///
/// # Errors
/// [`Unreadable::OriginTooLong`]
pub(super) fn expanded(
    text: &str,
    given: &Given<'_>,
) -> Result<Option<(String, Variables)>, Unreadable> {
    const DEFINE: &str = "#EXT-X-DEFINE:";
    if !text.contains(DEFINE) {
        return Ok(None);
    }
    let mut variables = Variables::default();
    let mut out = String::with_capacity(text.len());
    let mut definitions_left = VARIABLES_MAX;
    for line in text.split_inclusive('\n') {
        let start = out.len();
        variables.put_in(line, &mut out)?;
        // What is defined may refer to what was defined before. Those that define nothing count as well: each
        // may have had all of a query looked at.
        if definitions_left > 0
            && let Some(attributes) = out.get(start..).and_then(|line| line.strip_prefix(DEFINE))
        {
            definitions_left -= 1;
            variables.define(attributes.trim_ascii_end(), given);
        }
    }
    Ok(Some((out, variables)))
}

/// The name that `text` begins with, of letters, digits, `-` and `_`, and what is behind its brace.
fn name_in(text: &str) -> Option<(&str, &str)> {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let end = text.bytes().position(|byte| !is_of_names(byte))?;
    let (name, behind) = text.split_at_checked(end)?;
    Some((name, behind.strip_prefix('}')?))
}

/// The value of a parameter, without its encoding.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(known, _)| *known == name)?;
    let mut room = vec![0; value.len()];
    crate::cmcd::decoded(value, &mut room).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, given: &Given<'_>) -> String {
        expanded(text, given).unwrap().unwrap().0
    }

    #[test]
    fn references_become_what_they_stand_for() {
        let text = "#EXTM3U\n#EXT-X-DEFINE:NAME=\"host\",VALUE=\"https://a.example\"\r\n\
                    #EXT-X-DEFINE:NAME=\"path\",VALUE=\"{$host}/v\"\n\
                    #EXT-X-MAP:URI=\"{$path}/i.mp4\"\n{$path}/1.ts\n{$other}/{$path\n{${$host}\n";
        let want = "#EXT-X-MAP:URI=\"https://a.example/v/i.mp4\"\nhttps://a.example/v/1.ts\n\
                    {$other}/{$path\n{$https://a.example\n";
        assert!(of(text, &Given::default()).ends_with(want), "{}", of(text, &Given::default()));
        assert!(expanded("#EXTM3U\n{$a}\n", &Given::default()).unwrap().is_none());
    }

    #[test]
    fn variables_come_from_the_query_and_from_the_playlist_that_names_this_one() {
        let above = "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"1\"\n";
        let (_, above) = expanded(above, &Given::default()).unwrap().unwrap();
        let given = Given { query: "t=x%2Fy&u=&t=z&v", imported: Some(&above) };
        let text = "#EXT-X-DEFINE:IMPORT=\"a\"\n#EXT-X-DEFINE:QUERYPARAM=\"t\"\n\
                    #EXT-X-DEFINE:QUERYPARAM=\"none\"\n#EXT-X-DEFINE:IMPORT=\"none\"\n\
                    #EXT-X-DEFINE:NAME=\"a\",VALUE=\"2\"\n#EXT-X-DEFINE:NAME=\"x\"\n\
                    #EXT-X-DEFINE:NAME=\"y\",IMPORT=\"a\"\n{$a}{$t}{$none}{$x}{$y}\n";
        assert!(of(text, &given).ends_with("\n1x/y{$none}{$x}{$y}\n"));
    }

    #[test]
    fn what_stands_for_more_and_more_is_bounded() {
        let mut text = "#EXT-X-DEFINE:NAME=\"0\",VALUE=\"xxxxxxxxxxxxxxxx\"\n".to_owned();
        for at in 1..60 {
            let before = format!("{{${}}}", at - 1).repeat(4);
            text += &format!("#EXT-X-DEFINE:NAME=\"{at}\",VALUE=\"{before}\"\n");
        }
        let (out, variables) = expanded(&text, &Given::default()).unwrap().unwrap();
        assert!(out.len() < 1 << 20 && variables.value("58").is_some());
        let many = "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"".to_owned()
            + &"x".repeat(REFERENCE_BYTES_MAX)
            + "\"\n"
            + &"{$a}\n".repeat(1000);
        assert_eq!(expanded(&many, &Given::default()), Err(Unreadable::OriginTooLong));
        // In one line as well, of which no more is made than there is room for.
        let line = "{$a}".repeat(100_000);
        let variables = Variables(vec![("a".into(), "x".repeat(REFERENCE_BYTES_MAX).into())]);
        let mut out = String::new();
        assert_eq!(variables.put_in(&line, &mut out), Err(Unreadable::OriginTooLong));
        assert!(out.len() <= MANIFEST_BYTES_MAX + REFERENCE_BYTES_MAX);
        // What begins as a reference and is none is looked at once, wherever the next brace is.
        let open = "{$".repeat(MANIFEST_BYTES_MAX / 2 - 1) + "}";
        out.clear();
        variables.put_in(&open, &mut out).unwrap();
        assert!(out == open);
        let names: String =
            (0..1000).map(|at| format!("#EXT-X-DEFINE:NAME=\"{at}\",VALUE=\"\"\n")).collect();
        let (_, variables) = expanded(&names, &Given::default()).unwrap().unwrap();
        assert_eq!(variables.0.len(), VARIABLES_MAX);
        let late = "#EXT-X-DEFINE:QUERYPARAM=\"none\"\n".repeat(VARIABLES_MAX)
            + "#EXT-X-DEFINE:NAME=\"late\",VALUE=\"\"\n";
        assert!(expanded(&late, &Given::default()).unwrap().unwrap().1.is_empty());
    }
}

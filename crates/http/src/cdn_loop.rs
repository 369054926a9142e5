//! `CDN-Loop` (RFC 8586): which caches a request has been through.
//!
//! ```text
//! CDN-Loop = #cdn-info
//! cdn-info = cdn-id *( OWS ";" OWS parameter )
//! cdn-id   = ( uri-host [ ":" port ] ) / pseudonym
//! ```

use crate::fields::{Fields, is_token_byte};

/// What the field says of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CdnLoop {
    /// The request has not been here.
    New,
    /// A member has the node's own name.
    Again,
    /// The field is not what RFC 8586 says. What is appended to it may be part of a string that
    /// somebody left open, so it cannot tell a loop.
    Malformed,
}

/// Looks for `own` among the members of all lines, without regard to case.
pub fn check(request: &Fields, own: &[u8]) -> CdnLoop {
    let mut found = CdnLoop::New;
    for line in request.get_all("CDN-Loop") {
        let mut rest = line;
        while let Some((id, after)) = member(rest) {
            if id.eq_ignore_ascii_case(own) {
                found = CdnLoop::Again;
            }
            rest = after;
        }
        if !rest.is_empty() {
            return CdnLoop::Malformed;
        }
    }
    found
}

/// The name of the first member and what comes behind its comma; `None` at the end, and before
/// what is no member.
fn member(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // A recipient takes empty members (RFC 9110 §5.6.1.2).
    let (id, mut rest) = take(text, is_id_byte);
    loop {
        rest = rest.trim_ascii_start();
        rest = match rest.split_first() {
            Some((b';', after)) if !id.is_empty() => parameter(after.trim_ascii_start())?,
            Some((b',', after)) => return Some((id, after.trim_ascii_start())),
            None if !id.is_empty() => return Some((id, rest)),
            _ => return None,
        };
    }
}

/// What comes behind `name=token` or `name="string"`.
fn parameter(text: &[u8]) -> Option<&[u8]> {
    let (name, rest) = take(text, is_token_byte);
    let value = rest.strip_prefix(b"=").filter(|_| !name.is_empty())?;
    let Some(mut string) = value.strip_prefix(b"\"") else {
        let (token, rest) = take(value, is_token_byte);
        return Some(rest).filter(|_| !token.is_empty());
    };
    loop {
        string = match string {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
            [] => return None,
        };
    }
}

fn take(text: &[u8], is_part: fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !is_part(*byte)).unwrap_or(text.len());
    text.split_at(end)
}

/// Bytes of a token, or of a host and a port.
fn is_id_byte(byte: u8) -> bool {
    is_token_byte(byte) || b":[]()=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> CdnLoop {
        let fields = lines.iter().map(|line| ("cdn-loop", line)).collect();
        check(&fields, b"me")
    }

    #[test]
    fn the_own_name_is_found_wherever_it_is() {
        for lines in [
            &["me"][..],
            &["ME"],
            &["foo123.foocdn.example, barcdn.example; trace=\"abcdef\", me"],
            &["a, me;x=y"],
            &["a", "b , me ; q=\"1\\\", x\""],
            &["[2001:db8::1]:443, ,me"],
        ] {
            assert_eq!(of(lines), CdnLoop::Again, "{lines:?}");
        }
    }

    #[test]
    fn others_are_others() {
        for lines in
            [&[][..], &[""], &["meme"], &["a;me=1"], &["a; x=\"me, me\"", "b:80"], &[" , "]]
        {
            assert_eq!(of(lines), CdnLoop::New, "{lines:?}");
        }
    }

    #[test]
    fn what_could_hide_a_member_is_malformed() {
        for lines in [
            &["a;x=\", me"][..],
            &["a;x=\"\\\", me"],
            &["a b, me"],
            &["a;x, me"],
            &["a;=1"],
            &[";x=1"],
            &["a;x=\"1\"2"],
            &["\"me\""],
        ] {
            assert_eq!(of(lines), CdnLoop::Malformed, "{lines:?}");
        }
    }
}

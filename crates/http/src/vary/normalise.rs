//! One form for values that mean the same. Nothing here allocates but for the growth of `out`.

use crate::coding::weight_of;
use crate::fields::Fields;

/// Members of a weighted list that are sorted; longer lists keep their order, which costs hits and
/// nothing else.
const WEIGHTED_MEMBERS_MAX: usize = 24;

/// Weight 1 in the thousandths that RFC 9110 §12.4.2 allows.
const FULL_WEIGHT: u16 = 1000;

/// Marks a key as "the language of the response". No language range begins so.
const SELECTED: &[u8] = b"=";

/// All lines as one list, without white space around its commas and without empty members. Commas
/// inside quoted strings are left alone.
pub(super) fn list<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, member) in lines.flat_map(|line| Members { rest: line }).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(member);
    }
}

/// A list whose order does not matter, with weights, such as `Accept-Encoding`.
pub(super) fn weighted(request: &Fields, name: &str, out: &mut Vec<u8>) {
    let mut members = [Member::default(); WEIGHTED_MEMBERS_MAX];
    match collect(request, name, &mut members) {
        Some(members) => write_sorted(members, out),
        None => list(request.get_all(name), out),
    }
}

/// `Accept-Language`, where the response may be in a known language: then all requests that like
/// that language best have the same form.
pub(super) fn languages(request: &Fields, language: Option<&[u8]>, out: &mut Vec<u8>) {
    let mut members = [Member::default(); WEIGHTED_MEMBERS_MAX];
    let Some(members) = collect(request, "accept-language", &mut members) else {
        return list(request.get_all("accept-language"), out);
    };
    let best = members.iter().map(|member| member.weight).max().unwrap_or(0);
    let selected = language.filter(|language| {
        members.iter().any(|member| {
            member.weight == best && best > 0 && member.name.eq_ignore_ascii_case(language)
        })
    });
    match selected {
        Some(language) => {
            out.extend_from_slice(SELECTED);
            out.extend_from_slice(language);
        }
        None => write_sorted(members, out),
    }
}

#[derive(Clone, Copy, Default)]
struct Member<'a> {
    name: &'a [u8],
    weight: u16,
}

/// The members of a weighted list; `None` where one cannot be understood or there are too many.
fn collect<'a, 'b>(
    request: &'a Fields,
    name: &'a str,
    room: &'b mut [Member<'a>],
) -> Option<&'b mut [Member<'a>]> {
    let mut len = 0;
    for text in request.tokens(name) {
        *room.get_mut(len)? = parse_member(text)?;
        len += 1;
    }
    room.get_mut(..len)
}

fn parse_member(text: &[u8]) -> Option<Member<'_>> {
    let Some(at) = text.iter().position(|byte| *byte == b';') else {
        return Some(Member { name: text, weight: FULL_WEIGHT });
    };
    let (name, rest) = text.split_at_checked(at)?;
    let value = rest.get(1..)?.trim_ascii();
    let value = value.strip_prefix(b"q=").or_else(|| value.strip_prefix(b"Q="))?;
    Some(Member { name: name.trim_ascii_end(), weight: weight_of(value)? })
}

fn write_sorted(members: &mut [Member<'_>], out: &mut Vec<u8>) {
    let lower = |name: &[u8], at: usize| name.get(at).map(u8::to_ascii_lowercase);
    members.sort_unstable_by(|a, b| {
        let a_bytes = (0..a.name.len()).map(|at| lower(a.name, at));
        let b_bytes = (0..b.name.len()).map(|at| lower(b.name, at));
        a_bytes.cmp(b_bytes).then(a.weight.cmp(&b.weight))
    });
    for (at, member) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(member.name.iter().map(u8::to_ascii_lowercase));
        if member.weight != FULL_WEIGHT {
            out.push(b';');
            let digits = [member.weight / 100, member.weight / 10 % 10, member.weight % 10];
            out.extend(digits.map(|digit| b'0' + u8::try_from(digit).unwrap_or(0)));
        }
    }
}

/// Members of a comma-separated list that may have quoted strings in it; empty ones left out.
struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let (mut quoted, mut escaped) = (false, false);
            let end = self.rest.iter().position(|byte| {
                let ends = *byte == b',' && !quoted;
                quoted ^= *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && quoted && !escaped;
                ends
            });
            let (member, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest.split_first().map_or(rest, |(_, rest)| rest);
            let member = member.trim_ascii();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

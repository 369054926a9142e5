//! One form for values that mean the same. Nothing here allocates but for the growth of `out`.

use crate::coding::weight_of;
use crate::fields::Fields;

/// Members of a weighted list that are sorted; longer lists stay as they are, which costs hits and
/// nothing else.
const WEIGHTED_MEMBERS_MAX: usize = 24;

/// Weight 1 in the thousandths that RFC 9110 §12.4.2 allows.
const FULL_WEIGHT: u16 = 1000;

/// Marks a key as "the language of the response". No language range begins so.
const SELECTED: &[u8] = b"=";

/// All lines as one (RFC 9110 §5.3), with all that is in them.
pub(super) fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, line) in lines.enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(line);
    }
}

/// `Accept-Encoding`, whose order does not matter.
pub(super) fn codings(request: &Fields, out: &mut Vec<u8>) {
    let mut members = [Member::default(); WEIGHTED_MEMBERS_MAX];
    let Some(members) = collect(request, "accept-encoding", &mut members) else {
        return joined(request.get_all("accept-encoding"), out);
    };
    let lower = |name: &[u8], at: usize| name.get(at).map(u8::to_ascii_lowercase);
    members.sort_unstable_by(|a, b| {
        let a_bytes = (0..a.name.len()).map(|at| lower(a.name, at));
        let b_bytes = (0..b.name.len()).map(|at| lower(b.name, at));
        a_bytes.cmp(b_bytes).then(a.weight.cmp(&b.weight))
    });
    write(members, out);
}

/// `Accept-Language`, where the response may be in a known language: then all requests that like
/// that language best have the same form. Of languages with the same weight the first may be meant
/// (RFC 9110 §12.5.4), so their order stays.
pub(super) fn languages(request: &Fields, language: Option<&[u8]>, out: &mut Vec<u8>) {
    let mut members = [Member::default(); WEIGHTED_MEMBERS_MAX];
    let Some(members) = collect(request, "accept-language", &mut members) else {
        return joined(request.get_all("accept-language"), out);
    };
    // An insertion sort: it is stable, in place, and lists are short.
    for at in 1..members.len() {
        let place = members[..at].partition_point(|known| known.weight >= members[at].weight);
        members[place..=at].rotate_right(1);
    }
    let best = members.first().filter(|member| member.weight > 0);
    let selected =
        language.filter(|language| best.is_some_and(|it| it.name.eq_ignore_ascii_case(language)));
    match selected {
        Some(language) => {
            out.extend_from_slice(SELECTED);
            out.extend_from_slice(language);
        }
        None => write(members, out),
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

fn write(members: &[Member<'_>], out: &mut Vec<u8>) {
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

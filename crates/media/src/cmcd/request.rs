//! Where a request says it.

use super::{BYTES_MAX, Cmcd, decoded, read};
use freshet_http::fields::Fields;
use freshet_http::unkeyed;

/// The query parameter, with what is between it and its value.
const PARAMETER: &str = "CMCD=";

/// Whether a request for `target` with these fields says something: looked at for each. O(its head).
pub fn is_said(target: &str, fields: &Fields) -> bool {
    parameter(target).is_some() || fields.iter().any(|(name, _)| unkeyed::is_cmcd(name))
}

/// What follows from all that a request for `target` with these fields says; `None` where it says nothing. O(its head).
pub fn of<T>(target: &str, fields: &Fields, look: impl FnOnce(&Cmcd<'_>) -> T) -> Option<T> {
    if !is_said(target, fields) {
        return None;
    }
    let (mut room, mut known) = ([0; BYTES_MAX], Cmcd::default());
    read(said(target, fields, &mut room)?, &mut known);
    Some(look(&known))
}

/// All that a request for `target` says, as one text for [`read`](super::read): its fields one after
/// the other and the query parameter without its encoding, as far as there is `room`. `None` where it
/// says nothing that is text.
pub fn said<'a>(target: &str, fields: &Fields, room: &'a mut [u8; BYTES_MAX]) -> Option<&'a str> {
    let mut length = 0;
    for (_, value) in fields.iter().filter(|(name, _)| unkeyed::is_cmcd(name)) {
        let end = length + value.len() + 1;
        if let Some([place @ .., comma]) = room.get_mut(length..end)
            && std::str::from_utf8(value).is_ok()
        {
            place.copy_from_slice(value);
            *comma = b',';
            length = end;
        }
    }
    if let Some(value) = parameter(target)
        && let Some(rest) = room.get_mut(length..)
    {
        length += decoded(value, rest).map_or(0, str::len);
    }
    let text = std::str::from_utf8(room.get(..length)?).ok()?.trim_end_matches(',');
    (!text.is_empty()).then_some(text)
}

/// The value of the query parameter, as it is written.
fn parameter(target: &str) -> Option<&str> {
    let (_, query) = target.split_once('?')?;
    if !query.contains(PARAMETER) {
        return None;
    }
    query.split('&').find_map(|one| one.strip_prefix(PARAMETER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, fields: &[(&str, &str)]) -> Option<String> {
        let (fields, mut room) = (fields.iter().copied().collect(), [0; BYTES_MAX]);
        let text = said(target, &fields, &mut room).map(str::to_owned);
        assert!(is_said(target, &fields) || text.is_none());
        text
    }

    #[test]
    fn fields_and_query_are_one_text() {
        let fields = [("CMCD-Request", "bl=1"), ("Accept", "a"), ("cmcd-status", "bs")];
        assert_eq!(of("/a?CMCD=sid%3D%22x%22&b", &fields).as_deref(), Some("bl=1,bs,sid=\"x\""));
        assert_eq!(of("/a", &fields).as_deref(), Some("bl=1,bs"));
        assert_eq!(of("/a?b=1&CMCD=br%3D2", &[]).as_deref(), Some("br=2"));
        for nothing in ["/a", "/a?CMCD", "/a?CMCD=", "/a?xCMCD=bs", "/a?CMCD=%ff", "/CMCD=bs"] {
            assert_eq!(of(nothing, &[]), None, "{nothing}");
        }
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let long = "x".repeat(BYTES_MAX);
        let fields = [("CMCD-Object", &long[..]), ("CMCD-Request", "bl=1")];
        assert_eq!(of("/a", &fields).as_deref(), Some("bl=1"));
        let query = format!("/a?CMCD=br%3D7%2C{long}");
        assert_eq!(of(&query, &fields[1..]).as_deref(), Some("bl=1,br=7"));
    }
}

//! Fields of a message as records have them: a line each, `Name: value`, for few requests need any.

use freshet_http::fields::Fields;
use freshet_http::message::RequestHead;

/// Bytes of one value that are logged.
const VALUE_BYTES_MAX: usize = 1024;

/// Those of these names that are there, with all lines of each in one.
pub fn logged(names: &[Box<str>], fields: &Fields) -> String {
    lines(names, |name| fields.joined(name.as_bytes()))
}

/// The same of a request, whose host is no field any more.
pub fn logged_of(names: &[Box<str>], head: &RequestHead) -> String {
    lines(names, |name| match head.authority.as_bytes() {
        host @ [_, ..] if name.eq_ignore_ascii_case("host") => Some(host.to_vec()),
        _ => head.fields.joined(name.as_bytes()),
    })
}

fn lines(names: &[Box<str>], value: impl Fn(&str) -> Option<Vec<u8>>) -> String {
    let mut out = String::new();
    for name in names {
        let Some(value) = value(name) else { continue };
        let value = &value[..value.len().min(VALUE_BYTES_MAX)];
        out.push_str(name);
        out.push_str(": ");
        out.push_str(&String::from_utf8_lossy(value));
        out.push('\n');
    }
    out
}

/// Names and values of such a text.
pub(super) fn all(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('\n').filter_map(|line| line.split_once(": "))
}

/// The value of one name; nothing where it is not there.
pub(super) fn one<'a>(text: &'a str, name: &str) -> &'a str {
    all(text).find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_by_its_name_and_cut() {
        let long = "x".repeat(5000);
        let fields: Fields = [("x-id", "a: b"), ("Via", "one"), ("Via", "two"), ("Long", &*long)]
            .into_iter()
            .collect();
        let text = logged(&["X-Id".into(), "none".into(), "via".into(), "Long".into()], &fields);
        let found: Vec<_> = all(&text).collect();
        assert_eq!(found[..2], [("X-Id", "a: b"), ("via", "one, two")]);
        assert_eq!((found.len(), found[2].1.len()), (3, VALUE_BYTES_MAX));
        assert_eq!((one(&text, "VIA"), one(&text, "none"), one("", "x")), ("one, two", "", ""));
    }
}

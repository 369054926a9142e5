//! Templates of references (ISO/IEC 23009-1 §5.3.9.4.4): `$Number%05d$` and what else there is.

/// Most digits a number is padded to.
const WIDTH_MAX: usize = 20;

/// `template` with `$name$` and `$name%05d$` replaced by `value`.
pub(super) fn expand(template: &str, name: &str, value: u64) -> String {
    let mut expanded = String::with_capacity(template.len() + 8);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let Some((identifier, after)) = after.split_once('$') else {
            expanded.push('$');
            rest = after;
            continue;
        };
        match width(identifier, name) {
            Some(width) => expanded.push_str(&format!("{value:0width$}")),
            None => {
                expanded.push('$');
                expanded.push_str(identifier);
                expanded.push('$');
            }
        }
        rest = after;
    }
    expanded.push_str(rest);
    expanded
}

/// The reference of the segment with this number or time, of a template of one place: `$$` is a dollar sign.
pub fn segment(template: &str, value: u64) -> String {
    expand(&expand(template, "Number", value), "Time", value).replace("$$", "$")
}

/// How many digits `identifier` has at least, where it is `name`.
fn width(identifier: &str, name: &str) -> Option<usize> {
    let format = identifier.strip_prefix(name)?;
    let digits = if format.is_empty() { "1" } else { format.strip_prefix("%0")? };
    // Players read `%0d` as no width.
    let digits = if digits == "d" { "1" } else { digits };
    let width = digits.trim_end_matches('d').parse::<usize>().ok()?;
    (width <= WIDTH_MAX).then_some(width)
}

/// Whether `text` is what `template` stands for with some number in each of its places: `$Number$`,
/// `$Time$` and `$SubNumber$` are digits, `$$` is a dollar sign, and anything else is itself. O(length).
pub fn matches(template: &str, text: &str) -> bool {
    walk(template, text, |_| {})
}

/// The number in the only place of `template` that `text` has one for; `None` where it is not what that
/// stands for, or has several, or one that is no 64-bit number. O(length).
pub fn value(template: &str, text: &str) -> Option<u64> {
    let (mut found, mut places) = (None, 0);
    let is_one = walk(template, text, |digits| {
        places += 1;
        found = digits.parse().ok();
    });
    found.filter(|_| is_one && places == 1)
}

/// Shows the digits in each of the places.
fn walk(template: &str, text: &str, mut see: impl FnMut(&str)) -> bool {
    let (mut rest, mut text) = (template, text);
    while let Some((before, after)) = rest.split_once('$') {
        let Some(behind) = text.strip_prefix(before) else { return false };
        let Some((identifier, after)) = after.split_once('$') else { return false };
        if identifier.is_empty() {
            let Some(behind) = behind.strip_prefix('$') else { return false };
            text = behind;
        } else {
            let is_number = ["Number", "Time", "SubNumber"]
                .iter()
                .any(|name| width(identifier, name).is_some());
            let count = behind.bytes().take_while(u8::is_ascii_digit).count();
            if !is_number || count == 0 || count > WIDTH_MAX {
                return false;
            }
            let (digits, behind) = behind.split_at(count);
            see(digits);
            text = behind;
        }
        rest = after;
    }
    rest == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_as_asked() {
        assert_eq!(expand("a/$Number$.m4s", "Number", 41), "a/41.m4s");
        assert_eq!(expand("a/$Number%05d$.m4s", "Number", 41), "a/00041.m4s");
        assert_eq!(expand("$Time$-$Number$", "Number", 1), "$Time$-1");
        assert_eq!(expand("$Number%099d$", "Number", 1), "$Number%099d$");
        assert_eq!(expand("a$", "Number", 1), "a$");
        assert_eq!(segment("$$-v1-$Time%08d$.m4s", 216), "$-v1-00000216.m4s");
    }

    #[test]
    fn what_a_template_stands_for_matches_it() {
        for (template, text, is_one) in [
            ("/a/$Number$.m4s", "/a/41.m4s", true),
            ("/a/$Number%05d$.m4s", "/a/00041.m4s", true),
            ("/a/$Time$.m4s", "/a/98123.m4s", true),
            ("/a/$Time%0d$.m4s", "/a/98123.m4s", true),
            ("/a/$Number$_$SubNumber$.m4s", "/a/4_1.m4s", true),
            ("/a/$$/$Number$", "/a/$/1", true),
            ("/a/$Number$.m4s", "/a/init.m4s", false),
            ("/a/$Number$.m4s", "/a/.m4s", false),
            ("/a/$Number$.m4s", "/a/1.m4s?x", false),
            ("/a/$Number$.m4s", "/b/1.m4s", false),
            ("/a/$Other$.m4s", "/a/1.m4s", false),
            ("/a/$Number", "/a/1", false),
            ("/a", "/a", true),
        ] {
            assert_eq!(matches(template, text), is_one, "{template} {text}");
        }
    }

    #[test]
    fn the_number_in_a_text_is_read() {
        for (template, text, number) in [
            ("/a/$Number%05d$.m4s", "/a/00041.m4s", Some(41)),
            ("/$$/$Time$", "/$/98123", Some(98123)),
            ("/$Number$_$SubNumber$", "/4_1", None),
            ("/$Number$", "/99999999999999999999", None),
            ("/$Number$", "/x", None),
            ("/a", "/a", None),
        ] {
            assert_eq!(value(template, text), number, "{template} {text}");
        }
    }
}

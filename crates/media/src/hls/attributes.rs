//! Attribute lists (RFC 8216 §4.2).

/// The value of attribute `name` in a list, without its quotes. A list that is not well-formed has the
/// attributes before the place where it breaks.
pub fn attribute<'a>(mut list: &'a str, name: &str) -> Option<&'a str> {
    loop {
        let (key, rest) = list.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (value, rest) = quoted.split_once('"')?;
                (value, rest.strip_prefix(',').unwrap_or(rest))
            }
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        if key.trim() == name {
            return Some(value);
        }
        list = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::attribute;

    #[test]
    fn values_are_found_with_and_without_quotes() {
        let list = "BANDWIDTH=1,CODECS=\"avc1,mp4a\", AUDIO=\"a=b\",X=";
        assert_eq!(attribute(list, "BANDWIDTH"), Some("1"));
        assert_eq!(attribute(list, "CODECS"), Some("avc1,mp4a"));
        assert_eq!(attribute(list, "AUDIO"), Some("a=b"));
        assert_eq!(attribute(list, "X"), Some(""));
        assert_eq!(attribute(list, "b"), None);
        assert_eq!(attribute("A=\"open", "A"), None);
    }
}

//! The cookies of a request (RFC 6265 §5.4).

/// Those of a line of `Cookie`, each as `name=value`; without what is empty, and the white space around.
pub fn pairs(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

/// The value of one of this name; `None` where it is of another.
pub fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_pairs_and_a_name_is_whole() {
        let line = b" a=1;; tok=2 ;token=3; b=tok=4;tok";
        assert_eq!(pairs(line).count(), 5);
        let found: Vec<_> = pairs(line).filter_map(|pair| value_of(pair, "tok")).collect();
        assert_eq!(found, [b"2"]);
    }
}

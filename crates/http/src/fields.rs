//! The fields of a message, in order, with their names as they were written.
//!
//! One buffer holds line after line, each with its lengths before it, so that a head costs one allocation
//! however many fields it has. Look-ups walk it: messages are limited to some dozens of fields, where a
//! walk beats hashing.

use std::fmt;
use std::ops::Range;

/// An ordered list of field lines (RFC 9110 §5). Names compare without regard to case; several
/// lines may share a name.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Fields {
    /// Of each line the length of its name and that of its value, 16 bits each, then both. Of the few values
    /// that are longer than [`LONG`] the length is behind these, in 32 bits.
    text: Vec<u8>,
}

/// A line in the text.
#[derive(Clone, Copy)]
struct Line<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

/// The lines of a text.
struct Lines<'a>(&'a [u8]);

/// In the place of a value's length: that is as long or longer.
const LONG: u16 = u16::MAX;

/// Lengths of a line in the text: as many bytes as HTTP/1 writes around name and value.
const LENGTHS_BYTES: usize = 2 * size_of::<u16>();

impl Fields {
    /// An empty list; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty list with room for lines that take so many bytes where HTTP/1 writes them.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes) }
    }

    /// Where it lies in memory.
    pub fn memory(&self) -> &[u8] {
        &self.text
    }

    /// Adds a line at the end. The caller has checked name and value: nothing is escaped here.
    ///
    /// # Panics
    /// If the name is longer than 65,535 bytes or the value than 4 GiB: parsers limit both.
    pub fn append(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        let name_len = u16::try_from(name.len()).expect("field names are limited below 64 KiB");
        let value_len = u16::try_from(value.len()).unwrap_or(LONG);
        self.text.reserve(LENGTHS_BYTES + name.len() + value.len());
        self.text.extend_from_slice(&name_len.to_le_bytes());
        self.text.extend_from_slice(&value_len.to_le_bytes());
        if value_len == LONG {
            let len = u32::try_from(value.len()).expect("values are limited far below 4 GiB");
            self.text.extend_from_slice(&len.to_le_bytes());
        }
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
    }

    /// Replaces every line of this name by one at the place of the first, or adds one.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        let Some(first) = self.find(name) else { return self.append(name, value) };
        self.retain_lines(first.end, |line| !line.has_name(name));
        let end = self.text.len();
        self.append(name, value);
        let added = self.text.len() - end;
        self.text[first.start..].rotate_right(added);
        self.text.drain(first.start + added..first.end + added);
    }

    /// Removes every line of this name and returns how many there were.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> usize {
        let name = name.as_ref();
        self.retain(|line, _| !line.eq_ignore_ascii_case(name))
    }

    /// Removes every line of this name and of those that servers take for it ([`is_taken_for`]). For
    /// what only this node, or whom it asks, may say.
    pub fn remove_claims(&mut self, name: impl AsRef<[u8]>) -> usize {
        let name = name.as_ref();
        self.retain(|line, _| !is_taken_for(line, name))
    }

    /// Keeps the lines for which `keep(name, value)` is true; returns how many were removed.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        self.retain_lines(0, |line| keep(line.name, line.value))
    }

    /// Removes all lines and keeps the allocation.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// A copy that has no spare capacity: what a cache keeps.
    #[must_use]
    pub fn compact(&self) -> Self {
        self.clone_with_room(0)
    }

    /// A copy with room for more lines, which take so many bytes where HTTP/1 writes them.
    #[must_use]
    pub fn clone_with_room(&self, bytes: usize) -> Self {
        let mut out = Self::with_capacity(self.text.len() + bytes);
        out.text.extend_from_slice(&self.text);
        out
    }

    /// The value of the first line of this name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.lines().find(|line| line.has_name(name)).map(|line| line.value)
    }

    /// As [`Fields::get`], where the value is UTF-8.
    pub fn get_str(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The values of all lines of this name, in order.
    pub fn get_all<'a>(
        &'a self,
        name: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> impl Iterator<Item = &'a [u8]> {
        let name = name.as_ref();
        self.lines().filter(move |line| line.has_name(name)).map(|line| line.value)
    }

    /// All values of this name joined by `", "` as RFC 9110 §5.3 allows, or `None` without a line.
    pub fn joined(&self, name: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let name = name.as_ref();
        let mut values = self.get_all(name);
        let mut out = values.next()?.to_vec();
        for value in values {
            out.extend_from_slice(b", ");
            out.extend_from_slice(value);
        }
        Some(out)
    }

    /// Adds a member to a list field (RFC 9110 §5.6.1), on the one line it then has.
    pub fn append_to_list(&mut self, name: &str, member: &[u8]) {
        match self.joined(name) {
            None => self.append(name, member),
            Some(mut value) => {
                value.extend_from_slice(b", ");
                value.extend_from_slice(member);
                self.set(name, value);
            }
        }
    }

    /// Whether there is a line of this name.
    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        self.get(name).is_some()
    }

    /// How many lines have this name.
    pub fn count(&self, name: impl AsRef<[u8]>) -> usize {
        self.get_all(name.as_ref()).count()
    }

    /// Name and value of each line, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines().map(|line| (line.name, line.value))
    }

    /// The members of a comma-separated list over all lines of this name, trimmed, empty members
    /// left out (RFC 9110 §5.6.1). Quoted strings are not understood: use it for lists of tokens.
    pub fn tokens<'a>(
        &'a self,
        name: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|token| !token.is_empty())
    }

    /// Whether the list of tokens of this name has `token`, without regard to case.
    pub fn has_token(&self, name: impl AsRef<[u8]>, token: impl AsRef<[u8]>) -> bool {
        let token = token.as_ref();
        self.tokens(name.as_ref()).any(|member| member.eq_ignore_ascii_case(token))
    }

    /// Number of lines, which are counted for it.
    pub fn len(&self) -> usize {
        self.lines().count()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes of heap this list holds, as many as HTTP/1 takes to write it or more.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// Writes each line as `Name: value\r\n`, as HTTP/1 has them (RFC 9112 §5).
    pub fn write_h1(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter() {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn lines(&self) -> Lines<'_> {
        Lines(&self.text)
    }

    /// Where in the text the first line of this name is.
    fn find(&self, name: &[u8]) -> Option<Range<usize>> {
        let mut lines = self.lines();
        loop {
            let start = self.text.len() - lines.0.len();
            if lines.next()?.has_name(name) {
                return Some(start..self.text.len() - lines.0.len());
            }
        }
    }

    /// Keeps of the lines from this place in the text on those for which `keep` is true; returns how many were
    /// removed.
    fn retain_lines(&mut self, from: usize, mut keep: impl FnMut(Line<'_>) -> bool) -> usize {
        let (mut read, mut written, mut removed) = (from, from, 0);
        loop {
            let mut lines = Lines(&self.text[read..]);
            let Some(line) = lines.next() else { break };
            let (is_kept, end) = (keep(line), self.text.len() - lines.0.len());
            if is_kept {
                if written < read {
                    self.text.copy_within(read..end, written);
                }
                written += end - read;
            } else {
                removed += 1;
            }
            read = end;
        }
        self.text.truncate(written);
        removed
    }
}

impl Line<'_> {
    #[inline]
    fn has_name(&self, name: &[u8]) -> bool {
        // Most others differ in length, which is known without a call.
        self.name.len() == name.len() && self.name.eq_ignore_ascii_case(name)
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let (&[a, b, c, d], mut rest) = self.0.split_first_chunk::<LENGTHS_BYTES>()?;
        let mut value_len = u16::from_le_bytes([c, d]).into();
        if value_len == usize::from(LONG) {
            let (long, behind) = rest.split_first_chunk()?;
            (value_len, rest) = (u32::from_le_bytes(*long) as usize, behind);
        }
        let name_len = usize::from(u16::from_le_bytes([a, b]));
        let line = rest.get(..name_len + value_len)?;
        self.0 = &rest[line.len()..];
        Some(Line { name: &line[..name_len], value: &line[name_len..] })
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        f.debug_list().entries(self.iter().map(|(n, v)| (text(n), text(v)))).finish()
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(lines: I) -> Self {
        let mut out = Self::new();
        for (name, value) in lines {
            out.append(name, value);
        }
        out
    }
}

/// Whether some servers take one name for another: where fields become variables, `_` and `-` are one
/// character (RFC 3875 §4.1.18).
pub fn is_taken_for(name: &[u8], other: &[u8]) -> bool {
    let folded = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.iter().map(folded).eq(other.iter().map(folded))
}

/// Whether a byte may stand in the name of a field or method (`tchar`, RFC 9110 §5.6.2).
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a text can be the name of a field or method (RFC 9110 §5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spelling_are_kept_and_names_compare_without_case() {
        let fields: Fields = [("Via", "a"), ("vary", "x"), ("VIA", "b")].into_iter().collect();
        assert_eq!(fields.get("via"), Some(&b"a"[..]));
        assert_eq!(fields.joined("via"), Some(b"a, b".to_vec()));
        let mut out = Vec::new();
        fields.write_h1(&mut out);
        assert_eq!(out, b"Via: a\r\nvary: x\r\nVIA: b\r\n");
    }

    #[test]
    fn set_replaces_all_lines_at_the_place_of_the_first() {
        let mut fields: Fields = [("a", "1"), ("B", "2"), ("a", "3")].into_iter().collect();
        fields.set("A", "9");
        let want: Fields = [("A", "9"), ("B", "2")].into_iter().collect();
        assert_eq!(fields, want);
        fields.set("c", "4");
        assert_eq!(fields.get("C"), Some(&b"4"[..]));
    }

    #[test]
    fn a_line_that_is_set_may_be_longer_or_shorter_wherever_it_is() {
        for value in ["", "9", &"long ".repeat(100)] {
            for at in 0..4 {
                let names = ["a", "bc", "def", "ghij"];
                let mut fields: Fields = names.iter().map(|name| (name, "12")).collect();
                fields.append(names[at].to_uppercase(), "again");
                fields.set(names[at], value);
                let want = |name| if name == names[at] { value } else { "12" };
                let want: Fields = names.iter().map(|name| (*name, want(*name))).collect();
                assert_eq!(fields, want);
            }
        }
    }

    #[test]
    fn removal_and_compaction_leave_only_what_is_listed() {
        let mut fields: Fields = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(fields.remove("A"), 2);
        let compact = fields.compact();
        assert_eq!(compact, fields);
        assert!(compact.heap_bytes() < fields.heap_bytes());
    }

    #[test]
    fn values_of_any_length_are_kept() {
        let lens = [0, 1, LONG as usize - 1, LONG as usize, LONG as usize + 1, 200_000];
        let value = |len: usize| (0..len).map(|at| (at * 31 + len) as u8).collect::<Vec<u8>>();
        let mut fields: Fields =
            lens.iter().map(|len| (format!("name-{len}"), value(*len))).collect();
        fields.set("NAME-65535", value(70_000));
        fields.remove("name-1");
        let compact = fields.compact();
        assert_eq!(compact, fields);
        assert_eq!(compact.get("name-65535"), Some(&value(70_000)[..]));
        for len in [0, 65_534, 65_536, 200_000] {
            assert_eq!(compact.get(format!("name-{len}")), Some(&value(len)[..]));
        }
        assert_eq!(compact.text.len(), compact.text.capacity());
    }

    #[test]
    fn tokens_of_several_lines_are_one_list() {
        let fields: Fields =
            [("Connection", "close , x"), ("connection", ",, y")].into_iter().collect();
        assert!(fields.has_token("connection", "CLOSE"));
        assert_eq!(fields.tokens("connection").collect::<Vec<_>>(), [&b"close"[..], b"x", b"y"]);
    }
}

//! The fields of a message, in order, with their names as they were written.
//!
//! One buffer holds all text and a list of offsets says where each field is, so that a head costs
//! two allocations however many fields it has and is written out again by copying. Look-ups walk
//! the list: messages are limited to some dozens of fields, where a walk beats hashing.

use std::fmt;

/// An ordered list of field lines (RFC 9110 §5). Names compare without regard to case; several
/// lines may share a name.
#[derive(Clone, Default)]
pub struct Fields {
    text: Vec<u8>,
    lines: Vec<Line>,
}

/// Where a line is: its name, and its value right behind. A cache keeps as many of these as fields, so they
/// are short; of the few values that are longer than [`LONG`] the length is in the text, before the name.
#[derive(Clone, Copy)]
struct Line {
    start: u32,
    name_len: u16,
    value_len: u16,
}

/// In the place of a value's length: that is as long or longer.
const LONG: u16 = u16::MAX;

/// Bytes of a length in the text.
const LENGTH_BYTES: usize = size_of::<u32>();

impl Fields {
    /// An empty list; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty list with room for `lines` fields of `text_bytes` in total.
    pub fn with_capacity(lines: usize, text_bytes: usize) -> Self {
        Self { text: Vec::with_capacity(text_bytes), lines: Vec::with_capacity(lines) }
    }

    /// Where it lies: what names and values say, and where each is.
    pub fn memory(&self) -> (&[u8], &[impl Sized + use<>]) {
        (&self.text, &self.lines)
    }

    /// Adds a line at the end. The caller has checked name and value: nothing is escaped here.
    ///
    /// # Panics
    /// If the name is longer than 65,535 bytes or the list longer than 4 GiB: parsers limit both.
    pub fn append(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        let line = Line {
            start: u32::try_from(self.text.len()).expect("fields are limited far below 4 GiB"),
            name_len: u16::try_from(name.len()).expect("field names are limited below 64 KiB"),
            value_len: u16::try_from(value.len()).unwrap_or(LONG),
        };
        if line.value_len == LONG {
            let len = u32::try_from(value.len()).expect("values are limited far below 4 GiB");
            self.text.extend_from_slice(&len.to_le_bytes());
        }
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.lines.push(line);
    }

    /// Replaces every line of this name by one at the place of the first, or adds one.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        let Some(at) = self.position(name) else { return self.append(name, value) };
        self.append(name, value);
        let line = self.lines.pop().expect("a line was just appended");
        self.lines[at] = line;
        let mut index = 0;
        let text = &self.text;
        self.lines.retain(|line| {
            index += 1;
            index - 1 <= at || !line.name(text).eq_ignore_ascii_case(name)
        });
    }

    /// Removes every line of this name and returns how many there were. The text stays until the
    /// list is cloned with [`Fields::compact`] or dropped.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> usize {
        let name = name.as_ref();
        self.retain(|line, _| !line.eq_ignore_ascii_case(name))
    }

    /// Keeps the lines for which `keep(name, value)` is true; returns how many were removed.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        let before = self.lines.len();
        let text = &self.text;
        self.lines.retain(|line| keep(line.name(text), line.value(text)));
        before - self.lines.len()
    }

    /// Removes all lines and keeps the allocations.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// A copy that holds no text of removed lines and no spare capacity: what a cache keeps.
    #[must_use]
    pub fn compact(&self) -> Self {
        let text_bytes = self.lines.iter().map(|line| line.text_bytes(&self.text)).sum();
        let mut out = Self::with_capacity(self.lines.len(), text_bytes);
        for (name, value) in self.iter() {
            out.append(name, value);
        }
        out
    }

    /// A copy with room for more `lines` of `text_bytes` in total.
    #[must_use]
    pub fn clone_with_room(&self, lines: usize, text_bytes: usize) -> Self {
        let mut out = Self::with_capacity(self.lines.len() + lines, self.text.len() + text_bytes);
        out.text.extend_from_slice(&self.text);
        out.lines.extend_from_slice(&self.lines);
        out
    }

    /// The value of the first line of this name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.position(name.as_ref()).map(|at| self.lines[at].value(&self.text))
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
        self.iter().filter(move |(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| value)
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
        self.position(name.as_ref()).is_some()
    }

    /// How many lines have this name.
    pub fn count(&self, name: impl AsRef<[u8]>) -> usize {
        self.get_all(name.as_ref()).count()
    }

    /// Name and value of each line, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (line.name(&self.text), line.value(&self.text)))
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

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of heap this list holds.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<Line>()
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

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.lines.iter().position(|line| {
            usize::from(line.name_len) == name.len()
                && line.name(&self.text).eq_ignore_ascii_case(name)
        })
    }
}

impl Line {
    fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.name_start()..][..usize::from(self.name_len)]
    }

    fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.name_start() + usize::from(self.name_len)..][..self.value_len(text)]
    }

    fn name_start(&self) -> usize {
        let before = if self.value_len == LONG { LENGTH_BYTES } else { 0 };
        self.start as usize + before
    }

    fn value_len(&self, text: &[u8]) -> usize {
        if self.value_len < LONG {
            return self.value_len.into();
        }
        let len = text[self.start as usize..].first_chunk::<LENGTH_BYTES>();
        u32::from_le_bytes(*len.expect("it was written with the line")) as usize
    }

    /// Bytes of text there are for it.
    fn text_bytes(&self, text: &[u8]) -> usize {
        let before = self.name_start() - self.start as usize;
        before + usize::from(self.name_len) + self.value_len(text)
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| a == b)
    }
}

impl Eq for Fields {}

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
        assert_eq!(size_of::<Line>(), 8);
    }

    #[test]
    fn tokens_of_several_lines_are_one_list() {
        let fields: Fields =
            [("Connection", "close , x"), ("connection", ",, y")].into_iter().collect();
        assert!(fields.has_token("connection", "CLOSE"));
        assert_eq!(fields.tokens("connection").collect::<Vec<_>>(), [&b"close"[..], b"x", b"y"]);
    }
}

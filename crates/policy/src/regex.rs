//! Regular expressions: PCRE2, compiled once, with bounds on the work of one match.

use std::fmt;
use std::sync::OnceLock;

/// Steps of one match, as Varnish's `pcre2_match_limit`. Beyond, the match fails and with it the
/// request: a pattern cannot hold a worker up.
pub const MATCH_STEPS_MAX: u32 = 10_000;
/// Nesting of one match, as Varnish's `pcre2_depth_limit`.
const MATCH_DEPTH_MAX: u32 = 20_000;
/// KiB of heap one match may take.
const MATCH_HEAP_KIB_MAX: u32 = 1024;

/// `PCRE2_ERROR_MATCHLIMIT`.
const CODE_STEPS: i32 = -47;
/// `PCRE2_ERROR_DEPTHLIMIT`.
const CODE_DEPTH: i32 = -53;
/// `PCRE2_ERROR_HEAPLIMIT`.
const CODE_HEAP: i32 = -63;

/// Steps that a match may take without being counted: nearly all take fewer, and PCRE2 does not tell how
/// many.
const FREE_STEPS_MAX: u32 = 500;

/// What each further match of a substitution counts as: one more in the count of a state.
const STEPS_OF_ONE: u32 = 64;

/// A compiled regular expression.
pub struct Regex {
    inner: Bounded,
    /// What every match begins with, at the start of the text. Most patterns of policies are about
    /// the start of a URL, and most texts are others': those are told apart without PCRE2.
    prefix: Box<[u8]>,
    /// The same, without matches of nothing; compiled where it is wanted.
    non_empty: OnceLock<Option<Bounded>>,
}

/// An expression that is tried with few steps first, so that it is known which matches take many.
struct Bounded {
    /// With what bounds a match left out.
    pattern: Box<str>,
    steps_max: u32,
    free: pcre2::bytes::Regex,
    /// With all the steps there are; compiled when a match wants them.
    whole: OnceLock<Option<pcre2::bytes::Regex>>,
}

/// Steps that matches took and that count, and how many may.
#[derive(Debug)]
pub(crate) struct Effort {
    pub(crate) steps: usize,
    pub(crate) steps_max: usize,
}

impl Effort {
    fn add(&mut self, steps: u32) -> Result<(), Exceeded> {
        self.steps = self.steps.saturating_add(steps as usize);
        if self.steps > self.steps_max {
            return Err(Exceeded("too much was matched in one state".into()));
        }
        Ok(())
    }
}

impl Bounded {
    fn compile(pattern: String, steps_max: u32) -> Result<Self, pcre2::Error> {
        let free = build(&format!("{}{pattern}", limits(steps_max.min(FREE_STEPS_MAX))))?;
        Ok(Self { pattern: pattern.into(), steps_max, free, whole: OnceLock::new() })
    }

    fn run<T>(
        &self,
        effort: &mut Effort,
        mut run: impl FnMut(&pcre2::bytes::Regex) -> Result<T, pcre2::Error>,
    ) -> Result<T, Exceeded> {
        match run(&self.free) {
            Err(error) if error.code() == CODE_STEPS && self.steps_max > FREE_STEPS_MAX => {
                // What a match takes is not told: it counts as all that it may.
                effort.add(self.steps_max)?;
                let compile = || build(&format!("{}{}", limits(self.steps_max), self.pattern)).ok();
                let whole = self.whole.get_or_init(compile).as_ref();
                whole.map_or(Err(error), run)
            }
            other => other,
        }
        .map_err(|error| exceeded(&error))
    }
}

/// What is wrong with a pattern.
pub struct BadPattern {
    /// What PCRE2 says.
    pub message: String,
    /// Byte of the pattern.
    pub offset: usize,
}

/// A match that did not come to an end.
pub(crate) struct Exceeded(pub(crate) String);

/// A regular expression for others than policies, with the same semantics and bounds.
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles an expression whose matches take this many steps at most.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(pattern: &str, steps_max: u32) -> Result<Self, String> {
        Regex::compile(pattern, steps_max).map(Self).map_err(|bad| bad.message)
    }

    /// Whether it matches; one that takes too many steps does not.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let mut effort = Effort { steps: 0, steps_max: usize::MAX };
        self.0.is_match(text, &mut effort).unwrap_or(false)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").finish_non_exhaustive()
    }
}

/// What bounds a match, as a pattern says it.
fn limits(steps_max: u32) -> String {
    format!(
        "(*LIMIT_MATCH={steps_max})(*LIMIT_DEPTH={MATCH_DEPTH_MAX})\
         (*LIMIT_HEAP={MATCH_HEAP_KIB_MAX})"
    )
}

/// What PCRE2 itself says. Before that the crate names the library, and a place that counts the bounds
/// as well, which nobody wrote.
fn reason(error: &pcre2::Error) -> String {
    let said = error.to_string();
    said.splitn(3, ": ").last().unwrap_or_default().to_owned()
}

fn build(pattern: &str) -> Result<pcre2::bytes::Regex, pcre2::Error> {
    pcre2::bytes::RegexBuilder::new().jit_if_available(true).build(pattern)
}

impl Regex {
    /// Compiles a pattern, of which a match takes so many steps at most.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn compile(pattern: &str, steps_max: u32) -> Result<Self, BadPattern> {
        let before = limits(steps_max.min(FREE_STEPS_MAX)).len();
        let inner = Bounded::compile(pattern.into(), steps_max).map_err(|error| BadPattern {
            message: reason(&error),
            offset: error.offset().unwrap_or(0).saturating_sub(before).min(pattern.len()),
        })?;
        let prefix = prefix(pattern).into();
        Ok(Self { inner, prefix, non_empty: OnceLock::new() })
    }

    /// What finds further matches: one of nothing may only be the first.
    fn further(&self) -> &Bounded {
        let pattern = || format!("(*NOTEMPTY){}", self.inner.pattern);
        let compile = || Bounded::compile(pattern(), self.inner.steps_max).ok();
        self.non_empty.get_or_init(compile).as_ref().unwrap_or(&self.inner)
    }

    pub(crate) fn is_match(&self, text: &[u8], effort: &mut Effort) -> Result<bool, Exceeded> {
        if !text.starts_with(&self.prefix) {
            return Ok(false);
        }
        self.inner.run(effort, |regex| regex.is_match(text))
    }

    /// The first match and its groups; groups that took no part are `None`.
    fn captures(
        regex: &Bounded,
        text: &[u8],
        at: usize,
        groups: &mut Vec<Option<(usize, usize)>>,
        effort: &mut Effort,
    ) -> Result<bool, Exceeded> {
        let (found, places) = regex.run(effort, |regex| {
            let mut places = regex.capture_locations();
            let found = regex.captures_read_at(&mut places, text, at)?.is_some();
            Ok((found, places))
        })?;
        groups.clear();
        if found {
            groups.extend((0..places.len()).map(|index| places.get(index)));
        }
        Ok(found)
    }

    /// `text` with the first match, or with `all` every one, replaced by `template`, in which `\0`
    /// or `\&` stands for the match and `\1` to `\9` for its groups. `false` and no output where
    /// nothing matches.
    pub(crate) fn replace(
        &self,
        text: &[u8],
        template: &[u8],
        all: bool,
        bytes_max: usize,
        effort: &mut Effort,
        out: &mut Vec<u8>,
    ) -> Result<bool, Exceeded> {
        let mut groups = Vec::new();
        let mut at = 0;
        let mut copied = 0;
        let mut any = false;
        let start = out.len();
        let mut regex = &self.inner;
        while at <= text.len() && Self::captures(regex, text, at, &mut groups, effort)? {
            let Some(Some((from, to))) = groups.first().copied() else { break };
            // Look-behinds with \K can end a match before it begins.
            if to < from {
                break;
            }
            any = true;
            out.extend_from_slice(text.get(copied..from).unwrap_or(&[]));
            expand(template, text, &groups, out);
            if out.len() - start > bytes_max {
                return Err(Exceeded("the result of a substitution is too large".into()));
            }
            (copied, at) = (to, to);
            if !all {
                break;
            }
            // There may be one at each byte.
            effort.add(STEPS_OF_ONE)?;
            regex = self.further();
        }
        if any {
            out.extend_from_slice(text.get(copied..).unwrap_or(&[]));
        }
        Ok(any)
    }
}

/// The literal text behind a leading `^`, as far as it is certain.
fn prefix(pattern: &str) -> Vec<u8> {
    let Some(rest) = pattern.strip_prefix('^') else { return Vec::new() };
    if has_alternatives(rest) {
        return Vec::new();
    }
    let mut out = Vec::new();
    let mut bytes = rest.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let literal = match byte {
            b'\\' => match bytes.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => escaped,
                _ => break,
            },
            byte if byte.is_ascii_alphanumeric() || b"/_-~:@=&%,;!<>\"' ".contains(&byte) => byte,
            _ => break,
        };
        // What may be left out is no part of it.
        if matches!(bytes.peek(), Some(b'?' | b'*' | b'{')) {
            break;
        }
        out.push(literal);
        if bytes.peek() == Some(&b'+') {
            break;
        }
    }
    out
}

/// Whether a pattern has `|` outside of all groups; where that is not certain, it has.
fn has_alternatives(pattern: &str) -> bool {
    if !pattern.contains('|') {
        return false;
    }
    if ["[:", "\\Q", "(?#"].iter().any(|sign| pattern.contains(sign)) {
        return true;
    }
    let mut depth = 0_u32;
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'[' => {
                // A bracket right at the start of a class is one of its members.
                let mut at_start = true;
                while let Some(member) = bytes.next() {
                    match member {
                        b'\\' => {
                            bytes.next();
                        }
                        b']' if !at_start => break,
                        _ => {}
                    }
                    at_start = at_start && member == b'^';
                }
            }
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

fn expand(template: &[u8], text: &[u8], groups: &[Option<(usize, usize)>], out: &mut Vec<u8>) {
    let mut rest = template.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let group = match rest.clone().next() {
            Some(b'&') => {
                out.push(b'&');
                rest.next();
                continue;
            }
            Some(digit @ b'0'..=b'9') => usize::from(digit - b'0'),
            other => {
                // A backslash before anything else stands for itself, before another for one.
                out.push(b'\\');
                if other == Some(&b'\\') {
                    rest.next();
                }
                continue;
            }
        };
        rest.next();
        if let Some(Some((from, to))) = groups.get(group) {
            out.extend_from_slice(text.get(*from..*to).unwrap_or(&[]));
        }
    }
}

fn exceeded(error: &pcre2::Error) -> Exceeded {
    Exceeded(match error.code() {
        CODE_STEPS => "match limit exceeded".into(),
        CODE_DEPTH => "matching depth limit exceeded".into(),
        CODE_HEAP => "heap limit exceeded".into(),
        _ => error.to_string(),
    })
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regex({:?})", self.inner.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort() -> Effort {
        Effort { steps: 0, steps_max: 100_000 }
    }

    fn replace(pattern: &str, text: &str, template: &str, all: bool) -> String {
        let regex = Regex::compile(pattern, MATCH_STEPS_MAX).ok().expect("a good pattern");
        let mut out = Vec::new();
        let any = regex
            .replace(text.as_bytes(), template.as_bytes(), all, 1000, &mut effort(), &mut out)
            .ok()
            .expect("little work");
        if any { String::from_utf8(out).expect("text") } else { text.into() }
    }

    #[test]
    fn substitution_knows_groups_and_empty_matches() {
        assert_eq!(replace("(b)(x)?", "abc", "[\\1\\2\\0\\&]", false), "a[bb&]c");
        assert_eq!(replace("b*", "abc", "-", true), "-a-c");
        assert_eq!(replace("", "abc", "-", true), "-abc");
        assert_eq!(replace("q", "abc", "-", true), "abc");
        assert_eq!(replace("(a)\\1", "xaay", "<\\1>", true), "x<a>y");
        assert_eq!(replace("(?<=x)a", "xaay", "b", true), "xbay");
        assert_eq!(replace("a", "a", "\\\\n\\q", true), "\\n\\q");
    }

    #[test]
    fn a_match_that_takes_too_long_is_an_error() {
        let regex = Regex::compile("^(a+)+$", 1000).ok().expect("a good pattern");
        let text = format!("{}b", "a".repeat(40));
        let mut effort = effort();
        let Err(error) = regex.is_match(text.as_bytes(), &mut effort) else {
            panic!("too much work")
        };
        assert_eq!((error.0.as_str(), effort.steps), ("match limit exceeded", 1000));
    }

    #[test]
    fn a_match_of_many_steps_counts_as_all_it_may_take_and_one_of_few_as_none() {
        let regex = Regex::compile("^(a+)+$", MATCH_STEPS_MAX).ok().expect("a good pattern");
        let mut effort = effort();
        let mut matches = |text: &str| regex.is_match(text.as_bytes(), &mut effort).ok();
        assert_eq!(matches("aaaa"), Some(true));
        let long = format!("{}b", "a".repeat(10));
        assert_eq!((0..11).filter(|_| matches(&long) == Some(false)).count(), 10);
        assert_eq!(effort.steps, 110_000);
    }

    #[test]
    fn the_certain_start_of_a_pattern_is_literal() {
        let rows: [(&str, &[u8]); 16] = [
            ("^/live/", b"/live/"),
            ("^/a\\.b(c|d)", b"/a.b"),
            ("^/ab?", b"/a"),
            ("^/ab*c", b"/a"),
            ("^/ab+c", b"/ab"),
            ("^/ab{0,2}", b"/a"),
            ("^/a|^/b", b""),
            ("^(a|b)", b""),
            ("^[a-z]", b""),
            ("a", b""),
            ("^/\\d", b"/"),
            ("^/a$", b"/a"),
            ("^/a.b", b"/a"),
            ("^\\Qa", b""),
            ("^/[(]a|b", b""),
            ("^/[])|]a(b|c)", b"/"),
        ];
        for (pattern, expected) in rows {
            assert_eq!(prefix(pattern), expected, "{pattern}");
        }
        let regex = Regex::compile("^/live/(x)?$", MATCH_STEPS_MAX).ok().expect("a good pattern");
        let matches =
            |text: &str| regex.is_match(text.as_bytes(), &mut effort()).ok().expect("little work");
        assert!(matches("/live/") && matches("/live/x") && !matches("/liv") && !matches("/vod/"));
    }

    #[test]
    fn a_bad_pattern_names_its_place() {
        let Err(error) = Regex::compile("a(b", 1000) else { panic!("a bad pattern") };
        assert_eq!(error.offset, 3, "{}", error.message);
        assert_eq!(error.message, "missing closing parenthesis");
    }
}

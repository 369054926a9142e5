//! What a ban says: conditions that are all true of what is banned.

use freshet_base::clock::UnixMillis;
use freshet_cache::{Left, Object, StoredHead};
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::RequestHead;
use freshet_site::sites::SiteName;
use freshet_site::upkeep::keep_of;
use freshet_vcl::Pattern;
use std::borrow::Cow;
use std::time::Duration;

/// Conditions of one ban. A person writes three.
const CONDITIONS_MAX: usize = 64;
/// Steps of one match, as for a policy's.
const MATCH_STEPS_MAX: u32 = 10_000;

/// A ban, read.
#[derive(Debug)]
pub(super) struct Spec {
    conditions: Vec<Condition>,
    /// As it is shown: words with single spaces between.
    pub(super) text: String,
    /// As it is read again: the same with quotes where a word needs them.
    pub(super) written: String,
    /// Whether it is about requests too, so that it cannot be tested without one.
    pub(super) needs_request: bool,
    /// Whether what it is true of changes with time, so that a later one stands for no earlier one.
    pub(super) depends_on_time: bool,
}

#[derive(Debug)]
struct Condition {
    field: Field,
    test: Test,
}

#[derive(Debug)]
enum Field {
    RequestTarget,
    RequestHeader(Box<str>),
    ObjectHeader(Box<str>),
    ObjectSite,
    ObjectStatus,
    ObjectTtl,
    ObjectAge,
    ObjectGrace,
    ObjectKeep,
}

#[derive(Debug)]
enum Test {
    Equals { text: Box<[u8]>, is_wanted: bool },
    Matches { pattern: Box<Pattern>, is_wanted: bool },
    Compares { order: Order, seconds: f64 },
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// What of an object a ban looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) status: u16,
    pub(super) fields: &'a Fields,
    pub(super) freshness: &'a Freshness,
    /// How long it is kept beyond its grace.
    pub(super) keep: Duration,
    /// The name of its site, where the node has several.
    pub(super) site: &'a [u8],
}

impl<'a> Seen<'a> {
    /// Of an object that has these.
    pub(super) fn of(object: &'a Object, head: &'a StoredHead, freshness: &'a Freshness) -> Self {
        Self {
            status: head.status,
            fields: &head.fields,
            freshness,
            keep: keep_of(object),
            site: SiteName::in_key(object.key().text()),
        }
    }

    /// Of a response that was not kept.
    pub(super) fn of_left(left: &'a Left) -> Self {
        Self {
            status: left.status(),
            fields: left.fields(),
            freshness: left.freshness(),
            keep: left.keep(),
            site: SiteName::in_key(left.key().text()),
        }
    }
}

impl Spec {
    /// Reads a ban of these words: field, operator, argument, and `&&` between conditions.
    ///
    /// # Errors
    /// What is wrong, in Varnish's words.
    pub(super) fn read(words: &[String]) -> Result<Self, String> {
        let mut words = words.iter().map(String::as_str);
        let (mut conditions, mut text, mut written) = (Vec::new(), String::new(), String::new());
        let (mut needs_request, mut depends_on_time) = (false, false);
        loop {
            let Some(name) = words.next() else {
                return Err(if conditions.is_empty() {
                    "No ban conditions found.".into()
                } else {
                    "Expected ban condition after &&.".into()
                });
            };
            let operator = words.next().ok_or("Expected comparison operator.")?;
            let argument = words.next().ok_or("Expected second operand.")?;
            let field = Field::named(name)
                .ok_or_else(|| format!("Unknown or unsupported field \"{name}\""))?;
            needs_request |= matches!(field, Field::RequestTarget | Field::RequestHeader(_));
            depends_on_time |= matches!(field, Field::ObjectTtl | Field::ObjectAge);
            let test = field.test(operator, argument)?;
            let argument = match test {
                Test::Compares { seconds, .. } => Cow::Owned(span_text(seconds)),
                _ => Cow::Borrowed(argument),
            };
            conditions.push(Condition { field, test });
            if conditions.len() > CONDITIONS_MAX {
                return Err(format!("Too many conditions; {CONDITIONS_MAX} are possible."));
            }
            let and = if text.is_empty() { "" } else { " && " };
            text = format!("{text}{and}{name} {operator} {argument}");
            written = format!("{written}{and}{} {operator} {}", quoted(name), quoted(&argument));
            match words.next() {
                None => {
                    return Ok(Self { conditions, text, written, needs_request, depends_on_time });
                }
                Some("&&") => {}
                Some(other) => {
                    return Err(format!("Expected && between conditions, found \"{other}\""));
                }
            }
        }
    }

    /// Conditions looked at, and whether all are true of this object and request. How old the object is and how long it
    /// still lives is as of when the ban came, whenever that is tested.
    pub(super) fn test(
        &self,
        object: Seen<'_>,
        request: Option<&RequestHead>,
        came: UnixMillis,
    ) -> (u64, bool) {
        let mut tested = 0;
        for condition in &self.conditions {
            tested += 1;
            if !condition.is_true(object, request, came) {
                return (tested, false);
            }
        }
        (tested, true)
    }
}

impl Field {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "req.url" => Self::RequestTarget,
            "obj.site" => Self::ObjectSite,
            "obj.status" => Self::ObjectStatus,
            "obj.ttl" => Self::ObjectTtl,
            "obj.age" => Self::ObjectAge,
            "obj.grace" => Self::ObjectGrace,
            "obj.keep" => Self::ObjectKeep,
            _ => match name.strip_prefix("req.http.") {
                Some(field) if !field.is_empty() => Self::RequestHeader(field.into()),
                _ => Self::ObjectHeader(
                    name.strip_prefix("obj.http.").filter(|field| !field.is_empty())?.into(),
                ),
            },
        })
    }

    fn is_span(&self) -> bool {
        matches!(self, Self::ObjectTtl | Self::ObjectAge | Self::ObjectGrace | Self::ObjectKeep)
    }

    fn test(&self, operator: &str, argument: &str) -> Result<Test, String> {
        if self.is_span() {
            let order = match operator {
                "==" => Order::Equal,
                "!=" => Order::NotEqual,
                ">" => Order::Greater,
                ">=" => Order::GreaterOrEqual,
                "<" => Order::Less,
                "<=" => Order::LessOrEqual,
                other => {
                    return Err(format!(
                        "expected conditional (==, !=, >, >=, < or <=) got \"{other}\""
                    ));
                }
            };
            let seconds = freshet_vcl::duration(argument).ok_or_else(|| {
                format!("expected duration <n.nn>[ms|s|m|h|d|w|y] got \"{argument}\"")
            })?;
            return Ok(Test::Compares { order, seconds });
        }
        let is_wanted = !operator.starts_with('!');
        match operator {
            "==" | "!=" => Ok(Test::Equals { text: argument.as_bytes().into(), is_wanted }),
            "~" | "!~" => Pattern::compile(argument, MATCH_STEPS_MAX)
                .map(|pattern| Test::Matches { pattern: Box::new(pattern), is_wanted })
                .map_err(|wrong| format!("Regex compile error: {wrong}")),
            other => Err(format!("expected conditional (==, !=, ~ or !~) got \"{other}\"")),
        }
    }
}

impl Condition {
    fn is_true(&self, object: Seen<'_>, request: Option<&RequestHead>, came: UnixMillis) -> bool {
        let field = |fields: &Fields, name: &str| fields.get(name).map(<[u8]>::to_vec);
        let text = match &self.field {
            Field::RequestTarget => request.map(|head| head.target.as_bytes().to_vec()),
            Field::RequestHeader(name) => request.and_then(|head| {
                if name.eq_ignore_ascii_case("host") && !head.authority.is_empty() {
                    Some(head.authority.as_bytes().to_vec())
                } else {
                    field(&head.fields, name)
                }
            }),
            Field::ObjectHeader(name) => field(object.fields, name),
            Field::ObjectSite => Some(object.site.to_vec()),
            Field::ObjectStatus => Some(object.status.to_string().into_bytes()),
            span => return self.compares(span.seconds(object, came)),
        };
        match (&self.test, text) {
            // What is not there is not equal to anything, and no pattern says anything of it.
            (Test::Equals { is_wanted, .. }, None) => !is_wanted,
            (Test::Matches { .. }, None) => false,
            (Test::Equals { text: wanted, is_wanted }, Some(text)) => {
                (**wanted == *text) == *is_wanted
            }
            (Test::Matches { pattern, is_wanted }, Some(text)) => {
                pattern.is_match(&text) == *is_wanted
            }
            (Test::Compares { .. }, _) => false,
        }
    }

    fn compares(&self, left: f64) -> bool {
        let Test::Compares { order, seconds } = self.test else { return false };
        match order {
            #[allow(clippy::float_cmp, reason = "what people write is compared as written")]
            Order::Equal => left == seconds,
            #[allow(clippy::float_cmp, reason = "the same")]
            Order::NotEqual => left != seconds,
            Order::Greater => left > seconds,
            Order::GreaterOrEqual => left >= seconds,
            Order::Less => left < seconds,
            Order::LessOrEqual => left <= seconds,
        }
    }
}

impl Field {
    fn seconds(&self, object: Seen<'_>, came: UnixMillis) -> f64 {
        let freshness = object.freshness;
        // What was still on its way is younger than nothing.
        let since = |at: UnixMillis| (came.0 as f64 - at.0 as f64) / 1000.0;
        let age = || freshness.initial_age().as_secs_f64() + since(freshness.received);
        match self {
            Self::ObjectAge => age(),
            Self::ObjectGrace => freshness.stale_while_revalidate().as_secs_f64(),
            Self::ObjectTtl => freshness.lifetime().as_secs_f64() - age(),
            Self::ObjectKeep => object.keep.as_secs_f64(),
            _ => 0.0,
        }
    }
}

/// Seconds in the largest unit they are a whole number of.
fn span_text(seconds: f64) -> String {
    const UNITS: [(u64, &str); 6] =
        [(365 * 86_400, "y"), (7 * 86_400, "w"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a span fits")]
    let ms = (seconds.abs() * 1000.0).round() as u64;
    let sign = if seconds < 0.0 { "-" } else { "" };
    let whole = UNITS.iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(unit * 1000));
    match whole {
        _ if ms == 0 => "0s".into(),
        Some((unit, name)) => format!("{sign}{}{name}", ms / (unit * 1000)),
        None if ms < 1000 => format!("{sign}{ms}ms"),
        None => format!("{seconds:.3}s"),
    }
}

/// Words of a ban that is one text: separated by white space, in quotes where they have some.
///
/// # Errors
/// A quote without an end.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut word = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next() {
                    Some((_, '\\')) => word.extend(chars.next().map(|(_, c)| c)),
                    Some((at, '"')) => break at + 1,
                    Some((_, c)) => word.push(c),
                    None => return Err("Missing '\"'".into()),
                }
            };
            words.push(word);
            rest = quoted.get(end..).unwrap_or("").trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            words.push(word.into());
            rest = after.trim_start();
        }
    }
    Ok(words)
}

/// The words of a ban as policies write it: what has space around it. Quotes are signs like any other there, as
/// with Varnish, and those of entity tags mean something.
pub fn plain_words(text: &str) -> Vec<String> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    text.split(is_space).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A word as [`words`] reads it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain =
        !word.is_empty() && !word.starts_with('"') && !word.contains(char::is_whitespace);
    if is_plain {
        return word.into();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(
            name in r#"[a-z "\\]{1,6}"#,
            argument in r#"[a-z "\\\t]{0,12}"#,
            more in proptest::bool::ANY,
        ) {
            let condition = [format!("obj.http.{name}"), "!=".into(), argument];
            let mut all = condition.to_vec();
            if more {
                all.push("&&".into());
                all.extend(condition);
            }
            let spec = Spec::read(&all).expect("it is a ban");
            prop_assert_eq!(words(&spec.written), Ok(all));
        }
    }

    fn read(text: &str) -> Result<String, String> {
        Spec::read(&words(text)?).map(|spec| spec.text)
    }

    #[test]
    fn a_ban_is_read_or_refused_with_what_was_expected() {
        assert_eq!(
            read("req.url  ~ ^/a && obj.http.x != \"b c\""),
            Ok("req.url ~ ^/a && obj.http.x != b c".into())
        );
        let wrong = |text: &str| read(text).expect_err("it is wrong");
        assert_eq!(wrong(""), "No ban conditions found.");
        assert_eq!(wrong("req.url"), "Expected comparison operator.");
        assert_eq!(wrong("req.url =="), "Expected second operand.");
        assert_eq!(wrong("req.url // bar"), "expected conditional (==, !=, ~ or !~) got \"//\"");
        assert_eq!(wrong("req.url == bar //"), "Expected && between conditions, found \"//\"");
        assert_eq!(wrong("foo == bar"), "Unknown or unsupported field \"foo\"");
        assert!(wrong("obj.age == 4").starts_with("expected duration"));
        assert!(wrong("obj.age ~ 4d").starts_with("expected conditional (==, !=, >"));
        assert!(wrong("req.url ~ (").starts_with("Regex compile error"));
        assert_eq!(
            wrong("req.url ~ ["),
            "Regex compile error: missing terminating ] for character class"
        );
    }

    #[test]
    fn of_what_is_not_there_it_is_true_that_it_is_not_equal_and_nothing_else() {
        let (fields, freshness) =
            (Fields::new(), Freshness::from_policy(UnixMillis(0), Duration::ZERO));
        let (status, keep, site) = (200, Duration::ZERO, &b""[..]);
        let seen = Seen { status, fields: &fields, freshness: &freshness, keep, site };
        let is_banned = |operator: &str| {
            let words = ["obj.http.x", operator, "a"].map(str::to_owned);
            Spec::read(&words).expect("it is a ban").test(seen, None, UnixMillis(0)).1
        };
        assert_eq!(["==", "!=", "~", "!~"].map(is_banned), [false, true, false, false]);
    }

    #[test]
    fn how_old_something_is_counts_as_of_when_the_ban_came() {
        let received = UnixMillis(1_000_000);
        let freshness = Freshness::from_policy(received, Duration::from_secs(60));
        let fields = Fields::new();
        let (status, keep, site) = (200, Duration::ZERO, &b""[..]);
        let seen = Seen { status, fields: &fields, freshness: &freshness, keep, site };
        let is_banned = |text: &str, came: u64| {
            let spec = Spec::read(&words(text).expect("they are words")).expect("it is a ban");
            spec.test(seen, None, UnixMillis(came)).1
        };
        assert!(is_banned("obj.ttl > 30s && obj.age < 20s", 1_010_000));
        assert!(is_banned("obj.ttl == 10s && obj.age > 40s", 1_050_000));
        assert!(is_banned("obj.ttl < -1s", 1_062_000));
        assert!(is_banned("obj.age < 0s", 999_000), "it was on its way");
    }

    #[test]
    fn quotes_in_a_ban_of_a_policy_are_of_its_words() {
        assert_eq!(
            plain_words("obj.http.etag ==\u{b}\"a b\"  && x"),
            ["obj.http.etag", "==", "\"a", "b\"", "&&", "x"]
        );
    }

    #[test]
    fn spans_are_told_in_the_largest_unit_that_fits() {
        for (written, told) in [
            ("0s", "0s"),
            ("0.456s", "456ms"),
            ("6.789s", "6.789s"),
            ("365d", "1y"),
            ("7d", "1w"),
            ("1.5h", "90m"),
            ("0.5m", "30s"),
            ("-60s", "-1m"),
            ("-1.5s", "-1.500s"),
            ("-1ms", "-1ms"),
        ] {
            assert_eq!(read(&format!("obj.keep == {written}")), Ok(format!("obj.keep == {told}")));
        }
    }
}

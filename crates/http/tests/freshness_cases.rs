//! The cases of `cases/freshness.txt`.

use freshet_base::clock::UnixMillis;
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::freshness::{
    Freshness, Given, InPlaceOf, Received, Reuse, Settings, Storability, storability,
};
use freshet_http::message::Method;
use std::time::Duration;

/// The start of a second, in 2026.
const ARRIVAL: UnixMillis = UnixMillis(1_795_000_000_000);

const CASES: &str = include_str!("cases/freshness.txt");

#[test]
fn every_case_is_decided_as_written() {
    let lines = CASES.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let mut case = Case::default();
    let mut cases = 0;
    let mut failures = Vec::new();
    for (number, line) in lines {
        let context = || format!("line {}: {line} [{}]", number + 1, case.name);
        let (mark, rest) = line.split_at(line.len().min(1));
        match (mark, rest.trim()) {
            ("", _) => case = Case::default(),
            ("[", rest) => {
                rest.trim_end_matches(']').clone_into(&mut case.name);
                cases += 1;
            }
            ("=", expected) => {
                failures.extend(case.check(expected).map(|got| format!("{}: {got}", context())));
            }
            (mark, rest) => case.set(mark, rest),
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(cases > 100);
}

struct Case {
    name: String,
    settings: Settings,
    method: Method,
    request: Fields,
    status: u16,
    response: Fields,
    arrival: UnixMillis,
    delay: Duration,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            name: String::new(),
            settings: Settings::default(),
            method: Method::Get,
            request: Fields::new(),
            status: 200,
            response: Fields::new(),
            arrival: ARRIVAL,
            delay: Duration::ZERO,
        }
    }
}

impl Case {
    fn set(&mut self, mark: &str, rest: &str) {
        let seconds = |text: &str| Duration::from_secs_f64(text.parse().expect("seconds"));
        match (mark, rest.split_once(' '), rest.split_once(':')) {
            ("~", Some(("clock", late)), _) => self.arrival = ARRIVAL.plus(seconds(late)),
            ("~", ..) => self.delay = seconds(rest),
            (">", _, None) => self.method = Method::from_name(rest),
            ("<", _, None) => self.status = rest.parse().expect("a status"),
            (">", _, Some((name, value))) => self.request.append(name, value.trim()),
            ("<", _, Some((name, value))) => self.response.append(name, with_date(value.trim())),
            ("!", Some(("negative", value)), _) => {
                self.settings.negative_ttl = Some(seconds(value));
            }
            ("!", Some((which @ ("given" | "given-lifetime" | "given-everything"), value)), _) => {
                let in_place_of = match which {
                    "given" => InPlaceOf::Silence,
                    "given-lifetime" => InPlaceOf::Lifetime,
                    _ => InPlaceOf::Everything,
                };
                self.settings.given = Some(Given { lifetime: seconds(value), in_place_of });
            }
            ("!", Some(("grace", value)), _) => self.settings.default_grace = seconds(value),
            ("!", Some(("on-error", value)), _) => {
                self.settings.default_stale_if_error = seconds(value);
            }
            ("!", Some(("targeted", name)), _) => {
                self.settings.targeted.to_mut().insert(0, name.to_owned().leak());
            }
            ("!", ..) if rest == "private" => self.settings.shared = false,
            ("!", ..) if rest == "no-heuristic" => self.settings.heuristic = false,
            ("!", ..) if rest == "honour" => self.settings.honour_request_directives = true,
            _ => panic!("{mark} {rest} in [{}] means nothing", self.name),
        }
    }

    /// What was decided, where that is not what is expected.
    fn check(&self, expected: &str) -> Option<String> {
        let decided = storability(
            &Received {
                method: &self.method,
                request: &self.request,
                status: self.status,
                response: &self.response,
                request_time: UnixMillis(self.arrival.0 - self.delay.as_millis() as u64),
                response_time: self.arrival,
                authority: "h",
                target: "/a/b?q",
            },
            &self.settings,
        );
        let got = match &decided {
            Storability::Refuse(reason) => format!("refuse {reason}"),
            Storability::Store(freshness) => self.describe(freshness, expected),
        };
        (got != expected).then_some(got)
    }

    fn describe(&self, freshness: &Freshness, expected: &str) -> String {
        let mut words = expected.split(' ');
        let Some(after) = words.next().and_then(|word| word.strip_prefix('+')) else {
            let lifetime = freshness.lifetime().as_secs();
            return format!("store {lifetime} {}", freshness.source.code());
        };
        let now = self.arrival.plus(Duration::from_secs(after.parse().expect("seconds")));
        let answer = match words.next() {
            Some("age") => format!("age {}", freshness.age(now).as_secs()),
            Some("error") if freshness.may_serve_on_error(now) => "error yes".into(),
            Some("error") => "error no".into(),
            _ => match freshness.reuse(now) {
                Reuse::Fresh => "fresh".into(),
                Reuse::StaleWhileRevalidate => "refresh".into(),
                Reuse::Stale => "stale".into(),
                Reuse::MustValidate => "validate".into(),
            },
        };
        format!("+{after} {answer}")
    }
}

/// The value with `{S}` replaced by the date S seconds from arrival.
fn with_date(value: &str) -> Vec<u8> {
    let offset = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let Some(offset) = offset else { return value.into() };
    let mut out = Vec::new();
    let offset: i64 = offset.parse().expect("seconds");
    date::write(UnixMillis::from_seconds(ARRIVAL.seconds() + offset), &mut out);
    out
}

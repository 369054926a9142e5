//! What is promised of services behind the gateway, as rules of Prometheus: how much of the promise
//! is used up, and alarms where that goes too fast.
//!
//! The gateway counts calls (`freshet_access_calls_total` and its times to the first byte). An alarm is
//! by several windows and burn rates, as chapter 5 of Google's Site Reliability Workbook has it in its
//! table 5-8: 2 % of the month's budget in an hour or 5 % in six is somebody's business at once, 10 % in
//! a day or in three days within working hours; the short window ends the alarm soon after its cause.

use freshet_base::histogram::FEW_BUCKETS_US;
use freshet_base::units::parse_duration;
use serde::Deserialize;
use std::fmt::Write as _;

/// What is promised of one service, over 30 days.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// The service's name.
    pub service: String,
    /// What is promised of its calls.
    pub promises: Vec<Promise>,
}

/// One promise.
#[derive(Clone, Debug, PartialEq)]
pub enum Promise {
    /// So much of all calls is not answered with an error of the service's side.
    Availability {
        /// Share of calls, above 0 and below 1.
        share: f64,
    },
    /// So much of all calls gets the first byte so soon.
    Latency {
        /// Share of calls, above 0 and below 1.
        share: f64,
        /// The bucket it is judged by, in microseconds: the first that is not shorter than what was promised.
        within_us: u64,
    },
}

impl Promise {
    /// Of what, in words, and which share of calls.
    pub(crate) fn told(&self) -> (String, f64) {
        match self {
            Self::Availability { share } => ("no error".to_owned(), *share),
            Self::Latency { share, within_us } => {
                (format!("first byte within {} ms", *within_us as f64 / 1000.0), *share)
            }
        }
    }
}

/// A service behind the gateway, as a configuration has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceFile {
    availability: Option<f64>,
    latency: Option<String>,
    latency_share: Option<f64>,
    concurrent_max: Option<u32>,
}

/// Windows that errors are counted over.
const WINDOWS: [&str; 7] = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"];

/// An alarm: how bad it is, and of each burn rate its long window, its short one, and how many times as
/// fast as a budget lasts that is.
type Alarm = (&'static str, [(&'static str, &'static str, f64); 2]);

/// Two per cent of 30 days' budget in an hour is 14.4 times what an hour may use of it, and so on.
const ALARMS: [Alarm; 2] = [
    ("critical", [("1h", "5m", 14.4), ("6h", "30m", 6.0)]),
    ("warning", [("1d", "2h", 3.0), ("3d", "6h", 1.0)]),
];

impl ServiceFile {
    /// What is promised, and how many of its calls may be under way.
    ///
    /// # Errors
    /// What is wrong, after its key.
    pub(crate) fn read(self, service: &str) -> Result<(Objective, Option<u32>), String> {
        let share = |key: &str, percent: f64| {
            if percent > 0.0 && percent < 100.0 {
                Ok(percent / 100.0)
            } else {
                Err(format!("{key}: {percent} is no percentage above 0 and below 100"))
            }
        };
        // What would end the text of a rule, or begin one of its templates.
        let is_odd = |sign: char| sign.is_control() || matches!(sign, '"' | '\\' | '{');
        if service.is_empty() || service.contains(is_odd) {
            return Err("this is no name of a service".to_owned());
        }
        let mut promises = Vec::new();
        if let Some(percent) = self.availability {
            promises.push(Promise::Availability { share: share("availability", percent)? });
        }
        match (&self.latency, self.latency_share) {
            (Some(text), Some(percent)) => {
                let within = parse_duration(text).map_err(|error| format!("latency: {error}"))?;
                let wanted_us = u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
                // Judged by a longer time than promised, an objective would be met that is not.
                let bucket = FEW_BUCKETS_US.into_iter().find(|end| *end == wanted_us);
                let within_us = bucket.ok_or_else(|| {
                    let known =
                        FEW_BUCKETS_US.map(|us| format!("{}ms", us as f64 / 1000.0)).join(", ");
                    format!("latency: calls are counted by {known}, not by {text}")
                })?;
                promises
                    .push(Promise::Latency { share: share("latency_share", percent)?, within_us });
            }
            (Some(_), None) => return Err("latency_share: for how many per cent of calls?".into()),
            (None, Some(_)) => return Err("latency: within which time?".into()),
            (None, None) => {}
        }
        if self.concurrent_max == Some(0) {
            return Err("concurrent_max: of none, none can be made".to_owned());
        }
        if promises.is_empty() && self.concurrent_max.is_none() {
            return Err("availability: this, latency or concurrent_max must be there".to_owned());
        }
        Ok((Objective { service: service.to_owned(), promises }, self.concurrent_max))
    }
}

impl Promise {
    /// Its name in metrics and alarms.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Availability { .. } => "availability",
            Self::Latency { .. } => "latency",
        }
    }

    /// The share of calls that may be otherwise.
    pub fn budget(&self) -> f64 {
        let (Self::Availability { share } | Self::Latency { share, .. }) = self;
        // As near as a percentage is written.
        ((1.0 - share) * 1e9).round() / 1e9
    }

    /// The share of calls that were otherwise, over a window.
    fn broken(&self, service: &str, window: &str) -> String {
        let of = format!("mec_service=\"{service}\"");
        let rate = |metric: &str, more: &str| {
            format!("sum by (mec_service) (rate({metric}{{{of}{more}}}[{window}]))")
        };
        match self {
            Self::Availability { .. } => {
                let all = rate("freshet_access_calls_total", "");
                // Where there was none yet there is no such series.
                let errors = rate("freshet_access_calls_total", ",class=\"5xx\"");
                format!("({errors} or 0 * {all}) / {all}")
            }
            Self::Latency { within_us, .. } => {
                let metric = "freshet_access_call_first_byte_seconds";
                let end = *within_us as f64 / 1e6;
                let within = rate(&format!("{metric}_bucket"), &format!(",le=\"{end:?}\""));
                format!("1 - {within} / {}", rate(&format!("{metric}_count"), ""))
            }
        }
    }

    fn sentence(&self) -> String {
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        match self {
            Self::Availability { share } => {
                format!("{} % of calls are answered without an error", percent(*share))
            }
            Self::Latency { share, within_us } => format!(
                "{} % of calls are answered within {} ms",
                percent(*share),
                *within_us as f64 / 1000.0
            ),
        }
    }
}

/// The rules of these objectives, as a file of Prometheus.
pub fn rules(objectives: &[Objective]) -> String {
    let mut out = String::from(
        "# Objectives of services behind the gateway, over 30 days: made by `freshet mec alerts`.\ngroups:\n",
    );
    for objective in objectives {
        for promise in &objective.promises {
            write_rules(&mut out, &objective.service, promise);
        }
    }
    out
}

fn write_rules(out: &mut String, service: &str, promise: &Promise) {
    let (name, budget) = (promise.name(), promise.budget());
    let labels = format!("{{objective: {name}}}");
    let recorded = |window: &str| {
        format!(
            "freshet_mec:broken:ratio_rate{window}{{mec_service=\"{service}\",objective=\"{name}\"}}"
        )
    };
    let mut line = |indent: usize, text: &str| {
        writeln!(out, "{:indent$}{text}", "").expect("writing to memory does not fail");
    };
    line(2, &format!("- name: \"freshet mec {service} {name}\""));
    line(4, "rules:");
    for window in WINDOWS {
        line(6, &format!("- record: freshet_mec:broken:ratio_rate{window}"));
        line(8, "expr: >");
        line(10, &promise.broken(service, window));
        line(8, &format!("labels: {labels}"));
    }
    line(6, "- record: freshet_mec:budget_left:ratio30d");
    line(8, "expr: >");
    line(10, &format!("1 - ({}) / {budget}", promise.broken(service, "30d")));
    line(8, &format!("labels: {labels}"));
    for (severity, rates) in ALARMS {
        line(6, &format!("- alert: FreshetObjective{}", upper(name)));
        line(8, "expr: >");
        let all = rates.map(|(long, short, times)| {
            let limit = format!("{times} * {budget}");
            format!("({} > {limit} and {} > {limit})", recorded(long), recorded(short))
        });
        line(10, &all.join(" or "));
        line(8, &format!("labels: {{severity: {severity}}}"));
        line(8, "annotations:");
        line(10, &format!("summary: \"{service} breaks its promise: {}\"", promise.sentence()));
        let [(long, _, times), _] = rates;
        let fast = format!(
            "Its budget of 30 days is used up {times} times as fast as it lasts, over {long} or more. \
             `freshet_access_calls_total` says by whose calls."
        );
        line(10, &format!("description: \"{fast}\""));
    }
}

fn upper(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Objective, String> {
        let file = toml::from_str::<ServiceFile>(text).map_err(|error| error.to_string())?;
        Ok(file.read("detector")?.0)
    }

    #[test]
    fn an_objective_says_what_is_promised() {
        let found = read("availability = 99.95\nlatency = \"250ms\"\nlatency_share = 90").unwrap();
        let [availability, latency] = &found.promises[..] else { panic!("{found:?}") };
        assert_eq!((availability.budget(), latency.budget()), (0.0005, 0.1));
        assert_eq!(*latency, Promise::Latency { share: 0.9, within_us: 250_000 });
        let text = rules(&[found]);
        assert!(text.contains("> 14.4 * 0.0005"), "{text}");
        assert!(text.contains("_bucket{mec_service=\"detector\",le=\"0.25\"}[30d]"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_said_by_its_key() {
        for (text, wanted) in [
            ("", "availability: this, latency or"),
            ("concurrent_max = 0", "concurrent_max: of none"),
            ("availability = 100", "availability: 100 is no percentage"),
            ("availability = 0.0", "availability: 0 is no percentage"),
            ("latency = \"50ms\"", "latency_share: for how many"),
            ("latency_share = 99", "latency: within which"),
            ("latency = \"60ms\"\nlatency_share = 99", "counted by 1ms, 2.5ms"),
            ("latency = \"soon\"\nlatency_share = 99", "latency: "),
            ("availabillity = 99", "availabillity"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.contains(wanted), "{text}: {wrong}");
        }
        let file: ServiceFile = toml::from_str("availability = 99.0").unwrap();
        assert!(file.read("a\"b").is_err());
    }
}

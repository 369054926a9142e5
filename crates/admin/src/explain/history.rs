//! What the log remembers of a URL.

use crate::log::newest_last;
use freshet_base::clock::UnixMillis;
use freshet_base::units::span;
use freshet_http::message::RequestHead;
use freshet_http::path::path_of;
use freshet_http::reason::Reason;
use freshet_http::target::key_target;
use freshet_node::log::decode;
use std::collections::BTreeMap;

/// Requests for one URL among the last ones.
#[derive(Debug, Default, PartialEq)]
pub(super) struct History {
    /// Requests looked at.
    pub(super) of: usize,
    /// Those for this URL, by why they were answered as they were.
    pub(super) reasons: BTreeMap<Reason, usize>,
    /// The last one: when, why and from which origin.
    pub(super) last: Option<(UnixMillis, Reason, String)>,
    /// Another host under which the same path was asked for.
    pub(super) other_host: Option<String>,
}

impl History {
    /// Looks through encoded records, oldest first. `bare` takes out of a target what is for its client alone.
    pub(super) fn of(
        records: &[Box<[u8]>],
        request: &RequestHead,
        bare: impl Fn(&str) -> String,
    ) -> Self {
        let target = bare(&key_target(&request.target));
        let path = path_of(&target);
        let mut history = Self { of: records.len(), ..Self::default() };
        let records = records.iter().filter_map(|record| decode(&mut &record[..]));
        for record in newest_last(records.collect()) {
            let Some(reason) = record.reason() else { continue };
            if path_of(record.target) != path || bare(&key_target(record.target)) != target {
                continue;
            }
            if record.authority != request.authority {
                history.other_host = Some(record.authority.to_owned());
                continue;
            }
            *history.reasons.entry(*reason).or_default() += 1;
            history.last = Some((record.time, *reason, record.origin.to_owned()));
        }
        history
    }

    /// Requests for the URL.
    pub(super) fn count(&self) -> usize {
        self.reasons.values().sum()
    }

    /// The history in words.
    pub(super) fn words(&self, now: UnixMillis) -> String {
        let Some((time, reason, origin)) = &self.last else {
            return format!("not among the last {} requests", self.of);
        };
        let mut counts: Vec<_> = self.reasons.iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let counts: Vec<_> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let from = if origin.is_empty() { String::new() } else { format!(" from {origin}") };
        format!(
            "{} of the last {} requests: {}; the last {} ago: {reason}{from}",
            self.count(),
            self.of,
            counts.join(", "),
            span(now.since(*time)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_node::log::Record;

    fn encoded(authority: &str, target: &str, reason: Reason, at: u64) -> Box<[u8]> {
        let mut out = Vec::new();
        let record = Record {
            time: UnixMillis(at),
            reason: reason as u16,
            authority,
            target,
            origin: "a",
            ..Record::default()
        };
        record.encode(&mut out);
        out.into()
    }

    #[test]
    fn requests_for_the_url_are_counted_whatever_their_cmcd() {
        let records = [
            encoded("tv", "/x?CMCD=br%3D1", Reason::Miss, 1_000),
            encoded("tv", "/y", Reason::Hit, 2_000),
            encoded("tv", "/x", Reason::Hit, 4_000),
            encoded("tv", "/x", Reason::Hit, 3_000),
            encoded("other", "/x", Reason::Hit, 5_000),
        ];
        let request =
            RequestHead { authority: "tv".into(), target: "/x".into(), ..RequestHead::default() };
        let history = History::of(&records, &request, str::to_owned);
        assert_eq!(history.other_host.as_deref(), Some("other"));
        assert_eq!(
            history.words(UnixMillis(9_000)),
            "3 of the last 5 requests: 2 hit, 1 miss; the last 5 s ago: hit from a"
        );
    }

    #[test]
    fn a_url_nobody_asked_for_says_so() {
        let history = History::of(&[], &RequestHead::default(), str::to_owned);
        assert_eq!(history.words(UnixMillis(0)), "not among the last 0 requests");
    }
}

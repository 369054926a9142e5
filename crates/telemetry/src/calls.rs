//! What comes of requests, by what a service says of them (`service_counted` of `[[access]]`): who
//! calls which interface, how often, how long that takes and how it ends.
//!
//! What a service says becomes labels, nothing that a client sends. There are [`GROUPS_MAX`] groups of
//! labels at most; what comes after those is counted together, under the value [`OTHER`].

use freshet_base::counter::SharedCounter;
use freshet_base::histogram::FEW_BUCKETS_US;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Groups that are counted apart.
pub const GROUPS_MAX: usize = 4096;
/// The value of all labels of what comes after those.
pub const OTHER: &str = "other";
/// Longest value of a label; of a longer one the beginning counts.
const VALUE_BYTES_MAX: usize = 128;

/// The groups of a node. They stay over a reload.
#[derive(Debug, Default)]
pub struct Calls(Mutex<HashMap<Labels, Arc<Call>>>);

/// Names and values of what a service says, in the order of the configuration.
pub type Labels = Box<[(Arc<str>, Box<str>)]>;

/// What has come of the requests of one group. Written by all workers.
#[derive(Debug, Default)]
pub struct Call {
    /// Responses by hundreds of their status: index 1 is 1xx.
    pub statuses: [SharedCounter; 6],
    /// Bytes of their bodies.
    pub body_bytes: SharedCounter,
    /// How many took how long to the first byte: by [`FEW_BUCKETS_US`], and those beyond.
    pub first_byte: [SharedCounter; FEW_BUCKETS_US.len() + 1],
    /// The sum of that, in microseconds.
    pub first_byte_us: SharedCounter,
}

impl Calls {
    /// The group of these labels.
    pub fn group<'a>(&self, labels: impl Iterator<Item = (&'a Arc<str>, &'a str)>) -> Arc<Call> {
        let mut labels: Labels =
            labels.map(|(name, value)| (Arc::clone(name), cut(value))).collect();
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !groups.contains_key(&labels) && groups.len() >= GROUPS_MAX {
            labels.iter_mut().for_each(|(_, value)| *value = OTHER.into());
        }
        Arc::clone(groups.entry(labels).or_default())
    }

    /// All groups, in the order of their labels.
    pub fn all(&self) -> Vec<(Labels, Arc<Call>)> {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            groups.iter().map(|(labels, call)| (labels.clone(), Arc::clone(call))).collect();
        drop(groups);
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

impl Call {
    /// Counts a response that is over.
    pub fn note(&self, status: u16, first_byte_us: u64, body_bytes: u64) {
        if let Some(count) = self.statuses.get(usize::from(status / 100)) {
            count.add(1);
        }
        self.body_bytes.add(body_bytes);
        self.first_byte_us.add(first_byte_us);
        let bucket = FEW_BUCKETS_US.partition_point(|end| *end < first_byte_us);
        if let Some(count) = self.first_byte.get(bucket) {
            count.add(1);
        }
    }
}

/// As much of a value as is counted.
fn cut(value: &str) -> Box<str> {
    value.get(..value.floor_char_boundary(VALUE_BYTES_MAX)).unwrap_or(value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(calls: &Calls, values: [&str; 2]) -> Arc<Call> {
        let names = ["api", "client"].map(Into::into);
        calls.group(names.iter().zip(values))
    }

    #[test]
    fn groups_are_bounded_and_what_comes_after_them_is_counted_together() {
        let calls = Calls::default();
        for number in 0..GROUPS_MAX + 10 {
            group(&calls, ["detector", &format!("client-{number}")]).note(200, 1, 1);
        }
        let all = calls.all();
        assert_eq!(all.len(), GROUPS_MAX + 1);
        let other =
            all.iter().find(|(labels, _)| labels.iter().all(|(_, value)| &**value == OTHER));
        assert_eq!(other.unwrap().1.statuses[2].value(), 10);
        // Those that are known go on to be counted apart.
        group(&calls, ["detector", "client-7"]).note(200, 1, 1);
        let sum: u64 = calls.all().iter().map(|(_, call)| call.statuses[2].value()).sum();
        assert_eq!(sum, GROUPS_MAX as u64 + 11);
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let calls = Calls::default();
        let long = format!("{}é", "a".repeat(VALUE_BYTES_MAX - 1));
        group(&calls, [&long, "b"]);
        let (labels, _) = calls.all().pop().unwrap();
        assert_eq!(labels[0].1.len(), VALUE_BYTES_MAX - 1);
    }

    #[test]
    fn times_count_in_the_bucket_that_ends_with_them() {
        let call = Call::default();
        for (us, bucket) in [(0, 0), (1_000, 0), (1_001, 1), (50_000, 5), (10_000_001, 13)] {
            let before = call.first_byte[bucket].value();
            call.note(503, us, 0);
            assert_eq!(call.first_byte[bucket].value(), before + 1, "{us}");
        }
        assert_eq!((call.statuses[5].value(), call.first_byte_us.value()), (5, 10_052_002));
    }
}

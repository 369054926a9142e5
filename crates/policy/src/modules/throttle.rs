//! `vsthrottle`: token buckets by key.

use super::{Arguments, Function, Module, NOTHING, function};
use crate::policy::lock;
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};
use aws_lc_rs::digest;
use std::collections::{HashMap, VecDeque};

pub(super) const MODULE: Module =
    Module { name: "vsthrottle", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("BOOL is_denied(STRING key, INT limit, DURATION period, DURATION block=0)", is_denied),
    function(
        "VOID return_token(STRING key, INT limit, DURATION period, DURATION block=0)",
        return_token,
    ),
    function("INT remaining(STRING key, INT limit, DURATION period, DURATION block=0)", remaining),
    function("DURATION blocked(STRING key, INT limit, DURATION period, DURATION block)", blocked),
    function(
        "VOID remove_bucket(STRING key, INT limit, DURATION period, DURATION block=0)",
        remove_bucket,
    ),
];

/// What a bucket is found by: SHA-256 of a call's key and limits, as in the module of Varnish. A
/// client may choose the key, and not how much of the memory it takes.
type Key = [u8; 32];

/// Buckets of a policy and those that follow it. Where there are so many and none can be let go of, a new key is
/// denied: whoever brings many keys gets nobody's limit forgotten.
const BUCKETS_MAX: usize = 100_000;

/// Buckets looked at in one call for one that can be let go of, so that no call is long.
const LOOKED_AT_MAX: usize = 16;

/// Buckets by what they count.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    buckets: HashMap<Key, Bucket>,
    /// The keys of all of them, in the order in which they are looked at.
    order: VecDeque<Key>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    last: f64,
    period: f64,
    capacity: f64,
    blocked_until: f64,
}

impl Bucket {
    fn new(limit: f64, period: f64, now: f64) -> Self {
        Self { tokens: limit, last: now, period, capacity: limit, blocked_until: 0.0 }
    }

    fn fill(&mut self, now: f64) {
        let passed = (now - self.last).max(0.0);
        self.tokens = (self.tokens + passed / self.period * self.capacity).min(self.capacity);
        self.last = now;
    }

    /// Whether it is as a new one would be.
    fn is_spare(&mut self, now: f64) -> bool {
        self.fill(now);
        self.tokens >= self.capacity && now >= self.blocked_until
    }
}

impl Throttle {
    /// Has `act` do something with the bucket of a key, filled up to `now`; where there is no room for
    /// a new one, with one that is empty and kept by nobody.
    fn with<T>(
        &mut self,
        key: Key,
        limit: f64,
        period: f64,
        now: f64,
        act: impl FnOnce(&mut Bucket) -> T,
    ) -> T {
        if let Some(bucket) = self.buckets.get_mut(&key) {
            bucket.fill(now);
            return act(bucket);
        }
        let mut bucket = Bucket::new(limit, period, now);
        if !self.has_room(now) {
            bucket.tokens = 0.0;
            return act(&mut bucket);
        }
        let result = act(&mut bucket);
        self.order.push_back(key);
        self.buckets.insert(key, bucket);
        result
    }

    /// Whether there is room for another bucket, for which one that counts nothing any more may go.
    fn has_room(&mut self, now: f64) -> bool {
        if self.buckets.len() < BUCKETS_MAX {
            return true;
        }
        for _ in 0..LOOKED_AT_MAX {
            let Some(key) = self.order.pop_front() else { return false };
            if self.buckets.get_mut(&key).is_none_or(|bucket| bucket.is_spare(now)) {
                self.buckets.remove(&key);
                return true;
            }
            self.order.push_back(key);
        }
        false
    }
}

/// Does something with the bucket that a call's arguments name; without a key there is none.
fn with<T>(
    run: &mut Run<'_>,
    arguments: &[Value],
    act: impl FnOnce(&mut Bucket, f64, f64) -> T,
) -> Option<T> {
    if arguments.text(0) == Text::Unset {
        return None;
    }
    let limit = arguments.int(1).max(0) as f64;
    let period = arguments.real(2).max(0.001);
    let block = arguments.real(3).max(0.0);
    let mut digest = digest::Context::new(&digest::SHA256);
    digest.update(run.bytes(arguments.text(0)));
    for limits in [limit, period, block] {
        digest.update(&limits.to_be_bytes());
    }
    let key = digest.finish().as_ref().try_into().ok()?;
    let now = run.view.now;
    let mut throttle = lock(&run.policy.lasting.throttle);
    Some(throttle.with(key, limit, period, now, |bucket| act(bucket, now, block)))
}

fn is_denied(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let denied = with(run, arguments, |bucket, now, block| {
        if now < bucket.blocked_until {
            return true;
        }
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return false;
        }
        if block > 0.0 {
            bucket.blocked_until = now + block;
        }
        true
    });
    Ok(Value::Bool(denied.unwrap_or(true)))
}

fn return_token(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    with(run, arguments, |bucket, _, _| {
        bucket.tokens = (bucket.tokens + 1.0).min(bucket.capacity);
    });
    NOTHING
}

fn remaining(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let left =
        with(
            run,
            arguments,
            |bucket, now, _| {
                if now < bucket.blocked_until { 0.0 } else { bucket.tokens.floor() }
            },
        );
    Ok(Value::Int(left.unwrap_or(-1.0) as i64))
}

fn blocked(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let left = with(run, arguments, |bucket, now, _| (bucket.blocked_until - now).max(0.0));
    Ok(Value::Duration(left.unwrap_or(-1.0)))
}

fn remove_bucket(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    with(run, arguments, |bucket, _, _| {
        bucket.tokens = bucket.capacity;
        bucket.blocked_until = 0.0;
    });
    NOTHING
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(throttle: &mut Throttle, key: usize, now: f64) -> bool {
        let mut name = Key::default();
        name[..8].copy_from_slice(&key.to_be_bytes());
        throttle.with(name, 1.0, 10.0, now, |bucket| {
            let has_one = bucket.tokens >= 1.0;
            bucket.tokens -= f64::from(u8::from(has_one));
            has_one
        })
    }

    #[test]
    fn many_keys_have_nobody_forgotten_and_leave_when_they_are_full_again() {
        let mut throttle = Throttle::default();
        assert!((0..BUCKETS_MAX).all(|key| take(&mut throttle, key, 0.0)));
        assert!(!take(&mut throttle, BUCKETS_MAX, 1.0), "there is no room for it");
        assert!(!take(&mut throttle, 0, 1.0), "it had its one");
        assert_eq!(throttle.buckets.len(), BUCKETS_MAX);
        assert!(take(&mut throttle, BUCKETS_MAX, 11.0), "others are full again");
        assert!(!take(&mut throttle, BUCKETS_MAX, 11.0), "and it is counted");
        assert_eq!(throttle.buckets.len(), BUCKETS_MAX);
        assert_eq!(throttle.order.len(), BUCKETS_MAX);
    }

    #[test]
    fn what_is_blocked_is_kept() {
        let mut bucket = Bucket::new(1.0, 1.0, 0.0);
        bucket.blocked_until = 60.0;
        assert!(!bucket.is_spare(59.0));
        assert!(bucket.is_spare(60.0));
    }
}

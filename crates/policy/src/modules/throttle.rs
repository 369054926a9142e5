//! `vsthrottle`: token buckets by key.

use super::{Arguments, Function, Module, NOTHING, function};
use crate::policy::lock;
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};
use std::collections::HashMap;

pub(super) const MODULE: Module =
    Module { name: "vsthrottle", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("BOOL is_denied(STRING key, INT limit, DURATION period, DURATION block=0)", is_denied),
    function(
        "VOID return_token(STRING key, INT limit, DURATION period, DURATION block=0)",
        return_token,
    ),
    function("INT remaining(STRING key, INT limit, DURATION period, DURATION block=0)", remaining),
    function("DURATION blocked(STRING key, INT limit, DURATION period, DURATION block=0)", blocked),
    function(
        "VOID remove_bucket(STRING key, INT limit, DURATION period, DURATION block=0)",
        remove_bucket,
    ),
];

/// Buckets of one policy. Beyond, those that are full again are dropped, and if that is not
/// enough, all: a moment's forgetting is better than memory without end.
const BUCKETS_MAX: usize = 100_000;

/// Buckets by what they count.
#[derive(Debug, Default)]
pub(crate) struct Throttle(HashMap<Box<[u8]>, Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    last: f64,
    period: f64,
    capacity: f64,
    blocked_until: f64,
}

impl Bucket {
    fn fill(&mut self, now: f64) {
        let passed = (now - self.last).max(0.0);
        self.tokens = (self.tokens + passed / self.period * self.capacity).min(self.capacity);
        self.last = now;
    }
}

impl Throttle {
    /// The bucket of a key, filled up to `now`. Its limits are part of what it is.
    fn bucket(&mut self, key: Box<[u8]>, limit: f64, period: f64, now: f64) -> &mut Bucket {
        if self.0.len() >= BUCKETS_MAX {
            self.0.retain(|_, bucket| now - bucket.last < bucket.period);
            if self.0.len() >= BUCKETS_MAX {
                self.0.clear();
            }
        }
        let bucket = self.0.entry(key).or_insert(Bucket {
            tokens: limit,
            last: now,
            period,
            capacity: limit,
            blocked_until: 0.0,
        });
        bucket.fill(now);
        bucket
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
    let mut key = run.bytes(arguments.text(0)).to_vec();
    key.extend_from_slice(&limit.to_be_bytes());
    key.extend_from_slice(&period.to_be_bytes());
    key.extend_from_slice(&block.to_be_bytes());
    let now = run.view.now;
    let mut throttle = lock(&run.policy.throttle);
    Some(act(throttle.bucket(key.into(), limit, period, now), now, block))
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

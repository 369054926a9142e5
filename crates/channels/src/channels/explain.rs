//! What is known of a channel, for people.

use super::Channels;
use super::channel::Belongs;
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_http::reason::Reason;
use std::time::Duration;

impl Channels {
    /// What is known of the channel something belongs to, for people.
    pub fn explain(&self, key: &Key, now: UnixMillis) -> Option<String> {
        let belongs = self.of(key, now)?;
        let (about, reason, what) = match belongs {
            Belongs::Manifest(about) => {
                (about, Reason::MediaLive, "this is its manifest".to_owned())
            }
            Belongs::Named(about, _, until) => {
                let left = Duration::from_millis(until.0.saturating_sub(now.0));
                (about, about.reason(), format!("this is of use for {}", seconds(left)))
            }
            Belongs::Beside(about) => {
                (about, Reason::MediaLate, "this is beside its segments".to_owned())
            }
            Belongs::Key => {
                return Some(format!("a key that a playlist names ({})", Reason::MediaKey));
            }
        };
        let read = now.since(about.read);
        Some(format!(
            "{} channel, window {}, target {}; {what}; its manifest was read {} ago ({reason})",
            about.class.name(),
            seconds(about.window),
            seconds(about.target),
            seconds(read),
        ))
    }
}

fn seconds(span: Duration) -> String {
    if span.as_secs() >= 10 || span.subsec_millis() == 0 {
        return format!("{} s", span.as_secs());
    }
    format!("{:.1} s", span.as_secs_f64())
}

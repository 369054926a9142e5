//! How far qualities of DASH are followed.

use super::table::Table;
use crate::limits::FOLLOWED_MAX;
use crate::{folders, text_of};
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_media::mpd::{self, Series};
use std::time::Duration;

/// How far a quality of DASH is followed.
pub(super) struct Front {
    pub(super) channel: u128,
    /// The number or time of the segment that was fetched last.
    pub(super) value: u64,
    /// Whether it was a player that asked for it.
    pub(super) is_asked: bool,
}

/// What comes next in a quality of DASH.
#[derive(Clone, Debug, PartialEq)]
pub struct Coming {
    /// The text of the key of the segment before, where that was fetched ahead and no player is known to
    /// have asked for it.
    pub before: Option<String>,
    /// The next one's number or time, the text of its key, and from when on it can be asked for; `None`
    /// where it is not known yet.
    pub next: Option<(u64, String, UnixMillis)>,
    /// The longest segment of the channel.
    pub target: Duration,
}

impl Table {
    pub(super) fn note_front(&mut self, key: &Key) -> Option<Box<str>> {
        let (channel, template, _, value) = self.numbered(key)?;
        let template = Box::<str>::from(template);
        let new = Front { channel, value, is_asked: true };
        let is_full = self.followed.len() >= FOLLOWED_MAX;
        match self.followed.get_mut(&template) {
            // Who is behind is behind what others have fetched.
            Some(front) if value < front.value => None,
            Some(front) => {
                *front = new;
                None
            }
            None if is_full => None,
            None => {
                self.followed.insert(template.clone(), new);
                Some(template)
            }
        }
    }

    /// The channel, the template, the series and the number or time of a segment, where its series is known.
    fn numbered(&self, key: &Key) -> Option<(u128, &str, &Series, u64)> {
        let text = text_of(key);
        let channels = folders(text).filter_map(|folder| self.folders.get(folder)).flatten();
        let mut known = channels.filter_map(|id| Some((*id, self.by_key.get(id)?)));
        known.find_map(|(id, of)| {
            of.series.iter().find_map(|(template, series)| {
                Some((id, &**template, series, mpd::value(template, text)?))
            })
        })
    }

    pub(super) fn next_of(&self, key: &Key) -> Option<String> {
        let (_, template, series, value) = self.numbered(key)?;
        let (next, _) = series.sequel.after(value)?;
        mpd::segment(template, next).rsplit('\0').next().map(str::to_owned)
    }

    pub(super) fn coming(&self, template: &str) -> Option<Coming> {
        let front = self.followed.get(template)?;
        let channel = self.by_key.get(&front.channel)?;
        let sequel = &channel.series.get(template)?.sequel;
        let text = |value| mpd::segment(template, value);
        Some(Coming {
            before: (!front.is_asked).then(|| text(front.value)),
            next: sequel.after(front.value).map(|(value, at)| (value, text(value), at)),
            target: channel.about.target,
        })
    }
}

//! Where a player of low-latency HLS is (draft-pantos-hls-rfc8216bis §6.3): it plays part by part, and asks for
//! the playlist that has the next one, which the server answers when it is there.

use freshet_media::hls::{Part, Playlist};

/// The last part that was taken, by the number of its segment and its place in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Position {
    last: Option<(u64, u64)>,
}

impl Position {
    /// As far behind the newest part as the playlist wants; `None` where it has no low latency.
    pub(super) fn first(playlist: &Playlist) -> Option<Self> {
        let hold_back = playlist.part_hold_back.filter(|_| !playlist.ended)?;
        let mut ahead = hold_back;
        let parts = playlist.parts.iter().rev();
        let before = parts.skip_while(|part| {
            let is_ahead = !ahead.is_zero();
            ahead = ahead.saturating_sub(part.media.duration);
            is_ahead
        });
        Some(Self { last: before.map(number).next() })
    }

    /// The part after the last one; the oldest there is where that has left.
    pub(super) fn after<'a>(&self, playlist: &'a Playlist) -> Option<&'a Part> {
        playlist.parts.iter().find(|part| self.last.is_none_or(|last| number(part) > last))
    }

    /// Goes on to it.
    pub(super) fn take(&mut self, part: &Part) {
        self.last = Some(number(part));
    }
}

fn number(part: &Part) -> (u64, u64) {
    (part.sequence, part.index)
}

/// The query for the version of a playlist that has one part more.
pub(super) fn directives(playlist: &Playlist) -> String {
    let sequence = playlist.end();
    let parts = playlist.parts.iter().rev().take_while(|part| part.sequence == sequence).count();
    format!("_HLS_msn={sequence}&_HLS_part={parts}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::find;
    use crate::manifest::hls::playlist;
    use crate::programme::{Kind, Schedule};
    use freshet_base::clock::UnixMillis;

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 2000, part_ms: Some(400), window_segments: 5, title_segments: 3 };

    fn at(ms: u64) -> Playlist {
        let rung = find("variant02/hlshv/4770KB").unwrap();
        let now = UnixMillis(SCHEDULE.live_start(50).0 + ms);
        Playlist::read(playlist(Kind::Live, rung, &SCHEDULE, now, false).as_bytes()).unwrap()
    }

    #[test]
    fn a_player_begins_three_parts_behind_and_asks_for_the_next() {
        let now = at(900);
        let mut position = Position::first(&now).unwrap();
        for want in [(49, 4), (50, 0), (50, 1)] {
            let part = position.after(&now).unwrap();
            assert_eq!(number(part), want);
            position.take(part);
        }
        assert_eq!(position.after(&now), None);
        assert_eq!(directives(&now), "_HLS_msn=50&_HLS_part=2");
        assert_eq!(directives(&at(2000)), "_HLS_msn=51&_HLS_part=0");
        let next = at(1200);
        let part = position.after(&next).unwrap();
        assert_eq!((number(part), part.media.uri.as_str()), ((50, 2), "50.2.m4s"));
        assert_eq!(part.media.end, Some(UnixMillis(SCHEDULE.live_start(50).0 + 1200)));
    }

    #[test]
    fn who_fell_behind_goes_on_with_what_is_listed() {
        let position = Position { last: Some((3, 0)) };
        assert_eq!(position.after(&at(0)).map(number), Some((47, 0)));
    }
}

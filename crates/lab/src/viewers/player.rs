//! One viewer: opens a programme, fetches ahead of the playback, and keeps time.

use super::adaptive::Estimate;
use super::client::{Client, Fault};
use super::meter::Meter;
use super::source::{Next, Piece, Source};
use super::words::{Fields, Words};
use super::{Format, Pace, Quality, Settings};
use freshet_base::clock::UnixMillis;
use freshet_load::content::mix;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a viewer pauses before it tries another programme after a fault.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Watches one programme after the other, without end. `viewer` counts from 0.
pub(super) async fn watch(settings: Arc<Settings>, viewer: u64, meter: Arc<Meter>) {
    let share = viewer as f64 / settings.viewers.max(1) as f64;
    sleep(settings.ramp.mul_f64(share)).await;
    let target = Arc::new(settings.target.clone());
    let mut client = Client::new(target, meter.clone());
    let mut choice = mix(settings.seed ^ mix(viewer));
    loop {
        choice = mix(choice);
        let Some(viewing) =
            settings.audience.get((choice % settings.audience.len().max(1) as u64) as usize)
        else {
            return;
        };
        let watched = async {
            let quality_choice = mix(choice ^ 1);
            let opened = Instant::now();
            let mut source =
                Source::open(&mut client, viewing, settings.quality, quality_choice).await?;
            let _watching = Watching::new(&meter);
            let format = viewing.format;
            let mut watched = Watched {
                playback: Playback::default(),
                settings: &settings,
                meter: &meter,
                opened,
                // From half of it to half as much again.
                leaves: settings
                    .stay
                    .map(|stay| opened + stay / 2 + stay.mul_f64(share_of(choice))),
                session: choice,
                format,
                is_starved: false,
            };
            watched.play(&mut client, &mut source).await
        };
        let ended = watched.await;
        client.say(Vec::new());
        if let Err(fault) = ended {
            meter.count_fault(fault);
            tracing::debug!(?fault, path = viewing.path, "a viewer gave up a programme");
            sleep(RETRY_PAUSE).await;
        }
    }
}

/// Counts a viewer among those that watch, for as long as it lives.
struct Watching<'a>(&'a Meter);

impl<'a> Watching<'a> {
    fn new(meter: &'a Meter) -> Self {
        meter.watching.add(1);
        Self(meter)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.watching.subtract(1);
    }
}

/// A part of one that follows from a choice.
fn share_of(choice: u64) -> f64 {
    (mix(choice ^ 2) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A programme that is watched.
struct Watched<'a> {
    playback: Playback,
    settings: &'a Settings,
    meter: &'a Meter,
    /// When it was first asked for.
    opened: Instant,
    /// When its viewer has seen enough, where that is not at its end.
    leaves: Option<Instant>,
    /// What it is called where it says how it is doing.
    session: u64,
    format: Format,
    /// Whether it stood still since it last said so.
    is_starved: bool,
}

impl Watched<'_> {
    /// Plays to the end of a title, until its viewer leaves, or until a fault.
    async fn play(&mut self, client: &mut Client, source: &mut Source) -> Result<(), Fault> {
        let (settings, meter) = (self.settings, self.meter);
        let mut estimate = Estimate::default();
        // Who came sees something.
        while self.playback.runs_dry.is_none()
            || self.leaves.is_none_or(|leaves| Instant::now() < leaves)
        {
            match source.next(client).await? {
                Next::Wait(span) => sleep(span).await,
                Next::End => {
                    if settings.pace == Pace::RealTime {
                        sleep(self.playback.ahead(Instant::now())).await;
                    }
                    return Ok(());
                }
                Next::Fetch(piece) => {
                    let asked = Instant::now();
                    let bytes = self.fetch(client, source, &piece).await?;
                    let (now, duration) = (Instant::now(), piece.duration);
                    // What comes as it is made says nothing of what the way to it carries.
                    if piece.chunk.is_none() {
                        estimate.add(bytes, now - asked);
                    }
                    let played_ms = duration.as_millis() as u64;
                    meter.played_ms.add(played_ms);
                    meter.played_bits.add(source.bandwidth().saturating_mul(played_ms) / 1000);
                    if settings.pace == Pace::RealTime {
                        let buffer = duration.saturating_mul(settings.buffer_segments);
                        sleep(self.playback.ahead(now).saturating_sub(buffer)).await;
                    }
                    if settings.quality == Quality::Adaptive {
                        let ahead = self.playback.ahead(Instant::now());
                        let choice = estimate.choose(source.bandwidths(), ahead, duration);
                        if source.switch(client, choice).await? {
                            meter.switches.add(1);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What is said with the request for a piece of a track.
    fn words(&mut self, source: &Source, piece: &Piece, is_video: bool) -> Fields {
        let words = Words {
            session: self.session,
            format: self.format,
            is_live: source.is_live(),
            is_video,
            bandwidth: source.bandwidth(),
            buffer: self.playback.ahead(Instant::now()),
            is_start_up: self.playback.runs_dry.is_none(),
            is_starved: std::mem::take(&mut self.is_starved),
            next: piece.next.as_deref().filter(|_| is_video),
        };
        words.fields()
    }

    /// Fetches what comes next, and plays it as it comes; how many bytes it had.
    async fn fetch(
        &mut self,
        client: &mut Client,
        source: &Source,
        piece: &Piece,
    ) -> Result<u64, Fault> {
        let (mut bytes, mut came) = (0, 0);
        for (track, path) in piece.paths.iter().enumerate() {
            if self.settings.says {
                client.say(self.words(source, piece, track == 0));
            }
            let fetched = client.chunks(path, |chunks| {
                for _ in 0..chunks {
                    if let (0, Some(chunk)) = (track, piece.chunk) {
                        came += 1;
                        let left = piece.duration.saturating_sub(chunk * came);
                        let end = piece.end.map(|end| before(end, left));
                        self.append(chunk, end, piece.is_newest);
                    }
                }
            });
            match fetched.await {
                Ok(count) => {
                    bytes += count;
                    self.meter.segments.add(1);
                }
                // One lost segment is a glitch; a player goes on with the next.
                Err(fault @ Fault::Status(_)) => self.meter.count_fault(fault),
                Err(fault) => return Err(fault),
            }
        }
        if came == 0 {
            self.append(piece.duration, piece.end, piece.is_newest);
        }
        Ok(bytes)
    }

    /// Plays on: media that ends at `end` on the clock has come.
    fn append(&mut self, duration: Duration, end: Option<UnixMillis>, is_newest: bool) {
        let (meter, now) = (self.meter, Instant::now());
        if self.playback.runs_dry.is_none() {
            meter.record_start_up(now - self.opened);
        }
        let stalled = self.playback.append(duration, now);
        if !stalled.is_zero() && self.settings.pace == Pace::RealTime {
            self.is_starved = true;
            meter.late.add(1);
            meter.stalled_ms.add(stalled.as_millis() as u64);
        }
        if let Some(end) = end {
            let since = UnixMillis::now().since(end);
            meter.record_behind_live(since + self.playback.ahead(now));
            if is_newest {
                meter.record_delivery(since);
            }
        }
    }
}

fn before(time: UnixMillis, span: Duration) -> UnixMillis {
    UnixMillis(time.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

/// Where the playback is and how much there is to play.
#[derive(Debug, Default)]
struct Playback {
    /// When everything fetched so far will have been played; `None` before the first segment.
    runs_dry: Option<Instant>,
}

impl Playback {
    /// Adds `duration` of media that arrived at `now`; how long the playback had stood still for it.
    fn append(&mut self, duration: Duration, now: Instant) -> Duration {
        let stalled = self
            .runs_dry
            .map_or(Duration::ZERO, |runs_dry| now.saturating_duration_since(runs_dry));
        let from = self.runs_dry.map_or(now, |runs_dry| runs_dry.max(now));
        self.runs_dry = Some(from + duration);
        stalled
    }

    /// How much is left to play at `now`.
    fn ahead(&self, now: Instant) -> Duration {
        self.runs_dry.map_or(Duration::ZERO, |runs_dry| runs_dry.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_late_when_the_buffer_ran_dry_before_it_came() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut playback = Playback::default();
        assert_eq!(playback.append(2 * second, start), Duration::ZERO);
        assert_eq!(playback.append(2 * second, start + second), Duration::ZERO);
        assert_eq!(playback.ahead(start + second), 3 * second);
        assert_eq!(playback.append(2 * second, start + 5 * second), second);
        assert_eq!(playback.ahead(start + 5 * second), 2 * second);
        assert_eq!(playback.ahead(start + 60 * second), Duration::ZERO);
    }
}

//! Acknowledgements, losses and time (RFC 9002).

use super::super::congestion::Arrival;
use super::super::datagram_size::DatagramSize;
use super::super::error::Error;
use super::super::frame::Ack;
use super::super::limits::BACKOFFS_MAX;
use super::super::reordering::Tolerance;
use super::super::rtt::GRANULARITY;
use super::super::sent::Carried;
use super::super::space::{Level, Space};
use super::super::streams::Due;
use super::{Closed, Connection, Phase};
use std::ops::Range;
use std::time::Duration;

/// So many probe timeouts of nothing but losses mean that the way has changed (RFC 9002 §7.6.1).
const COLLAPSE_TIMEOUTS: u32 = 3;

/// Bytes of a stream that arrived, of one packet or of several.
#[derive(Debug)]
struct Arrived {
    stream: u64,
    range: Range<u64>,
    ends: bool,
}

impl Arrived {
    /// Adds what arrived too, where it is right in front. Where it is not, it is `known` from now on, and
    /// what was before is returned.
    fn join(known: &mut Option<Self>, more: Self) -> Option<Self> {
        match known {
            Some(known) if known.stream == more.stream && known.range.start == more.range.end => {
                known.range.start = more.range.start;
                known.ends |= more.ends;
                None
            }
            _ => known.replace(more),
        }
    }
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// Packets arrived. False when that was known.
    pub(super) fn acknowledged(
        &mut self,
        level: Level,
        ack: &Ack<'_>,
        now: Duration,
    ) -> Result<bool, Error> {
        let never_sent = || Error::NEVER_SENT;
        let Space { sent, received, crypto_out, .. } = self.spaces.of(level);
        let (streams, path, congestion) = (&mut self.streams, &mut self.path, &mut self.congestion);
        let (asking, peer) = (&mut self.asking, &mut self.peer);
        let rtt = self.rtt.smoothed;
        let is_limited = self.is_window_limited;
        let mut bytes_acknowledged = 0;
        let (mut newest, mut is_eliciting, mut is_new, mut marked) = (None, false, false, 0);
        let is_ahead = sent.largest_acked < Some(ack.largest);
        let next = sent.next_number();
        // The packets of a batch were sent at one time and carry, from the last to the first, what is in
        // a row of one stream mostly.
        let mut arrived: Option<Arrived> = None;
        let is_data = level == Level::OneRtt;
        let mut batch = Arrival { now, sent: Duration::ZERO, last: 0, bytes: 0, is_data };
        sent.acknowledge(ack, |gone, carried| {
            is_new = true;
            is_eliciting |= gone.how.is_eliciting;
            if gone.how.is_marked {
                marked += gone.packets;
            }
            if gone.last == ack.largest {
                newest = Some(gone.sent);
            }
            bytes_acknowledged += gone.bytes;
            if gone.bytes > 0 {
                if gone.sent != batch.sent || batch.bytes == 0 {
                    if batch.bytes > 0 {
                        congestion.acknowledged(&batch, rtt, is_limited);
                    }
                    batch = Arrival { sent: gone.sent, last: gone.last, bytes: 0, ..batch };
                }
                batch.bytes += gone.bytes;
            }
            if gone.how.is_probe {
                path.datagram_size.arrived(gone.last);
            } else if DatagramSize::is_large(gone.packets, gone.bytes) {
                path.datagram_size.large_arrived();
            }
            for carried in carried {
                match carried {
                    Carried::Stream { stream, offset, len, ends } => {
                        let range = offset..offset + u64::from(len);
                        let more = Arrived { stream, range, ends };
                        if let Some(other) = Arrived::join(&mut arrived, more) {
                            streams.acknowledge(other.stream, other.range, other.ends);
                        }
                    }
                    Carried::Crypto { offset, len } => {
                        crypto_out.acknowledge(offset..offset + u64::from(len));
                    }
                    Carried::Ack { largest } => received.settle(largest),
                    Carried::ResetStream { stream } => streams.reset_arrived(stream),
                    Carried::AckFrequency { sequence } => {
                        if let Some(delay_max) = asking.arrived(sequence) {
                            peer.ack_delay_max = delay_max;
                        }
                    }
                    _ => {}
                }
            }
        })
        .map_err(|_| never_sent())?;
        if batch.bytes > 0 {
            congestion.acknowledged(&batch, rtt, is_limited);
        }
        if let Some(Arrived { stream, range, ends }) = arrived {
            streams.acknowledge(stream, range, ends);
        }
        if !is_new {
            return Ok(self.came_after_all(level, ack, now));
        }
        self.waiting = now;
        self.bytes_in_flight -= bytes_acknowledged;
        if let Some(sent) = newest.filter(|_| is_eliciting) {
            let held = match level {
                Level::OneRtt => {
                    let micros = ack.delay.saturating_mul(1 << self.peer.ack_delay_exponent);
                    Duration::from_micros(micros).min(self.peer.ack_delay_max)
                }
                Level::Initial | Level::Handshake => Duration::ZERO,
            };
            let latest = now.saturating_sub(sent);
            self.rtt.sample(latest, held);
            if level == Level::OneRtt {
                self.congestion.measured(latest, ack.largest, next);
            }
        }
        // Counts in acknowledgements that were overtaken say nothing.
        if level == Level::OneRtt && is_ahead {
            let (before, marking) = (&mut self.marks_told, &mut self.path.marking);
            let had_failed = marking.has_failed();
            let more = marking.acknowledged(marked, ack.counts, before, self.marked_sent);
            self.statistics.packets_congested += more;
            self.marks.congested += more;
            self.marks.failed += u64::from(!had_failed && marking.has_failed());
            if let Some(sent) = newest.filter(|_| more > 0) {
                self.congestion.marked(now, sent);
            }
        }
        // A client may not know that it is believed before the handshake is over.
        if self.path.is_validated {
            self.probe_count = 0;
        }
        self.came_after_all(level, ack, now);
        self.detect_lost(level, now);
        let oldest = self.spaces.data.sent.first();
        self.congestion.settle(now, self.bytes_in_flight, oldest, &self.rtt);
        if level == Level::OneRtt {
            let packets = self.congestion.window() / self.path.datagram_bytes() as u64;
            self.asking.consider(packets, self.rtt.smoothed);
        }
        Ok(true)
    }

    /// Looks for what was taken for lost in an acknowledgement; whether there is any.
    fn came_after_all(&mut self, level: Level, ack: &Ack<'_>, now: Duration) -> bool {
        let (congestion, statistics) = (&mut self.congestion, &mut self.statistics);
        level == Level::OneRtt
            && self.reordering.acknowledged(ack, now, &self.rtt, |sent, packets| {
                congestion.came(sent, packets);
                statistics.packets_late += packets;
            })
    }

    /// Takes packets for lost that are by now.
    fn detect_lost(&mut self, level: Level, now: Duration) {
        let is_data = level == Level::OneRtt;
        let tolerance = if is_data { self.reordering.tolerance() } else { Tolerance::FIRST };
        let delay = tolerance.delay(&self.rtt);
        let collapse = self.rtt.probe_timeout() + self.peer.ack_delay_max;
        let collapse = collapse * COLLAPSE_TIMEOUTS;
        let mut bytes = 0;
        let mut packets = 0;
        // The last of those lost in a row, and since when.
        let mut row: Option<(u64, Duration)> = None;
        let mut has_collapsed = false;
        let mut lost = Vec::new();
        let is_measured = self.rtt.is_known();
        let (mut probe_lost, mut is_large) = (None, false);
        let (space, congestion) = (self.spaces.of(level), &mut self.congestion);
        let reordering = &mut self.reordering;
        let loss_at = space.sent.detect_lost(now, delay, tolerance.packets, |gone, carried| {
            bytes += gone.bytes;
            packets += gone.packets;
            lost.extend(carried);
            if gone.how.is_probe {
                probe_lost = Some(gone.last);
                return;
            }
            if !gone.how.is_eliciting {
                return;
            }
            is_large |= DatagramSize::is_large(gone.packets, gone.bytes);
            congestion.lost(gone, now, is_data);
            if is_data {
                reordering.lost(gone, now, now + collapse);
            }
            let since = match row {
                Some((last, since)) if last + gone.packets == gone.last => since,
                _ => gone.sent,
            };
            row = Some((gone.last, since));
            has_collapsed |= is_measured && gone.sent.saturating_sub(since) > collapse;
        });
        space.loss_at = loss_at;
        self.statistics.packets_lost += packets;
        self.bytes_in_flight -= bytes;
        if let Some(number) = probe_lost {
            self.path.datagram_size.lost(number);
        }
        if is_large {
            self.path.datagram_size.large_lost();
        }
        if has_collapsed {
            self.congestion.collapsed();
        }
        for carried in lost {
            self.tell_again(level, carried);
        }
    }

    /// What a packet carried has to be told again.
    fn tell_again(&mut self, level: Level, carried: Carried) {
        match carried {
            Carried::Stream { stream, offset, len, ends } => {
                self.streams.lose(stream, offset..offset + u64::from(len), ends);
            }
            Carried::Crypto { offset, len } => {
                self.space(level).crypto_out.lose(offset..offset + u64::from(len));
            }
            Carried::Ack { .. } => {}
            Carried::MaxData => self.streams.lose_due(Due::MaxData),
            Carried::MaxStreamData { stream } => {
                self.streams.lose_due(Due::MaxStreamData(stream));
            }
            Carried::MaxStreams { is_both_ways } => {
                self.streams.lose_due(Due::MaxStreams { is_both_ways });
            }
            Carried::ResetStream { stream } => self.streams.lose_due(Due::ResetStream(stream)),
            Carried::StopSending { stream } => self.streams.lose_due(Due::StopSending(stream)),
            Carried::NewConnectionId { sequence } => self.own_ids.telling_lost(sequence),
            Carried::RetireConnectionId { sequence } => self.peer_ids.retirement_lost(sequence),
            Carried::HandshakeDone => self.is_done_due = true,
            Carried::NewToken => self.is_token_wanted = true,
            Carried::AckFrequency { sequence } => self.asking.lost(sequence),
        }
    }

    /// When [`on_timeout`](Self::on_timeout) has to be called; later is not wrong.
    pub fn timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Open => {}
            Phase::Closing(end) | Phase::Draining(end) => return Some(end),
            Phase::Over => return None,
        }
        let idle = self.idle_timeout().map(|timeout| self.idle_since() + timeout);
        let may_speak = self.may_speak();
        let acks = self.spaces.iter().filter_map(|(_, space)| space.received.due());
        let acks = acks.filter(|_| may_speak);
        let losses = self.spaces.iter().filter_map(|(_, space)| space.loss_at);
        let path = self.path.challenge.map(|challenge| challenge.until);
        let pace = self.paced_until();
        let probe = self.probe_at().map(|(at, _)| at);
        let rest = self.rests_at();
        acks.chain(losses).chain(idle).chain(path).chain(pace).chain(probe).chain(rest).min()
    }

    /// Since when nothing was heard, or nothing of what is in flight acknowledged: a client that speaks
    /// and takes nothing would hold what was sent to it for ever.
    fn idle_since(&self) -> Duration {
        if self.bytes_in_flight > 0 { self.heard.min(self.waiting) } else { self.heard }
    }

    /// When something has to be sent to hear from the client, and at which level.
    fn probe_at(&self) -> Option<(Duration, Level)> {
        if !self.may_speak() {
            return None;
        }
        let backoff = 1 << self.probe_count.min(BACKOFFS_MAX);
        let mut first: Option<(Duration, Level)> = None;
        for (level, space) in self.spaces.iter() {
            if space.sent.eliciting == 0 || space.loss_at.is_some() {
                continue;
            }
            let mut wait = self.rtt.probe_timeout();
            if level == Level::OneRtt {
                if !self.is_established {
                    continue;
                }
                wait += self.peer.ack_delay_max;
            }
            let at = space.sent.last_eliciting + wait * backoff;
            if first.is_none_or(|(other, _)| at < other) {
                first = Some((at, level));
            }
        }
        first
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Duration) {
        match self.phase {
            Phase::Open => {}
            Phase::Closing(end) | Phase::Draining(end) => {
                if now >= end {
                    self.phase = Phase::Over;
                }
                return;
            }
            Phase::Over => return,
        }
        if self.idle_timeout().is_some_and(|timeout| now >= self.idle_since() + timeout) {
            return self.close_with(Closed::Idle, now);
        }
        if self.rests_at().is_some_and(|at| now >= at) {
            self.rest();
        }
        if let Err(error) = self.challenge_again(now) {
            return self.close_with(Closed::ByError(error), now);
        }
        let is_due = |(level, space): (Level, &Space)| {
            space.loss_at.is_some_and(|at| now >= at).then_some(level)
        };
        let due: Vec<Level> = self.spaces.iter().filter_map(is_due).collect();
        if !due.is_empty() {
            return due.into_iter().for_each(|level| self.detect_lost(level, now));
        }
        if let Some((at, level)) = self.probe_at()
            && now + GRANULARITY > at
        {
            self.probe(level, now);
        }
    }

    /// The oldest packets are told again, whatever is in flight.
    pub(super) fn tell_oldest(&mut self, level: Level) {
        let mut oldest = Vec::new();
        let space = self.space(level);
        space.probes = 2;
        space.sent.oldest(2, |carried| oldest.push(carried));
        for carried in oldest {
            self.tell_again(level, carried);
        }
    }

    /// Nothing was heard: the oldest packets are told again, whatever is in flight.
    fn probe(&mut self, level: Level, now: Duration) {
        self.statistics.probes += 1;
        self.probe_count += 1;
        self.tell_oldest(level);
        // A part of the handshake that was lost may be all that the client waits for, while other levels
        // fill the window (RFC 9002 §6.2.4).
        for (_, space) in self.spaces.iter_mut() {
            if space.has_crypto() {
                space.probes = space.probes.max(1);
            }
        }
        if self.is_early() {
            // The client may not have had the keys of what acknowledged its early data, which fills its
            // window until something does.
            self.space(Level::OneRtt).received.repeat(now);
        }
        if self.probe_count == 3 {
            self.path.shrink();
        }
    }
}

//! Which requests are sampled, and how their spans come to be sent.

use crate::background::Background;
use crate::collector::Collector;
use crate::context::{Context, number};
use crate::known::Known;
use crate::limits::QUEUE_SPANS_MAX;
use crate::span::Span;
use freshet_config::traces::Tracing;
use freshet_http::message::Scheme;
use freshet_node::transcript::{Outcome, Records, Scribe, Side};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc::{Sender, channel};

/// A node's tracer, until [`Tracer::stop`].
#[derive(Debug)]
pub struct Tracer {
    /// One of so many requests; 0 is none.
    sample: u64,
    follow: Vec<freshet_config::traces::Network>,
    /// What makes the choice of requests nobody can guess.
    salt: u64,
    known: Known,
    sending: Background<Sender<Box<Span>>>,
    /// Spans that nobody was told of.
    lost: Arc<AtomicU64>,
}

impl Tracer {
    /// Begins to send to a collector.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(settings: &Tracing, collector: Collector) -> std::io::Result<Arc<Self>> {
        let (spans, waiting) = channel(QUEUE_SPANS_MAX);
        let lost = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&lost);
        let sending =
            Background::start("traces", spans, move || collector.follow(waiting, counted))?;
        Ok(Arc::new(Self {
            sample: settings.sample,
            follow: settings.follow.clone(),
            salt: number() as u64,
            known: Known::new(),
            sending,
            lost,
        }))
    }

    /// Sends what there is, and ends.
    pub fn stop(&self) {
        self.sending.stop();
    }

    /// Whether it is the turn of a request that is in nobody's trace.
    fn is_chosen(&self, id: u64) -> bool {
        // The last step of SplitMix64: numbers are given in rows.
        let mixed = (id ^ self.salt).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.sample > 0 && (mixed ^ (mixed >> 29)).is_multiple_of(self.sample)
    }
}

impl Scribe for Tracer {
    fn wants_request(&self, id: u64, client: Option<IpAddr>, traceparent: Option<&[u8]>) -> bool {
        let is_followed =
            |client: IpAddr| self.follow.iter().any(|network| network.contains(client));
        let said = traceparent.filter(|_| client.is_some_and(is_followed)).and_then(Context::parse);
        // Who is followed has decided for all of the trace.
        let context = match said {
            Some(said) if said.is_sampled => said.child(),
            Some(_) => return false,
            None if self.is_chosen(id) => Context::root(),
            None => return false,
        };
        self.known.add(id, context);
        true
    }

    fn wants(&self, id: u64, kind: &str, parent: u64) -> bool {
        // Connections are of no trace: their requests are.
        let parent = if kind == "sess" { None } else { self.known.context(parent) };
        if let Some(parent) = &parent {
            self.known.add(id, parent.child());
        }
        parent.is_some()
    }

    fn traceparent(&self, id: u64) -> Option<String> {
        self.known.context(id).map(|context| context.to_string())
    }

    fn answered(&self, id: u64, outcome: &Outcome<'_>) {
        // Its last record is still to come.
        let _ = self.known.tell(id, |span| span.answered(outcome));
    }

    fn asks(&self, id: u64, scheme: Scheme) {
        let _ = self.known.tell(id, |span| span.scheme = Some(scheme));
    }

    fn take(&self, id: u64, side: Side, records: &Records) {
        let tell = |span: &mut Span| {
            records.iter().for_each(|(tag, text)| span.take(side, tag, text));
        };
        let Some(span) = self.known.tell(id, tell) else { return };
        if !self.sending.with(|spans| spans.try_send(span).is_ok()).unwrap_or_default() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(sample: u64, follow: &str) -> Tracer {
        Tracer {
            sample,
            follow: vec![follow.parse().unwrap()],
            salt: 7,
            known: Known::new(),
            sending: Background::ended(),
            lost: Arc::default(),
        }
    }

    const FIELD: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn one_of_so_many_is_chosen_and_all_that_is_done_for_it() {
        let tracer = tracer(100, "10.0.0.0/8");
        let chosen: Vec<_> =
            (0..100_000).filter(|id| tracer.wants_request(*id, None, None)).collect();
        assert!((800..1200).contains(&chosen.len()), "{}", chosen.len());
        let id = *chosen.last().unwrap();
        assert!(tracer.wants(200_000, "bereq", id) && !tracer.wants(200_001, "bereq", id + 1));
        assert!(!tracer.wants(200_002, "sess", 0));
        let [own, fetch] = [id, 200_000].map(|id| tracer.known.context(id).unwrap());
        assert_eq!((fetch.trace, fetch.parent), (own.trace, own.span));
        assert_eq!(tracer.traceparent(200_000), Some(fetch.to_string()));
        assert!((0..1000).all(|id| self::tracer(1, "::/0").wants_request(id, None, None)));
        assert!(!(0..1000).any(|id| self::tracer(0, "::/0").wants_request(id, None, None)));
    }

    #[test]
    fn only_who_is_followed_decides_for_this_node() {
        let tracer = tracer(0, "10.0.0.0/8");
        let (friend, stranger) = (Some([10, 1, 1, 1].into()), Some([192, 0, 2, 1].into()));
        assert!(tracer.wants_request(1, friend, Some(FIELD)));
        let context = tracer.known.context(1).unwrap();
        assert_eq!((context.trace >> 96, context.parent), (0x4bf9_2f35, 0x00f0_67aa_0ba9_02b7));
        assert!(!tracer.wants_request(2, stranger, Some(FIELD)));
        assert!(!tracer.wants_request(3, None, Some(FIELD)));
        assert!(!tracer.wants_request(4, friend, Some(b"nonsense")));
        let all = self::tracer(1, "10.0.0.0/8");
        let unsampled = FIELD.strip_suffix(b"1").unwrap().iter().copied().chain(*b"0");
        assert!(!all.wants_request(5, friend, Some(&unsampled.collect::<Vec<_>>())));
        assert!(all.wants_request(6, stranger, Some(FIELD)));
        assert_ne!(all.known.context(6).unwrap().trace, context.trace);
    }
}

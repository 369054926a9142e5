//! How far this node is in an order of purges that the nodes around it follow as well.
//!
//! A node that has carried out a purge says so to its parents with what it asks for, and is not
//! answered from anything older (`tier` of the requests). Without an order nothing is said.

use freshet_http::applied::{NAME, Position};
use freshet_http::fields::Fields;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a request waits for a purge that the node it comes from has carried out and this one has
/// not: nodes hear of one within some round trips, and a request past the cache takes one as well.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Places with a mark that are remembered, to know whether a node behind is in the same history. One that
/// is farther behind is answered past the cache.
const HISTORY_MAX: usize = 1024;

/// The last purge of an order that was carried out here, and all before it; shared by all threads.
#[derive(Default)]
pub struct Applied(watch::Sender<Progress>);

#[derive(Default)]
struct Progress {
    done: History,
    /// What is being carried out. What is fetched meanwhile may come into the cache behind it, so whoever
    /// is asked hears of this already, and whoever asks not yet.
    begun: Option<Position>,
}

/// Where this node is, and with marks also where it was; the latest last.
#[derive(Default)]
struct History(VecDeque<Position>);

impl Applied {
    /// Carries out by `work` what leads to `position`. Back in one order it never goes; another order takes
    /// the place of the one before.
    pub fn carry_out<T>(&self, position: Position, work: impl FnOnce() -> T) -> T {
        self.begin(&position);
        let done = work();
        self.advance(position);
        done
    }

    /// As [`Applied::carry_out`], but in the order this node is in, where it is in one: its parents hear
    /// of one place, so that of another order they could be behind unseen.
    ///
    /// # Errors
    /// Where this node is, in another order; then nothing was done.
    pub fn carry_out_in_order<T>(
        &self,
        position: Position,
        work: impl FnOnce() -> T,
    ) -> Result<T, Position> {
        let mut other = None;
        self.0.send_if_modified(|progress| {
            other = progress.other_order(&position);
            if other.is_none() {
                progress.begin(&position);
            }
            false
        });
        if let Some(other) = other {
            return Err(other);
        }
        let done = work();
        self.advance(position);
        Ok(done)
    }

    /// Goes on from `position`, wherever it was before, once `work` has seen to what was stored: the
    /// history of the order has changed.
    pub fn restart_at(&self, position: Position, work: impl FnOnce()) {
        self.0.send_modify(|progress| progress.begun = Some(position.clone()));
        work();
        self.0.send_modify(|progress| {
            progress.begun = None;
            progress.done.0.clear();
            progress.done.note(position);
        });
    }

    /// Nobody waits for a beginning, and nobody is woken.
    fn begin(&self, position: &Position) {
        self.0.send_if_modified(|progress| {
            progress.begin(position);
            false
        });
    }

    /// Notes that all up to `position` is carried out.
    pub fn advance(&self, position: Position) {
        self.0.send_if_modified(|Progress { done, begun }| {
            let is_news = !done.covers(&position);
            if is_news {
                done.note(position);
            }
            begun.take_if(|begun| done.covers(begun));
            is_news
        });
    }

    /// How far it is; `None` where it has carried out nothing in any order.
    pub fn position(&self) -> Option<Position> {
        self.0.borrow().done.0.back().cloned()
    }

    /// Whether all up to `position` is carried out, now or in a moment.
    pub async fn reaches(&self, position: &Position) -> bool {
        let mut progress = self.0.subscribe();
        // A node that is in no order will not be in one in a moment.
        if progress.borrow().done.0.is_empty() {
            return false;
        }
        let reached = progress.wait_for(|progress| progress.done.covers(position));
        timeout(CATCH_UP, reached).await.is_ok_and(|reached| reached.is_ok())
    }

    /// Puts into a request how far the nodes are that ask with it: for a parent, and for nobody else.
    /// What is there already is what a node behind this one says, which is ahead of it.
    pub fn put_into(&self, request: &mut Fields, is_for_parent: bool) {
        let said = request.get(NAME).and_then(Position::parse);
        let progress = self.0.borrow();
        let own = progress.begun.as_ref().or_else(|| progress.done.0.back());
        match (own.filter(|_| is_for_parent), said) {
            (Some(own), Some(said)) if said != *own && !progress.done.covers(&said) => {}
            (Some(own), _) => request.set(NAME, own.to_string()),
            (None, Some(_)) if is_for_parent => {}
            (None, _) => {
                request.remove(NAME);
            }
        }
    }
}

impl Progress {
    /// Where it is, or is about to be, in another order than that of `position`.
    fn other_order(&self, position: &Position) -> Option<Position> {
        let present = self.begun.as_ref().or_else(|| self.done.0.back());
        present.filter(|present| present.stream() != position.stream()).cloned()
    }

    fn begin(&mut self, position: &Position) {
        let is_later = |begun: &Position| {
            begun.stream() == position.stream() && begun.sequence() > position.sequence()
        };
        if !self.done.covers(position) && !self.begun.as_ref().is_some_and(is_later) {
            self.begun = Some(position.clone());
        }
    }
}

impl History {
    /// Whether all that is carried out at `position` is so here. Of another order nothing is known, and
    /// with a mark nothing of a history this node has not been in.
    fn covers(&self, position: &Position) -> bool {
        let Some(present) = self.0.back() else { return false };
        let is_reached =
            present.stream() == position.stream() && present.sequence() >= position.sequence();
        is_reached && (position.mark().is_none() || self.0.contains(position))
    }

    fn note(&mut self, position: Position) {
        let goes_on = self.0.back().is_some_and(|present| {
            present.stream() == position.stream() && position.mark().is_some()
        });
        if !goes_on {
            self.0.clear();
        }
        self.0.push_back(position);
        if self.0.len() > HISTORY_MAX {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Position {
        text.parse().unwrap()
    }

    #[test]
    fn it_goes_forward_in_one_order_and_over_to_another() {
        let applied = Applied::default();
        assert_eq!(applied.position(), None);
        for (next, after) in [("a.5", "a.5"), ("a.3", "a.5"), ("a.6", "a.6"), ("b.1", "b.1")] {
            applied.advance(at(next));
            assert_eq!(applied.position(), Some(at(after)));
        }
    }

    #[test]
    fn who_is_in_one_order_takes_nothing_of_another() {
        let applied = Applied::default();
        assert_eq!(applied.carry_out_in_order(at("a.1"), || 1), Ok(1));
        assert_eq!(applied.carry_out_in_order(at("b.1"), || 2), Err(at("a.1")));
        let within = || applied.carry_out_in_order(at("b.2"), || 3);
        assert_eq!(applied.carry_out_in_order(at("a.2"), within), Ok(Err(at("a.2"))));
        assert_eq!(applied.position(), Some(at("a.2")));
    }

    #[test]
    fn a_mark_tells_histories_of_one_order_apart() {
        let applied = Applied::default();
        let place = |number: u64, mark: u64| Position::new("a", number).unwrap().marked(mark);
        for number in 1..=3 {
            applied.advance(place(number, number * 11));
        }
        let covers = |position: Position| applied.0.borrow().done.covers(&position);
        assert!(covers(place(2, 22)) && covers(at("a.2")));
        assert!(!covers(place(2, 99)) && !covers(place(4, 44)));
        applied.restart_at(place(2, 99), || assert!(covers(place(2, 22))));
        assert!(covers(place(2, 99)) && !covers(place(2, 22)));
        assert_eq!(applied.position(), Some(place(2, 99)));
        for number in 3..5_000 {
            applied.advance(place(number, number));
        }
        assert_eq!(applied.0.borrow().done.0.len(), HISTORY_MAX);
    }

    #[test]
    fn a_parent_is_told_the_farther_of_two_and_an_origin_nothing() {
        let told = |own: Option<&str>, said: Option<&str>, is_for_parent| {
            let applied = Applied::default();
            own.map(at).into_iter().for_each(|own| applied.advance(own));
            let mut fields: Fields = said.map(|said| (NAME, said)).into_iter().collect();
            applied.put_into(&mut fields, is_for_parent);
            fields.get_str(NAME).map(str::to_owned)
        };
        for (own, said, hears) in [
            (None, None, None),
            (Some("a.5"), None, Some("a.5")),
            (Some("a.5"), Some("a.6"), Some("a.6")),
            (Some("a.7"), Some("a.6"), Some("a.7")),
            (None, Some("a.6"), Some("a.6")),
            (Some("a.5"), Some("b.1"), Some("b.1")),
        ] {
            assert_eq!(told(own, said, true).as_deref(), hears, "{own:?} {said:?}");
            assert_eq!(told(own, said, false), None);
        }
    }

    /// What a parent hears meanwhile.
    fn told(applied: &Applied) -> Option<String> {
        let mut fields = Fields::default();
        applied.put_into(&mut fields, true);
        fields.get_str(NAME).map(str::to_owned)
    }

    #[test]
    fn a_parent_hears_of_a_purge_from_its_beginning_and_a_child_from_its_end() {
        let applied = Applied::default();
        applied.advance(at("a.4"));
        applied.carry_out(at("a.5"), || {
            assert_eq!(told(&applied).as_deref(), Some("a.5"));
            assert_eq!(applied.position(), Some(at("a.4")));
        });
        assert_eq!(applied.position(), Some(at("a.5")));
        // Two at once, as operators send them, and an old one once more.
        applied.carry_out(at("a.7"), || {
            applied.carry_out(at("a.6"), || assert_eq!(told(&applied).as_deref(), Some("a.7")));
            assert_eq!(told(&applied).as_deref(), Some("a.7"));
        });
        applied.carry_out(at("a.2"), || assert_eq!(told(&applied).as_deref(), Some("a.7")));
        applied.restart_at(at("a.3.00000000000000aa"), || {
            assert_eq!(told(&applied).as_deref(), Some("a.3.00000000000000aa"));
            assert_eq!(applied.position(), Some(at("a.7")));
        });
        assert_eq!(told(&applied).as_deref(), Some("a.3.00000000000000aa"));
    }

    #[tokio::test]
    async fn a_purge_that_comes_in_a_moment_is_waited_for() {
        let applied = Applied::default();
        assert!(!applied.reaches(&at("a.5")).await);
        applied.advance(at("a.4"));
        let wanted = at("a.5");
        let (reached, ()) = tokio::join!(applied.reaches(&wanted), async {
            tokio::task::yield_now().await;
            applied.advance(at("a.5"));
        });
        assert!(reached);
        let begun = std::time::Instant::now();
        assert!(!applied.reaches(&at("a.6")).await);
        assert!(begun.elapsed() >= CATCH_UP);
    }
}

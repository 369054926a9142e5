//! How far this node is in an order of purges that the nodes around it follow as well.
//!
//! A node that has carried out a purge says so to its parents with what it asks for, and is not
//! answered from anything older (`request/tier.rs`). Without an order nothing is said.

use freshet_http::applied::{NAME, Position};
use freshet_http::fields::Fields;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a request waits for a purge that the node it comes from has carried out and this one has
/// not: nodes hear of one within some round trips, and a request past the cache takes one as well.
const CATCH_UP: Duration = Duration::from_millis(100);

/// The last purge of an order that was carried out here, and all before it; shared by all threads.
pub struct Applied(watch::Sender<Option<Position>>);

impl Default for Applied {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Applied {
    /// Notes that all up to `position` is carried out. Back in one order it never goes; another order
    /// takes the place of the one before.
    pub fn advance(&self, position: Position) {
        self.0.send_if_modified(|present| {
            let is_news = !present.as_ref().is_some_and(|present| present.covers(&position));
            if is_news {
                *present = Some(position);
            }
            is_news
        });
    }

    /// How far it is; `None` where it has carried out nothing in any order.
    pub fn position(&self) -> Option<Position> {
        self.0.borrow().clone()
    }

    /// Whether all up to `position` is carried out, now or in a moment.
    pub(crate) async fn reaches(&self, position: &Position) -> bool {
        let mut present = self.0.subscribe();
        let covers =
            |present: &Option<Position>| present.as_ref().is_some_and(|one| one.covers(position));
        // A node that is in no order will not be in one in a moment.
        if present.borrow().is_none() {
            return false;
        }
        timeout(CATCH_UP, present.wait_for(covers)).await.is_ok_and(|reached| reached.is_ok())
    }

    /// Puts into a request how far the nodes are that ask with it: for a parent, and for nobody else.
    /// What is there already is what a node behind this one says, which is ahead of it.
    pub(crate) fn put_into(&self, request: &mut Fields, is_for_parent: bool) {
        let said = request.get(NAME).and_then(Position::parse);
        let own = if is_for_parent { self.position() } else { None };
        match (own, said) {
            (Some(own), Some(said)) if !own.covers(&said) => {}
            (Some(own), _) => request.set(NAME, own.to_string()),
            (None, Some(_)) if is_for_parent => {}
            (None, _) => {
                request.remove(NAME);
            }
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

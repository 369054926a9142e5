//! What is left of responses that were not fit to be shared: notes that requests for such a response
//! fetch side by side.
//!
//! A note is about the requests that its response would have been for. Where one variant of a page is
//! for one client only, the others are still fetched once for all that wait.

use crate::left::Left;
use crate::selector::{RequestKeys, Selector, Variation};
use freshet_base::clock::UnixMillis;
use std::sync::Arc;

/// Notes of one resource; of more, the oldest go. Each is looked at in a look-up that finds nothing
/// stored.
const MARKERS_OF_RESOURCE_MAX: usize = 32;

/// A note that a response was not fit to be shared.
#[derive(Clone, Debug)]
pub struct Marker {
    /// Which requests it is about: all, where the response does not vary.
    pub variation: Option<Variation>,
    /// Until when they fetch side by side.
    pub until: UnixMillis,
    /// Who left it.
    pub left_by: LeftBy,
    /// What is remembered of the response, where something is to be able to end the note.
    pub left: Option<Arc<Left>>,
}

/// The fetch that left a [`Marker`], for those who watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeftBy {
    /// The number of the fetch.
    pub fetch_id: u64,
    /// Until when its response was fresh.
    pub fresh_until: UnixMillis,
}

/// The notes of one resource, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Markers(Vec<Note>);

#[derive(Debug)]
struct Note {
    selector: Selector,
    until: UnixMillis,
    left_by: LeftBy,
    left: Option<Arc<Left>>,
}

impl Markers {
    /// Adds one, in the place of another about the same requests.
    pub(crate) fn set(&mut self, Marker { variation, until, left_by, left }: Marker) {
        let selector = Selector { variation, scheme: None };
        let selector = self.0.iter().fold(selector, |one, note| one.share(&note.selector.shape()));
        self.0.retain(|note| note.selector != selector);
        if self.0.len() >= MARKERS_OF_RESOURCE_MAX {
            self.0.remove(0);
        }
        self.0.push(Note { selector, until, left_by, left });
    }

    /// The newest about a request.
    pub(crate) fn find(
        &self,
        keys: &mut RequestKeys<'_>,
        now: UnixMillis,
    ) -> Option<(LeftBy, Option<Arc<Left>>)> {
        let mut newest_first = self.0.iter().rev();
        let found = newest_first.find(|note| note.until > now && note.selector.selects(keys));
        found.map(|note| (note.left_by, note.left.clone()))
    }

    /// Which requests the next response is likely to be for, of those like this one.
    pub(crate) fn expected(&self, keys: &mut RequestKeys<'_>) -> Option<Selector> {
        self.0.last().map(|newest| newest.selector.shape().selector_for(keys))
    }

    /// Takes out those about requests that are answered from an object from now on.
    pub(crate) fn end_for(&mut self, object: &Selector) {
        let answers_all = object.variation.is_none();
        self.0.retain(|note| !answers_all && note.selector.variation != object.variation);
    }

    /// Takes out those that hold until then and no longer.
    pub(crate) fn end_until(&mut self, until: UnixMillis) {
        self.0.retain(|note| note.until != until);
    }

    /// Takes out the one that such a response left.
    pub(crate) fn end_of(&mut self, left: &Arc<Left>) {
        self.0.retain(|note| note.left.as_ref().is_none_or(|other| !Arc::ptr_eq(other, left)));
    }

    /// What is remembered of responses whose notes still hold.
    pub(crate) fn left(&self, now: UnixMillis) -> impl Iterator<Item = &Arc<Left>> {
        self.0.iter().filter(move |note| note.until > now).filter_map(|note| note.left.as_ref())
    }

    /// Takes all of them out.
    pub(crate) fn end_all(&mut self) {
        self.0.clear();
    }

    /// Takes out those that are over.
    pub(crate) fn end_over(&mut self, now: UnixMillis) {
        self.0.retain(|note| note.until > now);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Marker> {
        self.0.iter().map(|note| Marker {
            variation: note.selector.variation.clone(),
            until: note.until,
            left_by: note.left_by,
            left: note.left.clone(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

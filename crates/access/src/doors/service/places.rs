//! Origins that a service names in its answers: the one place that knows where a request goes.

use super::Unknown;
use freshet_base::clock::UnixMillis;
use freshet_http::path::{self, Readings};
use freshet_origin::base_path::BasePath;
use freshet_origin::definition::Timeouts;
use freshet_origin::director::{Director, Member};
use freshet_origin::health::HealthBoard;
use freshet_origin::{Origin, OriginId, OriginSettings};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Origins, and lists of them, that are known at a time; those in use stay beyond that.
const PLACES_MAX: usize = 1_024;
/// Origins of one answer.
const OF_ANSWER_MAX: usize = 16;

/// Origins one of which a request goes to, by turn; the next one where that cannot be reached.
pub struct Places {
    board: HealthBoard,
    director: Director,
}

impl Places {
    fn new(origins: Vec<Arc<Origin>>) -> Self {
        let member = |origin: &Arc<Origin>| Member::new(origin.id, origin.settings.name.clone());
        let director = Director::round_robin(origins.iter().map(member));
        Self { board: HealthBoard::new(origins), director }
    }

    /// The one whose turn it is, but those that were `tried`.
    pub fn choose(&self, tried: &[OriginId], now: UnixMillis) -> Option<&Arc<Origin>> {
        let id = self.director.choose(0, tried, &self.board.at(now))?;
        self.board.origin(id)
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.board.origins().iter().map(|one| &one.settings.name)).finish()
    }
}

/// Those that were named. Who is named again is the same one, with its health and connections.
pub(super) struct Known {
    /// How long they are waited for.
    timeouts: Timeouts,
    /// Segments at the beginning of a path that origins do not have.
    strip: usize,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    /// By URL and what is left out of paths.
    origins: HashMap<(String, String), Arc<Origin>>,
    /// By what an answer said, and the same.
    lists: HashMap<(Vec<u8>, String), Arc<Places>>,
}

impl Known {
    /// None yet.
    pub(super) fn new(strip: usize, timeouts: Timeouts) -> Self {
        Self { timeouts, strip, all: Mutex::default() }
    }

    /// The places of an answer to a request for `target`: URLs with commas between them.
    ///
    /// # Errors
    /// What is none, or that others may read the path otherwise than what is left out of it.
    pub(super) fn places(&self, said: &[u8], target: &str) -> Result<Arc<Places>, Unknown> {
        let left_out = match self.strip {
            0 => "",
            segments => beginning(target, segments).ok_or(Unknown::Path)?,
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (said.to_vec(), left_out.to_owned());
        if let Some(known) = all.lists.get(&key) {
            return Ok(Arc::clone(known));
        }
        let text = std::str::from_utf8(said).map_err(|error| Unknown::Places(error.to_string()))?;
        let urls = text.split(',').map(str::trim).take(OF_ANSWER_MAX);
        let origins = urls.map(|url| self.origin(&mut all, url, left_out));
        let origins = origins.collect::<Result<_, _>>().map_err(Unknown::Places)?;
        let places = Arc::new(Places::new(origins));
        if all.lists.len() >= PLACES_MAX {
            all.lists.retain(|_, places| Arc::strong_count(places) > 1);
        }
        all.lists.insert(key, Arc::clone(&places));
        Ok(places)
    }

    fn origin(&self, all: &mut All, url: &str, left_out: &str) -> Result<Arc<Origin>, String> {
        let key = (url.to_owned(), left_out.to_owned());
        if let Some(known) = all.origins.get(&key) {
            return Ok(Arc::clone(known));
        }
        let rest = url.find("://").map_or(0, |at| at + 3);
        let end = url[rest..].find('/').map_or(url.len(), |at| rest + at);
        let (place, base) = url.split_at(end);
        let parsed: OriginSettings =
            place.parse().map_err(|error: freshet_origin::OriginError| error.to_string())?;
        // An empty beginning would be one of every path.
        let left_out = Some(left_out.to_owned()).filter(|path| !path.is_empty());
        let base_path = BasePath::new(base, left_out.as_slice());
        let settings = OriginSettings { base_path, timeouts: self.timeouts, ..parsed };
        let origin = Origin::new(settings).map_err(|error| error.to_string())?;
        if all.origins.len() >= PLACES_MAX {
            all.origins.retain(|_, origin| Arc::strong_count(origin) > 1);
        }
        all.origins.insert(key, Arc::clone(&origin));
        Ok(origin)
    }
}

/// The first segments of a target's path, with the slash before each: `/services/detector` of
/// `/services/detector/faces?x=1`. `None` where there are fewer, or where others may read the path otherwise
/// than as it stands or without its encoding.
pub(super) fn beginning(target: &str, segments: usize) -> Option<&str> {
    let path = path::path_of(target);
    if !path.starts_with('/') {
        return None;
    }
    let mut slashes = path.match_indices('/').map(|(at, _)| at).skip(segments);
    let end = slashes.next().unwrap_or(path.len());
    let begun = path.get(..end)?;
    let decoded = path::decoded(begun.as_bytes());
    let forms = [Some(begun.as_bytes()), decoded.as_deref()].into_iter().flatten();
    let is_whole = forms.clone().all(|form| {
        form.iter().filter(|byte| **byte == b'/').count() == segments && !form.ends_with(b"/")
    });
    let begins = |read: &[u8]| {
        forms.clone().any(|form| {
            let rest = read.strip_prefix(form);
            rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
        })
    };
    (is_whole && Readings::of(path).all(begins)).then_some(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_its_first_segments() {
        for (target, found) in [
            ("/services/detector/faces?x=/y", Some("/services/detector")),
            ("/services/detector", Some("/services/detector")),
            ("/services/detector?x", Some("/services/detector")),
            ("/services/", None),
            ("/services", None),
            ("/", None),
            ("*", None),
            ("/services//detector", None),
            ("/services/detector/../other", None),
            ("/services/%64etector/faces", Some("/services/%64etector")),
            ("/services/Face%20detection/faces", Some("/services/Face%20detection")),
            ("/services/caf%C3%A9", Some("/services/caf%C3%A9")),
            ("/services/%2564etector/faces", None),
            ("/services/a%2Fb/faces", None),
            ("/services/a%5Cb/faces", None),
            ("/services/%2E%2E/faces", None),
            ("/services/detector%3Bx/faces", None),
            ("/services/detector;x/faces", None),
            ("/services/detector/..;/other", None),
            ("/services/detector/a%20face;x=1", Some("/services/detector")),
        ] {
            assert_eq!(beginning(target, 2), found, "{target}");
        }
    }

    #[test]
    fn what_is_named_again_is_the_same_and_there_is_an_end_to_how_many() {
        let known = Known::new(2, Timeouts::default());
        let place = |said: &str| known.places(said.as_bytes(), "/services/a/x").unwrap();
        let both = place("http://192.0.2.1/api, http://192.0.2.2:81");
        assert!(Arc::ptr_eq(&both, &place("http://192.0.2.1/api, http://192.0.2.2:81")));
        let now = UnixMillis(0);
        let turns: Vec<_> = (0..4).map(|_| both.choose(&[], now).unwrap().id).collect();
        assert_eq!((turns[0], turns[1]), (turns[2], turns[3]));
        assert_ne!(turns[0], turns[1]);
        assert_eq!(both.choose(&[turns[0]], now).unwrap().id, turns[1]);
        assert!(both.choose(&turns[..2], now).is_none());
        // One of them alone is the same as among both.
        let alone = place("http://192.0.2.2:81");
        assert!(turns.contains(&alone.choose(&[], now).unwrap().id));
        for number in 0..3 * PLACES_MAX {
            place(&format!("http://192.0.2.1:{}", number + 1));
        }
        let all = known.all.lock().unwrap();
        assert!(all.origins.len() <= PLACES_MAX && all.lists.len() <= PLACES_MAX);
        drop(all);
        let refused = |said: &[u8], target| known.places(said, target).err();
        let wrong = refused(b"ftp://192.0.2.1", "/services/a/x");
        assert!(matches!(wrong, Some(Unknown::Places(_))), "{wrong:?}");
        let wrong = refused(b"http://192.0.2.1", "/services/a;b/x");
        assert!(matches!(wrong, Some(Unknown::Path)), "{wrong:?}");
    }
}

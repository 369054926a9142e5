//! From where in the order of purges on what is stored under a name is what that means now.
//!
//! A packager that starts again gives names to something else, and what is stored of before has to be looked at
//! anew. Each hit asks for that, so it is told without a lock: by a table with a place for each name, which
//! several share. Who shares one with a name that is doubted is asked for again as well, once, with a conditional
//! request. So nothing of it needs to be forgotten: what has been asked for again is newer than the doubt.

use freshet_base::splitmix;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Places for names: 2 MiB, from the first doubt on.
const PLACES: usize = 1 << 18;

/// Folders above a segment that a template may make of its number; it is known by the text behind these.
const LEVELS_MAX: usize = 8;

/// See the module.
#[derive(Default)]
pub(super) struct Doubts {
    below: OnceLock<Box<[AtomicU64]>>,
    /// In which folders above a segment templates have been doubted, a bit for each.
    levels: AtomicU8,
}

impl Doubts {
    /// Whether anything has ever been doubted.
    pub(super) fn are_any(&self) -> bool {
        self.below.get().is_some()
    }

    /// What is stored under the name with this hash from before the place `below` is doubted.
    pub(super) fn doubt(&self, name: u128, below: u64) {
        self.raise(place_of(name), below);
    }

    /// The same of all that a template stands for. O(length).
    pub(super) fn doubt_template(&self, template: &str, below: u64) {
        let fixed = template.split('$').next().unwrap_or_default();
        let folder = fixed.rfind('/').map_or(0, |at| at + 1);
        let rest = template.get(folder..).unwrap_or_default();
        let level = rest.matches('/').count().min(LEVELS_MAX - 1);
        let (mut shape, mut is_fixed) = (String::new(), true);
        for part in rest.split('$') {
            match (is_fixed, part) {
                (true, part) => shape.push_str(part),
                (false, "") => shape.push('$'),
                (false, _) => {}
            }
            is_fixed = !is_fixed;
        }
        self.raise(place_of_shape(template.get(..folder).unwrap_or_default(), &shape), below);
        self.levels.fetch_or(1 << level, Relaxed);
    }

    /// From where on what is stored under a name is what that means. O(length) for each of the folders in which a
    /// template was doubted, which is one as a rule.
    pub(super) fn below(&self, name: u128, text: &str) -> u64 {
        let Some(below) = self.below.get() else { return 0 };
        let at = |place: usize| below.get(place).map_or(0, |below| below.load(Relaxed));
        let levels = self.levels.load(Relaxed);
        let own = at(place_of(name));
        if levels == 0 {
            return own;
        }
        let folders = text.rmatch_indices('/').take(LEVELS_MAX).enumerate();
        let shaped =
            folders.filter(|(level, _)| levels & (1 << level) != 0).map(|(_, (end, _))| {
                let (folder, rest) = text.split_at(end + 1);
                at(place_of_shape(folder, rest))
            });
        shaped.fold(own, u64::max)
    }

    fn raise(&self, place: usize, below: u64) {
        let all = self.below.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(0)).collect());
        if let Some(one) = all.get(place) {
            one.fetch_max(below, Relaxed);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "its bits are evenly spread")]
fn place_of(name: u128) -> usize {
    name as usize % PLACES
}

/// Of a folder and the text behind it, whatever digits that has.
#[allow(clippy::cast_possible_truncation, reason = "its bits are evenly spread")]
fn place_of_shape(folder: &str, rest: &str) -> usize {
    // FNV-1a, 64 bits: the text is short, and no more than a place follows from it.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let rest = rest.bytes().filter(|byte| !byte.is_ascii_digit());
    let hash = folder.bytes().chain([0]).chain(rest).fold(0xcbf2_9ce4_8422_2325, step);
    splitmix::mixed(hash) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_doubted_up_to_the_latest_place() {
        let doubts = Doubts::default();
        assert!(!doubts.are_any());
        assert_eq!(doubts.below(7, "/7.m4s"), 0);
        doubts.doubt(7, 40);
        doubts.doubt(7, 30);
        assert!(doubts.are_any());
        assert_eq!((doubts.below(7, "/7.m4s"), doubts.below(8, "/8.m4s")), (40, 0));
        // A place is shared.
        assert_eq!(doubts.below(7 + PLACES as u128, "/x"), 40);
    }

    #[test]
    fn what_a_template_stands_for_is_doubted_and_little_else() {
        for (template, own, others) in [
            ("tv\0/c/v1/$Number%05d$.m4s", "tv\0/c/v1/00041.m4s", "tv\0/d/v1/00041.m4s"),
            ("tv\0/c/v-$Time$-$Number$.m4s", "tv\0/c/v-98123-4.m4s", "tv\0/c/w-98123-4.m4s"),
            ("tv\0/c/$Number$/2/v.m4s", "tv\0/c/41/2/v.m4s", "tv\0/c/41/2/w.m4s"),
            ("tv\0/$Number$.m4s", "tv\0/41.m4s", "tv\0/film/41.m4s"),
            ("tv\0/c/$$$Number$.m4s", "tv\0/c/$41.m4s", "tv\0/c/41.m4s"),
            ("tv\0/2026/$Number$", "tv\0/2026/41", "tv\0/2025/41"),
        ] {
            let doubts = Doubts::default();
            doubts.doubt_template(template, 40);
            assert_eq!(doubts.below(7, own), 40, "{template}");
            assert_eq!(doubts.below(7, others), 0, "{template}");
        }
        let doubts = Doubts::default();
        for odd in ["", "$", "/", "$Number$", "/$Number", "a/$Number$/$Time$/////////////"] {
            doubts.doubt_template(odd, 1);
            doubts.below(7, odd);
        }
    }
}

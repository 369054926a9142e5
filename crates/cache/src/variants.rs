//! The stored responses of one resource.

use crate::object::Object;
use crate::selector::{RequestKeys, Selector, Shape};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Different `Vary` rules kept for one resource. An origin that sends another rule with each
/// response would otherwise make every look-up compute all of them. Responses in different
/// languages have different rules, and sites with more languages than this are rare.
pub(crate) const SHAPES_MAX: usize = 64;

/// Variants of one resource. Clients choose them where the origin varies by a field of any value, so
/// without an end one URL could fill the memory, and a look-up compares a number for each: 1024 lie
/// in 16 KiB, a microsecond.
pub const VARIANTS_MAX: usize = 1024;

/// Variants looked at for the one that leaves when there are too many. More would find a less useful
/// one; a flood of variants nobody asks for again is found by any number.
const LOOKED_AT: usize = 32;

/// Variants in the order they came or were last validated. Most resources have one, which costs no
/// allocation and no further step from the index to the object.
#[derive(Debug, Default)]
pub(crate) enum Variants {
    #[default]
    None,
    One(Arc<Object>),
    Many(Box<Set>),
}

/// Two variants or more, [`VARIANTS_MAX`] at most. A look-up computes the hash it wants once per
/// shape and compares numbers that lie side by side.
#[derive(Debug, Default)]
pub(crate) struct Set {
    /// Oldest first, so that adding is cheap.
    slots: Vec<Slot>,
    /// The shapes of the selectors in `slots`, in the order they first came, [`SHAPES_MAX`] at most.
    shapes: Vec<Shape>,
    /// Where the search for the least useful one goes on.
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    object: Arc<Object>,
}

/// What leaves for a new variant.
#[derive(Debug)]
pub(crate) struct Displaced {
    /// What the new one is in the place of.
    pub(crate) replaced: Vec<Arc<Object>>,
    /// What there was no more room for.
    pub(crate) crowded_out: Option<Arc<Object>>,
}

impl Variants {
    /// Newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        let (one, many) = match self {
            Self::None => (None, &[][..]),
            Self::One(object) => (Some(object), &[][..]),
            Self::Many(set) => (None, &set.slots[..]),
        };
        one.into_iter().chain(many.iter().rev().map(|slot| &slot.object))
    }

    /// Visits those that a request selects, newest first (RFC 9111 §4.1), until `visit` breaks.
    pub(crate) fn visit_selected<B>(
        &self,
        keys: &mut RequestKeys<'_>,
        mut visit: impl FnMut(&Arc<Object>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            Self::None => ControlFlow::Continue(()),
            Self::One(object) if object.selector().selects(keys) => visit(object),
            Self::One(_) => ControlFlow::Continue(()),
            Self::Many(set) => set.visit_selected(keys, visit),
        }
    }

    pub(crate) fn newest(&self) -> Option<&Arc<Object>> {
        match self {
            Self::None => None,
            Self::One(object) => Some(object),
            Self::Many(set) => set.slots.last().map(|slot| &slot.object),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The selector of the same meaning that shares its rule with a variant that is here.
    pub(crate) fn intern(&self, selector: Selector) -> Selector {
        match self {
            Self::None => selector,
            Self::One(object) => selector.share(&object.selector().shape()),
            Self::Many(set) => set.shapes.iter().fold(selector, Selector::share),
        }
    }

    /// Adds the newest and returns what it replaces: the variant of an equal selector, and where
    /// there are more than [`SHAPES_MAX`] rules now the variants of the oldest one; and what has to
    /// leave because there are more than [`VARIANTS_MAX`].
    pub(crate) fn insert(&mut self, object: Arc<Object>) -> Displaced {
        let hash = object.selector_hash();
        let mut replaced = self
            .take_where(|old| old.selector_hash() == hash && old.selector() == object.selector());
        let before = std::mem::take(self);
        if before.is_empty() {
            *self = Self::One(object);
            return Displaced { replaced, crowded_out: None };
        }
        let mut set = before.into_set();
        replaced.append(&mut set.push(object));
        let crowded_out = set.crowded_out();
        *self = Self::from_set(set);
        Displaced { replaced, crowded_out }
    }

    /// Makes `object`, if it is here, the newest.
    pub(crate) fn renew(&mut self, object: &Arc<Object>) {
        if let Self::Many(set) = self
            && let Some(at) = set.slots.iter().position(|slot| Arc::ptr_eq(&slot.object, object))
        {
            set.slots[at..].rotate_left(1);
        }
    }

    /// Takes out those for which `goes` is true.
    pub(crate) fn take_where(&mut self, mut goes: impl FnMut(&Object) -> bool) -> Vec<Arc<Object>> {
        match self {
            Self::None => Vec::new(),
            Self::One(object) if !goes(object) => Vec::new(),
            Self::One(_) => match std::mem::take(self) {
                Self::One(object) => vec![object],
                _ => unreachable!("it was matched as one"),
            },
            Self::Many(set) => {
                let taken: Vec<_> = set.slots.extract_if(.., |slot| goes(&slot.object)).collect();
                if !taken.is_empty() {
                    *self = Self::from_set(std::mem::take(set));
                }
                taken.into_iter().map(|slot| slot.object).collect()
            }
        }
    }

    fn into_set(self) -> Box<Set> {
        match self {
            Self::None => Box::default(),
            Self::One(object) => {
                let mut set = Box::<Set>::default();
                set.push(object);
                set
            }
            Self::Many(set) => set,
        }
    }

    /// The smallest form, with the shapes that are still there.
    fn from_set(mut set: Box<Set>) -> Self {
        if set.slots.len() > 1 {
            if set.shapes.len() > 1 {
                let Set { slots, shapes, .. } = &mut *set;
                shapes.retain(|shape| slots.iter().any(|slot| slot.object.selector().has(shape)));
            }
            return Self::Many(set);
        }
        set.slots.pop().map_or(Self::None, |slot| Self::One(slot.object))
    }
}

impl Set {
    fn push(&mut self, object: Arc<Object>) -> Vec<Arc<Object>> {
        if !self.shapes.iter().any(|shape| object.selector().has(shape)) {
            self.shapes.push(object.selector().shape());
        }
        self.slots.push(Slot { hash: object.selector_hash(), object });
        if self.shapes.len() <= SHAPES_MAX {
            return Vec::new();
        }
        let oldest = self.shapes.remove(0);
        let taken = self.slots.extract_if(.., |slot| slot.object.selector().has(&oldest));
        taken.map(|slot| slot.object).collect()
    }

    /// Takes out the one least asked for of the next [`LOOKED_AT`], where there are too many: never
    /// the newest, which nobody can have asked for yet.
    fn crowded_out(&mut self) -> Option<Arc<Object>> {
        let older = self.slots.len().checked_sub(1).filter(|older| *older >= VARIANTS_MAX)?;
        let looked_at = (0..LOOKED_AT).map(|step| (self.hand + step) % older);
        let at = looked_at.min_by_key(|at| self.slots.get(*at).map(|slot| slot.object.hits()))?;
        self.hand = (self.hand + LOOKED_AT) % older;
        Some(self.slots.remove(at).object)
    }

    fn visit_selected<B>(
        &self,
        keys: &mut RequestKeys<'_>,
        mut visit: impl FnMut(&Arc<Object>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if keys.takes_any() {
            for slot in self.slots.iter().rev() {
                if slot.object.selector().selects(keys) {
                    visit(&slot.object)?;
                }
            }
            return ControlFlow::Continue(());
        }
        let mut wanted = [0; SHAPES_MAX];
        for (hash, shape) in wanted.iter_mut().zip(&self.shapes) {
            *hash = shape.hash_for(keys);
        }
        let wanted = wanted.get(..self.shapes.len()).unwrap_or(&wanted);
        for slot in self.slots.iter().rev() {
            if wanted.contains(&slot.hash) && slot.object.selector().selects(keys) {
                visit(&slot.object)?;
            }
        }
        ControlFlow::Continue(())
    }
}

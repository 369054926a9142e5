//! Those that wait for a connection, in the order in which they get one.

use std::collections::VecDeque;

/// Whose an exchange is among those that wait, and whether it is urgent.
///
/// What is urgent goes before what is not of the same site, and in the place of that: who says that all it asks for
/// is urgent takes nothing from the others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Claim {
    /// Tells the site from all others.
    pub site: usize,
    /// Whether somebody is about to stand still without it, as that says itself.
    pub is_urgent: bool,
}

/// What waits, the next first.
#[derive(Debug)]
pub(crate) struct Line<T>(VecDeque<(Claim, T)>);

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Line<T> {
    /// Puts one at its place. O(waiting) where it is urgent.
    pub(crate) fn join(&mut self, claim: Claim, one: T) {
        let mut moving = (claim, one);
        if claim.is_urgent {
            // Each of its site that is not urgent goes to the place of the next.
            let own = |other: &Claim| other.site == claim.site && !other.is_urgent;
            for place in self.0.iter_mut().filter(|(other, _)| own(other)) {
                std::mem::swap(place, &mut moving);
            }
        }
        self.0.push_back(moving);
    }

    /// Takes the next out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front().map(|(_, one)| one)
    }

    /// Lets go of those that `stays` is not true of.
    pub(crate) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        self.0.retain(|(_, one)| stays(one));
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(joins: &[(usize, bool)]) -> Vec<usize> {
        let mut line = Line::default();
        for (number, (site, is_urgent)) in joins.iter().enumerate() {
            line.join(Claim { site: *site, is_urgent: *is_urgent }, number);
        }
        std::iter::from_fn(|| line.pop()).collect()
    }

    #[test]
    fn what_is_urgent_goes_before_others_of_its_site() {
        assert_eq!(order(&[(1, false), (1, false), (1, false)]), [0, 1, 2]);
        assert_eq!(order(&[(1, false), (1, false), (1, true), (1, true)]), [2, 3, 0, 1]);
        assert_eq!(order(&[(1, true), (1, false), (1, true), (1, false)]), [0, 2, 1, 3]);
    }

    #[test]
    fn it_takes_no_place_of_another_site() {
        assert_eq!(order(&[(2, false), (1, false), (1, true)]), [0, 2, 1]);
        let joins = [(1, false), (2, false), (1, false), (2, false), (1, true)];
        assert_eq!(order(&joins), [4, 1, 0, 3, 2]);
        assert_eq!(order(&[(2, false), (2, false), (1, true)]), [0, 1, 2]);
    }

    #[test]
    fn who_has_gone_takes_no_place() {
        let mut line = Line::default();
        (0..4).for_each(|number| line.join(Claim::default(), number));
        line.retain(|number| number % 2 == 1);
        assert_eq!((line.len(), line.pop(), line.pop(), line.pop()), (2, Some(1), Some(3), None));
    }
}

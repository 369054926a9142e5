//! Which requests a stored response, or a fetch under way, is for.

use freshet_http::message::{RequestHead, Scheme};
use freshet_http::vary::{VaryKey, VaryRule};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// The rule of a response's `Vary` and the key it gave for the request that fetched it (RFC 9111
/// §4.1).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Variation {
    /// The rule; variants of one resource share equal rules in memory.
    pub rule: Arc<VaryRule>,
    /// What the rule made of the request.
    pub key: VaryKey,
}

impl Variation {
    /// Whether a request selects it.
    pub fn is_for(&self, request: &dyn Selecting) -> bool {
        request.key(&self.rule) == self.key
    }
}

/// A request, as far as it selects a variant.
pub trait Selecting {
    /// Its scheme.
    fn scheme(&self) -> Scheme;
    /// What a rule makes of it.
    fn key(&self, rule: &VaryRule) -> VaryKey;
}

impl Selecting for RequestHead {
    fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn key(&self, rule: &VaryRule) -> VaryKey {
        rule.key(&self.fields)
    }
}

/// What a request must be like; by default any request will do.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Selector {
    pub(crate) variation: Option<Variation>,
    pub(crate) scheme: Option<Scheme>,
}

/// What a selector looks at, without the values it wants.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    rule: Option<Arc<VaryRule>>,
    scheme: bool,
}

impl Selector {
    /// Whether the request is one of those selected.
    pub(crate) fn selects(&self, keys: &mut RequestKeys<'_>) -> bool {
        self.scheme.is_none_or(|scheme| scheme == keys.scheme)
            && self
                .variation
                .as_ref()
                .filter(|_| !keys.takes_any)
                .is_none_or(|variation| *keys.key(&variation.rule) == variation.key)
    }

    /// A hash, the same for equal selectors of this process; 0 for the default.
    pub(crate) fn hash(&self) -> u64 {
        hash(self.variation.as_ref().map(|variation| &variation.key), self.scheme)
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape {
            rule: self.variation.as_ref().map(|variation| Arc::clone(&variation.rule)),
            scheme: self.scheme.is_some(),
        }
    }

    /// Whether `shape` is its shape.
    pub(crate) fn has(&self, shape: &Shape) -> bool {
        let same = match (&self.variation, &shape.rule) {
            (None, None) => true,
            (Some(variation), Some(rule)) => same_rule(&variation.rule, rule),
            _ => false,
        };
        same && self.scheme.is_some() == shape.scheme
    }

    /// The same selector with the rule of `shape` in place of its own where they are equal.
    pub(crate) fn share(mut self, shape: &Shape) -> Self {
        if let (Some(variation), Some(rule)) = (&mut self.variation, &shape.rule)
            && same_rule(&variation.rule, rule)
        {
            variation.rule = Arc::clone(rule);
        }
        self
    }
}

impl Shape {
    /// The selector of this shape that selects the request.
    pub(crate) fn selector_for(&self, keys: &mut RequestKeys<'_>) -> Selector {
        Selector {
            variation: self
                .rule
                .as_ref()
                .map(|rule| Variation { rule: Arc::clone(rule), key: keys.key(rule).clone() }),
            scheme: self.scheme.then_some(keys.scheme),
        }
    }

    /// The hash of [`Shape::selector_for`].
    pub(crate) fn hash_for(&self, keys: &mut RequestKeys<'_>) -> u64 {
        let scheme = self.scheme.then_some(keys.scheme);
        hash(self.rule.as_ref().map(|rule| keys.key(rule)), scheme)
    }
}

fn same_rule(a: &Arc<VaryRule>, b: &Arc<VaryRule>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn hash(key: Option<&VaryKey>, scheme: Option<Scheme>) -> u64 {
    if key.is_none() && scheme.is_none() {
        return 0;
    }
    BuildHasherDefault::<DefaultHasher>::default().hash_one((key, scheme))
}

/// What is asked of one request, with the key of each rule computed once.
pub(crate) struct RequestKeys<'a> {
    request: &'a dyn Selecting,
    scheme: Scheme,
    /// Whether any variant will do.
    takes_any: bool,
    computed: Vec<(Arc<VaryRule>, VaryKey)>,
}

impl<'a> RequestKeys<'a> {
    /// Nothing computed yet; allocates nothing.
    pub(crate) fn new(request: &'a dyn Selecting) -> Self {
        Self { request, scheme: request.scheme(), takes_any: false, computed: Vec::new() }
    }

    /// The same, with every variant selected whatever `Vary` says.
    pub(crate) fn taking_any(request: &'a dyn Selecting) -> Self {
        Self { takes_any: true, ..Self::new(request) }
    }

    /// Whether any variant will do.
    pub(crate) fn takes_any(&self) -> bool {
        self.takes_any
    }

    fn key(&mut self, rule: &Arc<VaryRule>) -> &VaryKey {
        let known = self.computed.iter().position(|(other, _)| Arc::ptr_eq(other, rule));
        let at = known.unwrap_or_else(|| {
            self.computed.push((Arc::clone(rule), self.request.key(rule)));
            self.computed.len() - 1
        });
        &self.computed[at].1
    }
}

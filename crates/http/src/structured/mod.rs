//! Structured field values (RFC 9651).
//!
//! Parsing follows the algorithms of §4.2 to the letter and fails on anything else; serializing
//! follows §4.1. Values own their text: structured fields are read when responses are stored or
//! logged, not on the hit path.

mod parse;
mod serialize;

use crate::error::HttpError;
use crate::fields::Fields;

/// Members of a list, dictionary or inner list, and parameters of an item, that are read at most.
/// The RFC asks for 1024 (256 for inner lists and parameters); looking for repeated keys takes
/// quadratic time, so there must be an end.
pub const MEMBERS_MAX: usize = 1024;

/// A value without parameters (§3.3).
#[derive(Clone, Debug, PartialEq)]
pub enum BareItem {
    /// Up to 15 decimal digits.
    Integer(i64),
    /// Up to 12 digits and 3 after the point.
    Decimal(Decimal),
    /// Printable ASCII.
    String(String),
    /// A word such as `gzip` or `text/html`.
    Token(String),
    /// Bytes, in base64 on the wire.
    Bytes(Vec<u8>),
    /// `?0` or `?1`
    Boolean(bool),
    /// Seconds since 1970, possibly negative.
    Date(i64),
    /// Text in any script, percent-encoded UTF-8 on the wire.
    DisplayString(String),
}

/// A decimal number with three digits after the point, kept in thousandths.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Decimal {
    thousandths: i64,
}

impl Decimal {
    /// The number that is this many thousandths.
    pub fn from_thousandths(thousandths: i64) -> Self {
        Self { thousandths }
    }

    /// The nearest number with three digits, halves to even (§4.1.5); `None` for what is not
    /// finite or does not fit.
    pub fn from_f64(value: f64) -> Option<Self> {
        let thousandths = (value * 1000.0).round_ties_even();
        // Below 2^53 the conversion is exact, and no valid decimal is larger than 10^15.
        (thousandths.abs() < 1e16).then_some(Self { thousandths: thousandths as i64 })
    }

    /// The number in thousandths.
    pub fn thousandths(self) -> i64 {
        self.thousandths
    }
}

/// Parameters in order, each key once (§3.1.2).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Vec<(String, BareItem)>);

/// A value with parameters (§3.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The value.
    pub value: BareItem,
    /// Its parameters.
    pub parameters: Parameters,
}

/// Items in parentheses, with parameters (§3.1.1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InnerList {
    /// The items.
    pub items: Vec<Item>,
    /// Parameters of the whole.
    pub parameters: Parameters,
}

/// A member of a list or dictionary.
#[derive(Clone, Debug, PartialEq)]
pub enum Member {
    /// One item.
    Item(Item),
    /// Several in parentheses.
    InnerList(InnerList),
}

/// A list (§3.1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<Member>);

/// A dictionary: members in order, each key once (§3.2).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dictionary(Vec<(String, Member)>);

impl Item {
    /// An item without parameters.
    pub fn new(value: BareItem) -> Self {
        Self { value, parameters: Parameters::default() }
    }

    /// Reads a field value that is an item.
    ///
    /// # Errors
    /// [`HttpError::PeerStructuredField`] says where and what was expected.
    pub fn parse(value: &[u8]) -> Result<Self, HttpError> {
        parse::whole(value, parse::Parser::item)
    }

    /// The text of this item.
    ///
    /// # Errors
    /// [`HttpError::LocalStructuredField`] where a part has no form on the wire.
    pub fn serialize(&self) -> Result<String, HttpError> {
        serialize::text(|out| serialize::item(self, out))
    }
}

impl List {
    /// Reads a field value that is a list; lines of one field are joined by commas before.
    ///
    /// # Errors
    /// [`HttpError::PeerStructuredField`] says where and what was expected.
    pub fn parse(value: &[u8]) -> Result<Self, HttpError> {
        parse::whole(value, parse::Parser::list)
    }

    /// As [`List::parse`] for all lines of a field; empty without one.
    ///
    /// # Errors
    /// As [`List::parse`].
    pub fn from_fields(fields: &Fields, name: &str) -> Result<Self, HttpError> {
        Self::parse(&fields.joined(name).unwrap_or_default())
    }

    /// The text of this list. An empty one is not sent at all.
    ///
    /// # Errors
    /// [`HttpError::LocalStructuredField`] where a part has no form on the wire.
    pub fn serialize(&self) -> Result<String, HttpError> {
        serialize::text(|out| serialize::list(self, out))
    }
}

impl Dictionary {
    /// Reads a field value that is a dictionary; lines of one field are joined by commas before.
    ///
    /// # Errors
    /// [`HttpError::PeerStructuredField`] says where and what was expected.
    pub fn parse(value: &[u8]) -> Result<Self, HttpError> {
        parse::whole(value, parse::Parser::dictionary)
    }

    /// As [`Dictionary::parse`] for all lines of a field; empty without one.
    ///
    /// # Errors
    /// As [`Dictionary::parse`].
    pub fn from_fields(fields: &Fields, name: &str) -> Result<Self, HttpError> {
        Self::parse(&fields.joined(name).unwrap_or_default())
    }

    /// The text of this dictionary. An empty one is not sent at all.
    ///
    /// # Errors
    /// [`HttpError::LocalStructuredField`] where a part has no form on the wire.
    pub fn serialize(&self) -> Result<String, HttpError> {
        serialize::text(|out| serialize::dictionary(self, out))
    }

    /// Sets a member; one of the same key keeps its place. O(members).
    pub fn set(&mut self, key: impl Into<String>, member: Member) {
        set(&mut self.0, key.into(), member);
    }

    /// The member of this key.
    pub fn get(&self, key: &str) -> Option<&Member> {
        self.iter().find(|(name, _)| *name == key).map(|(_, member)| member)
    }

    /// Keys and members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.0.iter().map(|(key, member)| (key.as_str(), member))
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Parameters {
    /// Sets a parameter; one of the same key keeps its place. O(parameters).
    pub fn set(&mut self, key: impl Into<String>, value: BareItem) {
        set(&mut self.0, key.into(), value);
    }

    /// The value of this key.
    pub fn get(&self, key: &str) -> Option<&BareItem> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BareItem)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn set<T>(entries: &mut Vec<(String, T)>, key: String, value: T) {
    match entries.iter_mut().find(|(name, _)| *name == key) {
        Some((_, old)) => *old = value,
        None => entries.push((key, value)),
    }
}

/// Whether this may be the key of a parameter or dictionary member.
pub(crate) fn is_key(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| parse::is_key_byte(byte, at == 0)) && !text.is_empty()
}

/// Whether this may be written as a token.
pub(crate) fn is_token(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| parse::is_token_byte(byte, at == 0))
        && !text.is_empty()
}

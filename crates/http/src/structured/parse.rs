//! The parsing algorithms of RFC 9651 §4.2.

use super::{
    BareItem, Decimal, Dictionary, InnerList, Item, List, MEMBERS_MAX, Member, Parameters,
};
use crate::error::HttpError;

/// Runs `parse` on the whole value, with spaces around it allowed.
pub(super) fn whole<'a, T>(
    value: &'a [u8],
    parse: impl FnOnce(&mut Parser<'a>) -> Result<T, HttpError>,
) -> Result<T, HttpError> {
    let mut parser = Parser { value, at: 0 };
    parser.skip(b" ");
    let out = parse(&mut parser)?;
    parser.skip(b" ");
    if parser.at == value.len() { Ok(out) } else { parser.fail("the end") }
}

pub(super) struct Parser<'a> {
    value: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    pub(super) fn list(&mut self) -> Result<List, HttpError> {
        let mut members = Vec::new();
        while self.peek().is_some() {
            self.check_room(members.len())?;
            members.push(self.member()?);
            if !self.comma()? {
                break;
            }
        }
        Ok(List(members))
    }

    pub(super) fn dictionary(&mut self) -> Result<Dictionary, HttpError> {
        let mut out = Dictionary::default();
        while self.peek().is_some() {
            self.check_room(out.len())?;
            let key = self.key()?;
            let member = if self.take(b'=') {
                self.member()?
            } else {
                let value = BareItem::Boolean(true);
                Member::Item(Item { value, parameters: self.parameters()? })
            };
            out.set(key, member);
            if !self.comma()? {
                break;
            }
        }
        Ok(out)
    }

    pub(super) fn item(&mut self) -> Result<Item, HttpError> {
        Ok(Item { value: self.bare_item()?, parameters: self.parameters()? })
    }

    /// Goes past the comma between two members; `false` at the end.
    fn comma(&mut self) -> Result<bool, HttpError> {
        self.skip(b" \t");
        if self.peek().is_none() {
            return Ok(false);
        }
        if !self.take(b',') {
            return self.fail("a comma");
        }
        self.skip(b" \t");
        if self.peek().is_none() { self.fail("a member after the comma") } else { Ok(true) }
    }

    fn member(&mut self) -> Result<Member, HttpError> {
        if !self.take(b'(') {
            return self.item().map(Member::Item);
        }
        let mut items = Vec::new();
        loop {
            self.skip(b" ");
            if self.take(b')') {
                let parameters = self.parameters()?;
                return Ok(Member::InnerList(InnerList { items, parameters }));
            }
            self.check_room(items.len())?;
            items.push(self.item()?);
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return self.fail("a space or `)`");
            }
        }
    }

    fn parameters(&mut self) -> Result<Parameters, HttpError> {
        let mut out = Parameters::default();
        while self.take(b';') {
            self.check_room(out.len())?;
            self.skip(b" ");
            let key = self.key()?;
            let value = if self.take(b'=') { self.bare_item()? } else { BareItem::Boolean(true) };
            out.set(key, value);
        }
        Ok(out)
    }

    fn key(&mut self) -> Result<String, HttpError> {
        let text = self.text(is_key_byte);
        if text.is_empty() { self.fail("a key") } else { Ok(text) }
    }

    fn bare_item(&mut self) -> Result<BareItem, HttpError> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'"') => self.string(),
            Some(b'*' | b'a'..=b'z' | b'A'..=b'Z') => Ok(BareItem::Token(self.text(is_token_byte))),
            Some(b':') => self.bytes(),
            Some(b'?') => self.boolean(),
            Some(b'@') => self.date(),
            Some(b'%') => self.display_string(),
            _ => self.fail("a value"),
        }
    }

    fn number(&mut self) -> Result<BareItem, HttpError> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let whole = self.digits();
        if whole.is_empty() {
            return self.fail("a digit");
        }
        if self.peek() != Some(b'.') {
            return match to_number(&whole, 15) {
                Some(value) => Ok(BareItem::Integer(sign * value)),
                None => self.fail("at most 15 digits"),
            };
        }
        self.at += 1;
        let fraction = self.digits();
        let (Some(value), 1..=3) = (to_number(&whole, 12), fraction.len()) else {
            return self.fail("at most 12 digits and 1 to 3 after the point");
        };
        let missing = 3 - u32::try_from(fraction.len()).unwrap_or(3);
        let fraction = to_number(&fraction, 3).unwrap_or(0) * 10_i64.pow(missing);
        Ok(BareItem::Decimal(Decimal::from_thousandths(sign * (value * 1000 + fraction))))
    }

    fn string(&mut self) -> Result<BareItem, HttpError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            match self.next() {
                Some(b'"') => return Ok(BareItem::String(out)),
                Some(b'\\') => match self.next() {
                    Some(byte @ (b'"' | b'\\')) => out.push(char::from(byte)),
                    _ => return self.fail("an escaped quote or backslash"),
                },
                Some(byte @ b' '..=b'~') => out.push(char::from(byte)),
                _ => return self.fail("printable ASCII or the closing quote"),
            }
        }
    }

    fn bytes(&mut self) -> Result<BareItem, HttpError> {
        self.at += 1;
        let text = self.rest();
        let Some(len) = text.iter().position(|byte| *byte == b':') else {
            return self.fail("the closing colon");
        };
        let decoded = decode_base64(text.split_at_checked(len).map_or(text, |(text, _)| text));
        match decoded {
            Some(bytes) => {
                self.at += len + 1;
                Ok(BareItem::Bytes(bytes))
            }
            None => self.fail("base64"),
        }
    }

    fn boolean(&mut self) -> Result<BareItem, HttpError> {
        self.at += 1;
        match self.next() {
            Some(b'0') => Ok(BareItem::Boolean(false)),
            Some(b'1') => Ok(BareItem::Boolean(true)),
            _ => self.fail("0 or 1"),
        }
    }

    fn date(&mut self) -> Result<BareItem, HttpError> {
        self.at += 1;
        match self.number()? {
            BareItem::Integer(seconds) => Ok(BareItem::Date(seconds)),
            _ => self.fail("whole seconds"),
        }
    }

    fn display_string(&mut self) -> Result<BareItem, HttpError> {
        self.at += 1;
        if !self.take(b'"') {
            return self.fail("a quote");
        }
        let mut out = Vec::new();
        loop {
            match self.next() {
                Some(b'"') => break,
                Some(b'%') => match (hex_digit(self.next()), hex_digit(self.next())) {
                    (Some(high), Some(low)) => out.push(high << 4 | low),
                    _ => return self.fail("two lower-case hexadecimal digits"),
                },
                Some(byte @ b' '..=b'~') => out.push(byte),
                _ => return self.fail("printable ASCII or the closing quote"),
            }
        }
        match String::from_utf8(out) {
            Ok(text) => Ok(BareItem::DisplayString(text)),
            Err(_) => self.fail("UTF-8"),
        }
    }

    fn digits(&mut self) -> String {
        self.text(|byte, _| byte.is_ascii_digit())
    }

    /// The longest run of bytes for which `allowed(byte, is_first)`; all allowed bytes are ASCII.
    fn text(&mut self, allowed: impl Fn(u8, bool) -> bool) -> String {
        let mut out = String::new();
        while let Some(byte) = self.peek().filter(|byte| allowed(*byte, out.is_empty())) {
            out.push(char::from(byte));
            self.at += 1;
        }
        out
    }

    fn check_room(&self, len: usize) -> Result<(), HttpError> {
        if len < MEMBERS_MAX { Ok(()) } else { self.fail("at most 1024 members") }
    }

    fn skip(&mut self, bytes: &[u8]) {
        while self.peek().is_some_and(|byte| bytes.contains(&byte)) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn peek(&self) -> Option<u8> {
        self.value.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.value.get(self.at..).unwrap_or_default()
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, HttpError> {
        Err(HttpError::PeerStructuredField { at: self.at, expected })
    }
}

pub(super) fn is_key_byte(byte: u8, first: bool) -> bool {
    match byte {
        b'a'..=b'z' | b'*' => true,
        b'0'..=b'9' | b'_' | b'-' | b'.' => !first,
        _ => false,
    }
}

pub(super) fn is_token_byte(byte: u8, first: bool) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'*' => true,
        b'0'..=b'9' | b':' | b'/' => !first,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' => !first,
        _ => false,
    }
}

fn to_number(digits: &str, digits_max: usize) -> Option<i64> {
    (digits.len() <= digits_max).then(|| digits.parse().ok()).flatten()
}

fn hex_digit(byte: Option<u8>) -> Option<u8> {
    match byte? {
        byte @ b'0'..=b'9' => Some(byte - b'0'),
        byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Base64 with or without padding; bits left over are dropped, as §4.2.7 allows.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    let (digits, padding) = text.split_at_checked(end)?;
    if digits.len() % 4 == 1 || padding.len() > 2 {
        return None;
    }
    if !padding.is_empty() && !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in digits {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}

//! How the bodies of origins' answers end, counted when their heads have come: what a policy makes of an
//! answer, and what becomes of its body, changes nothing of that.

use freshet_base::counter::Counter;
use freshet_http::message::Method;
use freshet_wire::h1::Framing;

/// Where the end of an answer's body is, or why there is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AnswerBody {
    /// The request was HEAD.
    OfHead,
    /// The status is 204.
    NoContent,
    /// The status is 304.
    NotModified,
    /// It comes in chunks.
    Chunked,
    /// Its length is said.
    Length,
    /// It ends with its connection.
    UntilClose,
    /// Its length makes no sense.
    Bad,
    /// It is empty.
    Empty,
}

impl AnswerBody {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::OfHead,
        Self::NoContent,
        Self::NotModified,
        Self::Chunked,
        Self::Length,
        Self::UntilClose,
        Self::Bad,
        Self::Empty,
    ];

    /// Of an answer to a request of this method.
    pub fn of(method: &Method, status: u16, framing: Framing) -> Self {
        match (status, framing) {
            _ if *method == Method::Head => Self::OfHead,
            (204, _) => Self::NoContent,
            (304, _) => Self::NotModified,
            (_, Framing::Chunked) => Self::Chunked,
            (_, Framing::Length(0) | Framing::None) => Self::Empty,
            (_, Framing::Length(_)) => Self::Length,
            (_, Framing::UntilClose) => Self::UntilClose,
        }
    }
}

/// How many answers there were of each kind.
#[derive(Debug, Default)]
pub struct AnswerBodies([Counter; AnswerBody::ALL.len()]);

impl AnswerBodies {
    /// Counts one.
    pub fn note(&self, kind: AnswerBody) {
        self.0[kind as usize].increment();
    }

    /// How many there were of a kind.
    pub fn count(&self, kind: AnswerBody) -> u64 {
        self.0[kind as usize].value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        let bodies = AnswerBodies::default();
        for (at, kind) in AnswerBody::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            bodies.note(kind);
            assert_eq!(bodies.count(kind), 1);
        }
    }

    #[test]
    fn the_method_and_the_status_come_before_the_framing() {
        let of = |method: Method, status, framing| AnswerBody::of(&method, status, framing);
        assert_eq!(of(Method::Head, 304, Framing::Length(5)), AnswerBody::OfHead);
        assert_eq!(of(Method::Get, 204, Framing::Chunked), AnswerBody::NoContent);
        assert_eq!(of(Method::Get, 304, Framing::None), AnswerBody::NotModified);
        assert_eq!(of(Method::Get, 200, Framing::Length(0)), AnswerBody::Empty);
        assert_eq!(of(Method::Post, 500, Framing::Length(1)), AnswerBody::Length);
        assert_eq!(of(Method::Get, 200, Framing::UntilClose), AnswerBody::UntilClose);
    }
}

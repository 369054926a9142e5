//! Requests, responses, and what is to be done for one.

use super::event::Event;
use freshet_documents::problem::Problem;
use freshet_documents::tree::Change;
use freshet_radio::Radio;
use freshet_radio::position::Claim;
use serde_json::Value;
use std::net::IpAddr;

/// A request, as far as it counts here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// Its method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// `Authorization`.
    pub authorization: Option<&'a str>,
    /// `Accept`.
    pub accept: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `If-Match`.
    pub if_match: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// `X-Forwarded-Method`, of a gateway.
    pub forwarded_method: Option<&'a str>,
    /// `X-Forwarded-Uri`, of a gateway.
    pub forwarded_uri: Option<&'a str>,
    /// Where it came from, where that is known: who asks, or a gateway.
    pub from: Option<IpAddr>,
    /// SHA-256 of the certificate that the client has shown to a gateway that is believed.
    pub certificate: Option<[u8; 32]>,
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> Call<'a> {
    /// A `GET` with a token.
    pub fn get(target: &'a str, authorization: Option<&'a str>) -> Self {
        Self { method: "GET", target, authorization, ..Self::default() }
    }
}

/// A response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Fields of its head, besides those of its body: name and value.
    pub fields: Vec<(&'static str, String)>,
    /// Its body, JSON.
    pub body: Option<Value>,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, fields: Vec::new(), body: Some(body) }
    }

    /// That it is done, without a word.
    pub fn nothing() -> Self {
        Self { status: 204, ..Self::default() }
    }

    /// The same with another field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Its media type.
    pub fn media_type(&self) -> &'static str {
        let is_problem =
            self.status >= 400 && self.body.as_ref().is_some_and(|body| body["title"].is_string());
        if is_problem { freshet_documents::problem::MEDIA_TYPE } else { "application/json" }
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let challenge = problem.challenge.iter().map(|value| ("WWW-Authenticate", value.clone()));
        let retry = problem.retry_after_s.iter().map(|value| ("Retry-After", value.to_string()));
        let allow = problem.allowed.iter().map(|value| ("Allow", value.clone()));
        let fields = challenge.chain(retry).chain(allow).collect();
        Self { status: problem.status, fields, body: Some(problem.body()) }
    }
}

/// What is to be done: nothing of it is done yet.
#[derive(Debug)]
pub struct Decision {
    pub(crate) answer: Answer,
    pub(crate) changes: Vec<Change>,
    /// What happened besides the changes.
    pub(crate) events: Vec<Event>,
    /// What is told of a network.
    pub(crate) told: Option<Told>,
    /// Where the document is whose version the answer tells, once that is made.
    pub(crate) tagged: Option<String>,
}

/// What is told of networks, which is not kept.
#[derive(Debug)]
pub(crate) enum Told {
    /// A report of the radio network, whole.
    Radio(Radio),
    /// Where a device claims to be, as a client of the platform says.
    Claim { who: String, address: IpAddr, claim: Claim },
    /// A report of another network, by the feed's name.
    Other(String, Value),
}

impl Decision {
    /// Whether it changes nothing, so that it may be made beside others.
    pub fn is_reading(&self) -> bool {
        self.changes.is_empty() && self.events.is_empty() && self.told.is_none()
    }

    /// What the client is told when all of it is done.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self { answer, changes: Vec::new(), events: Vec::new(), told: None, tagged: None }
    }
}

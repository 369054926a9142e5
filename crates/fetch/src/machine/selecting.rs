//! Which variant a request selects: by what an origin that is asked for the cache gets of it (RFC 9111
//! §4.1).
//!
//! Most fields an origin gets as the client sent them. What the node says itself, for all sites or by
//! their rules, stands in the place of what a client said, also in the key of a variant; what stays
//! behind is in none.

use super::prepare;
use freshet_cache::Selecting;
use freshet_http::fields::Fields;
use freshet_http::message::Scheme;
use freshet_http::unkeyed;
use freshet_http::vary::{VaryKey, VaryRule};
use freshet_site::policy::ClientTask;
use std::cell::OnceCell;

/// Fields that the node writes into each request.
const OWN: [&[u8]; 4] = [b"cdn-loop", b"via", b"x-forwarded-for", b"x-forwarded-proto"];

/// A client's request, as far as it selects a variant.
pub struct Selection<'a> {
    task: &'a ClientTask,
    /// What an origin gets; made where a rule wants to know.
    sent: OnceCell<Fields>,
}

impl<'a> Selection<'a> {
    /// That of a request.
    #[inline]
    pub fn of(task: &'a ClientTask) -> Self {
        Self { task, sent: OnceCell::new() }
    }

    /// The fields a rule looks at.
    #[inline]
    pub fn fields(&self, rule: &VaryRule) -> &Fields {
        match rule.names().any(|name| self.is_written(name)) {
            true => self.sent.get_or_init(|| sent(self.task)),
            false => &self.task.request.fields,
        }
    }

    fn is_written(&self, name: &[u8]) -> bool {
        let site = &self.task.site;
        // Which coding a body is kept in, its client says.
        !site.semantics.judges_by_client
            && name != b"accept-encoding"
            && (OWN.contains(&name)
                || site.policy.writes(site, name)
                || unkeyed::is_unkeyed(name)
                || self.is_of_connection(name)
                || self.is_of_identity(name))
    }

    fn is_of_connection(&self, name: &[u8]) -> bool {
        self.task.request.fields.has_token("connection", name)
    }

    fn is_of_identity(&self, name: &[u8]) -> bool {
        let mut said = self.task.identity.iter().flat_map(|identity| identity.said());
        said.any(|(own, _)| own.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl Selecting for Selection<'_> {
    fn scheme(&self) -> Scheme {
        self.task.request.scheme
    }

    fn key(&self, rule: &VaryRule) -> VaryKey {
        rule.key(self.fields(rule))
    }
}

/// All fields that may select, as an origin that is asked for the cache gets them.
pub fn sent(task: &ClientTask) -> Fields {
    let mut fields = prepare::with_own_fields(prepare::for_all(task), task).fields;
    task.site.policy.write(task, &mut fields);
    fields.remove("accept-encoding");
    for value in task.request.fields.get_all("accept-encoding") {
        fields.append("Accept-Encoding", value);
    }
    fields
}

//! The head of an answer as it is kept, and as those are asked about it who keep responses besides memory.

use super::asked::Asked;
use super::entry::scheme_bound;
use freshet_cache::{Form, StoredHead, Variation};
use freshet_config::storage::Storage;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::{ResponseHead, Version};
use freshet_http::{hop_by_hop, update};
use freshet_worker::keepers::Candidate;

impl Asked {
    /// A response as those who keep responses besides memory are asked about it.
    pub(super) fn candidate<'a>(
        &'a self,
        head: &'a StoredHead,
        variation: Option<&'a Variation>,
        tags: &'a [u64],
        storage: &'a Storage,
    ) -> Candidate<'a> {
        Candidate {
            site: &self.plan.site,
            key: &self.plan.key,
            head,
            variation,
            tags,
            request: self.plan.selecting(),
            born: self.born,
            storage,
        }
    }

    /// The head as it is kept: complete but for what each response adds.
    pub(super) fn stored_head(
        &self,
        head: &ResponseHead,
        freshness: Freshness,
        form: Form,
        partial: bool,
    ) -> StoredHead {
        let received = self.received(head.status, &head.fields);
        let fields = update::stored_fields(&received, &self.freshness());
        let stored = self.head_with(head, fields, freshness);
        StoredHead { form, partial, ..stored }
    }

    /// Adds this node to those a message has passed (RFC 9110 §7.6.3); an older version than this node
    /// speaks counts as that.
    pub(super) fn pass_on(&self, version: Version, fields: &mut Fields) {
        let name = &self.plan.site.settings.cache.name;
        let via = format!("{} {name}", version.max(Version::Http11).number());
        fields.append_to_list("Via", via.as_bytes());
    }

    /// The same with these fields, of a whole body that is kept as it is.
    pub(super) fn head_with(
        &self,
        head: &ResponseHead,
        mut fields: Fields,
        freshness: Freshness,
    ) -> StoredHead {
        // A policy had its say on the date that was put there.
        if !self.plan.site.semantics.dates_responses && !head.fields.contains("date") {
            fields.remove("Date");
        }
        self.pass_on(head.version, &mut fields);
        let status = if head.status == 206 { 200 } else { head.status };
        if status == 200 && !fields.contains("accept-ranges") {
            fields.append("Accept-Ranges", "bytes");
        }
        StoredHead {
            etag_holds: true,
            scheme_bound: scheme_bound(status, &fields, self.plan.client.scheme),
            for_caches: hop_by_hop::has_for_caches(&fields),
            partial: false,
            fetch_id: self.task.id,
            reason: head.reason.clone().filter(|_| head.status == status),
            version: head.version,
            fields: fields.compact(),
            status,
            freshness,
            form: Form::default(),
            hits_before: 0,
        }
    }
}

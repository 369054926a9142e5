//! What each act of the table does, for all interfaces alike.

use super::{Answer, Call, Decision, Platform, links};
use crate::api::{self, Stage};
use crate::client::Caller;
use crate::limits::{
    BYTES_MAX, BYTES_PER_CLIENT_MAX, DOCUMENTS_MAX, DOCUMENTS_PER_CLIENT_MAX, PAGE_BYTES_MAX,
    SUBSCRIPTIONS_PER_CLIENT_MAX,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use freshet_documents::problem::Problem;
use freshet_documents::shape::Direction;
use freshet_documents::table::{Method, Operation, View};
use freshet_documents::time;
use freshet_documents::tree::{Change, Document, Held, Tree, escape, length};
use serde_json::Value;

/// A request that may be done, if what it is about is as it says.
pub(super) struct Request<'a> {
    pub(super) platform: &'a Platform,
    pub(super) call: &'a Call<'a>,
    pub(super) operation: &'a Operation,
    pub(super) stage: Stage<'a>,
}

impl Request<'_> {
    pub(super) fn list(&self, view: &View) -> Result<Decision, Problem> {
        let Stage { tree, selection, route, caller, .. } = &self.stage;
        let after = match &selection.after {
            None => None,
            Some(marker) => Some(marker_of(marker).ok_or_else(no_marker)?),
        };
        let root = route.api.root();
        let mut found = tree
            .matching(&root, &view.pattern, &route.names)
            .filter(|(path, _)| after.as_deref().is_none_or(|after| *path > after))
            .filter(|(_, document)| view.is_public || may_see(document, caller))
            .filter(|(_, document)| selection.wants(api::inner(&document.value)))
            .peekable();
        let (mut page, mut bytes) = (Vec::new(), 0);
        while let Some((_, next)) = found.peek()
            && page.len() < selection.page
            && (page.is_empty() || bytes + next.bytes <= PAGE_BYTES_MAX)
        {
            bytes += next.bytes;
            page.extend(found.next());
        }
        let is_more = found.peek().is_some();
        let documents: Vec<Value> =
            page.iter().map(|(_, document)| self.project(&document.value)).collect();
        let mut answer = Answer::ok(documents.into());
        if let (true, Some((last, _))) = (is_more, page.last()) {
            answer = answer.with("Link", next_page(self.stage.url, self.call.target, last));
        }
        Ok(answer.into())
    }

    /// A document with the members that the query asks for.
    fn project(&self, document: &Value) -> Value {
        let types = &self.stage.route.api.types;
        self.stage.selection.project(types, self.operation.document(), document)
    }

    /// A list that is not kept here, in pages by their documents' places.
    pub(super) fn told(&self, name: &str) -> Result<Decision, Problem> {
        let Stage { selection, .. } = &self.stage;
        let begin = match &selection.after {
            None => 0,
            Some(marker) => {
                marker_of(marker).and_then(|place| place.parse().ok()).ok_or_else(no_marker)?
            }
        };
        let told = api::told(name, &self.stage)?;
        let mut found =
            told.documents.iter().filter(|one| selection.wants(one)).skip(begin).peekable();
        let page: Vec<Value> =
            found.by_ref().take(selection.page).map(|one| self.project(one)).collect();
        let end = begin + page.len();
        let mut answer = Answer::ok(page.into());
        if found.peek().is_some() {
            answer =
                answer.with("Link", next_page(self.stage.url, self.call.target, &end.to_string()));
        }
        if let Some(source) = told.source {
            answer = answer.with("Freshet-Data-Source", source);
        }
        Ok(answer.into())
    }

    /// Links to the subscriptions of a collection (§6.11.3 of ETSI GS MEC 009).
    pub(super) fn links(&self) -> Result<Decision, Problem> {
        let Stage { tree, url, route, caller, selection, .. } = &self.stage;
        let path = route.path();
        let kinds: Vec<&str> = selection
            .parameters
            .iter()
            .filter(|(name, _)| name.starts_with("subscription"))
            .flat_map(|(_, value)| value.split(','))
            .collect();
        let is_known = |wanted: &str| route.api.types.names().any(|kind| kind_fits(kind, wanted));
        if let Some(unknown) = kinds.iter().find(|wanted| !is_known(wanted)) {
            return Err(Problem::bad_request(format!(
                "there are no subscriptions of type {unknown}"
            )));
        }
        let below = format!("{path}/");
        let found = tree.below(&below).filter(|(_, document)| may_see(document, caller));
        let found = found.filter_map(|(path, document)| {
            let inner = api::inner(&document.value);
            let kind = inner["subscriptionType"].as_str().filter(|_| selection.wants(inner))?;
            let is_wanted = kinds.is_empty() || kinds.iter().any(|wanted| kind_fits(kind, wanted));
            is_wanted.then(|| links::subscription(&format!("{url}{path}"), kind))
        });
        let found = found.collect();
        let shape = self.operation.answer.as_ref().expect("the table gives links a type");
        let list = links::list(&route.api.types, shape, &format!("{url}{path}"), found);
        Ok(Answer::ok(list).into())
    }

    pub(super) fn read(&self, view: &View) -> Result<Decision, Problem> {
        let Stage { tree, route, caller, .. } = &self.stage;
        let root = route.api.root();
        let mut found = tree.matching(&root, &view.pattern, &route.names);
        let (_, document) = found.next().ok_or_else(|| self.missing())?;
        if !view.is_public && !may_see(document, caller) {
            return Err(Problem::forbidden("this belongs to another client"));
        }
        let etag = document.etag();
        if self.is_known(&etag) {
            return Ok(Answer { status: 304, ..Answer::default() }.with("ETag", etag).into());
        }
        Ok(Answer::ok(self.project(&document.value)).with("ETag", etag).into())
    }

    pub(super) fn create(&self, mut value: Value) -> Result<Decision, Problem> {
        let Stage { tree, route, caller, fresh, .. } = &self.stage;
        if is_subscription(&value) {
            let is_one = |(_, document): &(&str, &Document)| {
                document.owner.as_deref() == Some(&caller.client)
                    && is_subscription(&document.value)
            };
            if tree.below("/").filter(is_one).count() >= SUBSCRIPTIONS_PER_CLIENT_MAX {
                return Err(Problem::forbidden(format!(
                    "a client may have {SUBSCRIPTIONS_PER_CLIENT_MAX} subscriptions"
                )));
            }
        }
        let id = api::id(&self.stage, &value).unwrap_or_else(|| (*fresh).to_owned());
        let path = format!("{}/{}", self.stage.route.path(), escape(&id));
        if tree.get(&path).is_some() {
            return Err(Problem::new(409, format!("there is {path} already")));
        }
        let attribute = route.api.item_of(route.resource).and_then(|item| item.id.as_deref());
        self.finish(&mut value, &path, attribute, &id);
        self.check_subscription(&value)?;
        let mut changes = api::admit(&self.stage, &path, &mut value, None)?;
        check_room(tree, Some(&caller.client), &value, None)?;
        let answer = Answer { status: 201, ..Answer::ok(value.clone()) };
        let answer = answer.with("Location", format!("{}{path}", self.stage.url));
        changes.push(Change::put(path.clone(), value, Some(caller.client.clone())));
        Ok(Decision { changes, tagged: Some(path), ..answer.into() })
    }

    pub(super) fn replace(&self, mut value: Value) -> Result<Decision, Problem> {
        let (path, old) = self.own_document()?;
        let id = self.last_name();
        self.finish(&mut value, &path, self.stage.route.resource.id.as_deref(), &id);
        self.check_subscription(&value)?;
        self.put(path, old, value)
    }

    /// A merge of members (RFC 7396), whose result is a whole document again.
    pub(super) fn patch(&self, patch: &Value) -> Result<Decision, Problem> {
        let (path, old) = self.own_document()?;
        let mut value = old.value.clone();
        merge(&mut value, patch);
        let types = &self.stage.route.api.types;
        if let Some(shape) = self.operation.document() {
            let mistakes = types.mistakes(shape, &value, Direction::Request);
            if !mistakes.is_empty() {
                return Err(Problem::bad_request(mistakes.join("; ")));
            }
        }
        let id = self.last_name();
        self.finish(&mut value, &path, self.stage.route.resource.id.as_deref(), &id);
        self.check_subscription(&value)?;
        self.put(path, old, value)
    }

    fn put(&self, path: String, old: &Document, mut value: Value) -> Result<Decision, Problem> {
        let mut changes = api::admit(&self.stage, &path, &mut value, Some(&old.value))?;
        check_room(self.stage.tree, old.owner.as_deref(), &value, Some(old))?;
        // A type of the table that has no answer here is of the kind that gives none.
        let answer = match self.operation.answer {
            Some(_) => Answer::ok(value.clone()),
            None => Answer::nothing(),
        };
        // Who puts a document has it, with this tag, only where it is kept as it was sent (RFC 9110 §9.3.4).
        let is_as_sent =
            || serde_json::from_slice(self.call.body).is_ok_and(|sent: Value| sent == value);
        let is_tagged = self.operation.method != Method::Put || is_as_sent();
        let tagged = is_tagged.then(|| path.clone());
        changes.push(Change::put(path, value, old.owner.clone()));
        Ok(Decision { changes, tagged, ..answer.into() })
    }

    pub(super) fn remove(&self) -> Result<Decision, Problem> {
        let (path, _) = self.own_document()?;
        let mut changes = api::removed(&self.stage, &path)?;
        changes.push(Change::remove(path));
        Ok(Decision { changes, ..Answer::nothing().into() })
    }

    /// The document of the path, for a client that may change it and means this version of it.
    pub(super) fn own_document(&self) -> Result<(String, &Document), Problem> {
        let path = self.stage.route.path();
        let document = self.stage.tree.get(&path).ok_or_else(|| self.missing())?;
        if !may_see(document, self.stage.caller) {
            return Err(Problem::forbidden("this belongs to another client"));
        }
        self.check_version(document)?;
        Ok((path, document))
    }

    /// That who has something of an interface's own done to a document means this version of it.
    pub(super) fn check_own_version(&self) -> Result<(), Problem> {
        let document = self.stage.tree.get(&self.stage.route.path());
        match document.filter(|_| self.operation.method != Method::Get) {
            Some(document) => self.check_version(document),
            None => Ok(()),
        }
    }

    fn check_version(&self, document: &Document) -> Result<(), Problem> {
        match self.call.if_match {
            Some(wanted) if !matches_tag(wanted, &document.etag(), Comparison::Strong) => {
                Err(Problem::new(412, "this was changed meanwhile: read it again"))
            }
            _ if self.is_known(&document.etag()) => {
                Err(Problem::new(412, "this is there, which `If-None-Match` excludes"))
            }
            _ => Ok(()),
        }
    }

    /// Whether `If-None-Match` has a version of a document.
    fn is_known(&self, etag: &str) -> bool {
        self.call.if_none_match.is_some_and(|known| matches_tag(known, etag, Comparison::Weak))
    }

    /// Gives a document its name and links, whatever the client put there.
    fn finish(&self, value: &mut Value, path: &str, attribute: Option<&str>, id: &str) {
        let types = &self.stage.route.api.types;
        let href = format!("{}{path}", self.stage.url);
        let is_linked =
            self.operation.document().is_some_and(|shape| links::has_links(types, shape));
        let inner = api::inner_mut(value);
        if let Some(attribute) = attribute {
            inner[attribute] = id.into();
        }
        if is_linked {
            inner["_links"] = serde_json::json!({ "self": { "href": href } });
        }
    }

    /// That a subscription can be told, and is not over before it was begun.
    fn check_subscription(&self, value: &Value) -> Result<(), Problem> {
        let Some(uri) = api::callback(value) else { return Ok(()) };
        self.platform.setup.callbacks.check(uri)?;
        let now_ms = self.stage.now_ms;
        match time::of_stamp(&api::inner(value)["expiryDeadline"]) {
            Some(at_ms) if at_ms <= now_ms => Err(Problem::bad_request(format!(
                "/expiryDeadline is over: it is {} here",
                time::write(now_ms)
            ))),
            _ => Ok(()),
        }
    }

    fn last_name(&self) -> String {
        self.stage.route.names.last().map(|(_, value)| value.clone()).unwrap_or_default()
    }

    fn missing(&self) -> Problem {
        Problem::not_found(&self.stage.route.path())
    }
}

/// Whether there is room for a document of an owner, in the place of another or beside all.
pub(crate) fn check_room(
    tree: &Tree,
    owner: Option<&str>,
    value: &Value,
    old: Option<&Document>,
) -> Result<(), Problem> {
    let bytes = length(value);
    // What does not grow may stay, however much there is.
    if old.is_some_and(|old| bytes <= old.bytes) {
        return Ok(());
    }
    let after = |held: Held| old.map_or(held, |old| held.without(old.bytes)).and(bytes);
    let exceeds = |held: Held, documents, bytes| held.documents > documents || held.bytes > bytes;
    let of_all = exceeds(after(tree.held()), DOCUMENTS_MAX, BYTES_MAX);
    let of_owner = owner.is_some_and(|owner| {
        exceeds(after(tree.owned(owner)), DOCUMENTS_PER_CLIENT_MAX, BYTES_PER_CLIENT_MAX)
    });
    if of_all || of_owner {
        return Err(Problem::new(
            507,
            format!(
                "a client may have {DOCUMENTS_PER_CLIENT_MAX} documents of {BYTES_PER_CLIENT_MAX} bytes in all, and the \
                 platform has a limit for all clients"
            ),
        ));
    }
    Ok(())
}

fn may_see(document: &Document, caller: &Caller) -> bool {
    caller.owns(document.owner.as_deref())
}

fn is_subscription(value: &Value) -> bool {
    api::callback(value).is_some()
}

/// `cell_change` is asked for, and the type says `CellChangeSubscription`.
fn kind_fits(kind: &str, wanted: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let kind = plain(kind);
    let wanted = plain(wanted);
    let stem = kind.strip_suffix("subscription");
    stem.is_some() && (kind == wanted || stem == Some(&wanted))
}

/// How entity tags are compared (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, Eq, PartialEq)]
enum Comparison {
    /// One that is weak is none of ours.
    Strong,
    /// Whether it is said to be weak does not count.
    Weak,
}

/// Whether a list of entity tags has this one (RFC 9110 §13.1).
fn matches_tag(list: &str, etag: &str, comparison: Comparison) -> bool {
    list.split(',').map(str::trim).any(|tag| {
        let weak = tag.strip_prefix("W/").filter(|_| comparison == Comparison::Weak);
        tag == "*" || weak.unwrap_or(tag) == etag
    })
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn marker_of(marker: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(marker).ok()?).ok()
}

fn no_marker() -> Problem {
    Problem::bad_request("nextpage_opaque_marker is none of ours")
}

/// `Link` to the page after a document (RFC 8288).
fn next_page(url: &str, target: &str, last: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let others: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("nextpage_opaque_marker="))
        .collect();
    let mut query = others.join("&");
    if !query.is_empty() {
        query.push('&');
    }
    format!("<{url}{path}?{query}nextpage_opaque_marker={}>; rel=\"next\"", BASE64.encode(last))
}

//! What each act of the table does, for all interfaces alike.

use super::{Answer, Call, Decision, Platform, links};
use crate::api::{self, Stage};
use crate::client::{self, Caller};
use crate::limits::{
    BODY_BYTES_MAX, DEPTH_MAX, DOCUMENTS_PER_CLIENT_MAX, SUBSCRIPTIONS_PER_CLIENT_MAX,
};
use crate::problem::Problem;
use crate::query::Selection;
use crate::shape::Direction;
use crate::table::{Act, Method, Operation, Route, Segment, View};
use crate::tree::{Change, Document, escape};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::Value;

/// Decides what becomes of a request with a token that holds.
pub(super) fn decide(
    platform: &Platform,
    call: &Call<'_>,
    route: &Route<'_>,
    caller: &Caller,
    fresh: &str,
    now_ms: u64,
) -> Result<Decision, Problem> {
    let operation = operation(route, call.method)?;
    authorize(route, operation, caller)?;
    check_accept(call)?;
    let (_, query) = call.target.split_once('?').unwrap_or((call.target, ""));
    let selection = Selection::read(query, operation)?;
    if let Some(app) = route.name("appInstanceId")
        && !api::is_app(&platform.tree, app)
        && api::needs_app(route)
    {
        return Err(Problem::not_found(&format!("app instance {app}")));
    }
    let body = body(call, route, operation)?;
    let stage = Stage {
        tree: &platform.tree,
        radio: &platform.radio,
        tags: &platform.setup.tags,
        url: &platform.setup.url,
        route,
        caller,
        selection: &selection,
        fresh,
        now_ms,
    };
    let request = Request { platform, call, operation, stage };
    match &operation.act {
        Act::List(view) => request.list(view),
        Act::Links => request.links(),
        Act::Read(view) => request.read(view),
        Act::Create => request.create(body.unwrap_or_default()),
        Act::Replace => request.replace(body.unwrap_or_default()),
        Act::Patch => request.patch(&body.unwrap_or_default()),
        Act::Remove => request.remove(),
        Act::Own(name) => api::own(name, &request.stage, body),
    }
}

/// Where an answer is not what the table says: nowhere, in a program without a mistake.
pub(super) fn mistakes(call: &Call<'_>, route: &Route<'_>, answer: &Answer) -> Vec<String> {
    let whole = !call.target.contains("fields=");
    let operation = operation(route, call.method).ok().filter(|_| whole);
    let shape = operation.and_then(|operation| operation.answer.as_ref());
    let Some((body, shape)) = answer.body.as_ref().zip(shape) else { return Vec::new() };
    route.api.types.mistakes(shape, body, Direction::Answer)
}

/// The operation of a method; 405 with what there is in its place.
fn operation<'a>(route: &Route<'a>, method: &str) -> Result<&'a Operation, Problem> {
    let operations = &route.resource.operations;
    // A HEAD is a GET whose body is not sent.
    let wanted = if method == "HEAD" { Some(Method::Get) } else { Method::of(method) };
    let found = operations.iter().find(|one| Some(one.method) == wanted);
    found.ok_or_else(|| {
        let allowed: Vec<&str> = operations.iter().map(|one| one.method.name()).collect();
        Problem::new(405, format!("{} takes {}", route.resource.template(), allowed.join(", ")))
    })
}

/// Whether the token has the scope, and is of the app instance in the path.
fn authorize(route: &Route<'_>, operation: &Operation, caller: &Caller) -> Result<(), Problem> {
    if !caller.may(&operation.scope) {
        return Err(client::insufficient(&operation.scope));
    }
    match (route.name("appInstanceId"), &caller.app) {
        (Some(named), Some(own)) if named != own => {
            Err(Problem::forbidden(format!("the token is of another app instance than {named}")))
        }
        _ => Ok(()),
    }
}

/// Whether the client takes JSON (RFC 9110 §12.5.1).
fn check_accept(call: &Call<'_>) -> Result<(), Problem> {
    let Some(accept) = call.accept.filter(|accept| !accept.trim().is_empty()) else {
        return Ok(());
    };
    let takes = accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_refused = parts
            .any(|part| part.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)));
        !is_refused && matches!(kind.as_str(), "*/*" | "application/*" | "application/json")
    });
    if takes {
        Ok(())
    } else {
        Err(Problem::new(406, "this is application/json, which `Accept` excludes"))
    }
}

/// Reads the body of an operation that has one.
fn body(
    call: &Call<'_>,
    route: &Route<'_>,
    operation: &Operation,
) -> Result<Option<Value>, Problem> {
    let Some(shape) = &operation.body else { return Ok(None) };
    if call.body.len() > BODY_BYTES_MAX {
        return Err(Problem::new(413, format!("{BODY_BYTES_MAX} bytes of body are the most")));
    }
    let kind =
        call.content_type.and_then(|kind| kind.split(';').next()).unwrap_or("application/json");
    let kind = kind.trim().to_ascii_lowercase();
    // No media type, as some clients send it with everything: it says as much as none.
    let kind = if kind == "*/*" { "application/json".to_owned() } else { kind };
    let is_patch = operation.method == Method::Patch && kind == "application/merge-patch+json";
    if kind != "application/json" && !is_patch {
        return Err(Problem::new(415, format!("the body is {kind}; this takes application/json")));
    }
    let value: Value = serde_json::from_slice(call.body)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))?;
    if depth(&value) > DEPTH_MAX {
        return Err(Problem::bad_request(format!("the body is deeper than {DEPTH_MAX}")));
    }
    let mistakes = route.api.types.mistakes(shape, &value, Direction::Request);
    if mistakes.is_empty() {
        Ok(Some(value))
    } else {
        Err(Problem::bad_request(mistakes.join("; ")))
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

struct Request<'a> {
    platform: &'a Platform,
    call: &'a Call<'a>,
    operation: &'a Operation,
    stage: Stage<'a>,
}

impl Request<'_> {
    fn list(&self, view: &View) -> Result<Decision, Problem> {
        let Stage { tree, selection, route, caller, .. } = &self.stage;
        let after = match &selection.after {
            None => None,
            Some(marker) => {
                let path = BASE64.decode(marker).ok().and_then(|path| String::from_utf8(path).ok());
                Some(path.ok_or_else(|| {
                    Problem::bad_request("nextpage_opaque_marker is none of ours")
                })?)
            }
        };
        let root = route.api.root();
        let mut found = tree
            .matching(&root, &view.pattern, &route.names)
            .filter(|(path, _)| after.as_deref().is_none_or(|after| *path > after))
            .filter(|(_, document)| view.is_public || may_see(document, caller))
            .filter(|(_, document)| selection.wants(api::inner(&document.value)));
        let page: Vec<_> = found.by_ref().take(selection.page).collect();
        let is_more = found.next().is_some();
        let documents: Vec<Value> =
            page.iter().map(|(_, document)| selection.project(&document.value)).collect();
        let mut answer = Answer::ok(documents.into());
        if let (true, Some((last, _))) = (is_more, page.last()) {
            answer = answer.with("Link", next_page(self.stage.url, self.call.target, last));
        }
        Ok(answer.into())
    }

    /// Links to the subscriptions of a collection (§6.11.3 of ETSI GS MEC 009).
    fn links(&self) -> Result<Decision, Problem> {
        let Stage { tree, url, route, caller, selection, .. } = &self.stage;
        let path = self.path();
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
            let kind = api::inner(&document.value)["subscriptionType"].as_str()?;
            let is_wanted = kinds.is_empty() || kinds.iter().any(|wanted| kind_fits(kind, wanted));
            is_wanted.then(|| links::subscription(&format!("{url}{path}"), kind))
        });
        let found = found.collect();
        let shape = self.operation.answer.as_ref().expect("the table gives links a type");
        let list = links::list(&route.api.types, shape, &format!("{url}{path}"), found);
        Ok(Answer::ok(list).into())
    }

    fn read(&self, view: &View) -> Result<Decision, Problem> {
        let Stage { tree, route, caller, selection, .. } = &self.stage;
        let root = route.api.root();
        let mut found = tree.matching(&root, &view.pattern, &route.names);
        let (_, document) = found.next().ok_or_else(|| self.missing())?;
        if !view.is_public && !may_see(document, caller) {
            return Err(Problem::forbidden("this belongs to another client"));
        }
        let etag = document.etag();
        if self.call.if_none_match.is_some_and(|known| matches_tag(known, &etag)) {
            return Ok(Answer { status: 304, ..Answer::default() }.with("ETag", etag).into());
        }
        Ok(Answer::ok(selection.project(&document.value)).with("ETag", etag).into())
    }

    fn create(&self, mut value: Value) -> Result<Decision, Problem> {
        let Stage { tree, route, caller, fresh, .. } = &self.stage;
        if tree.is_full() || tree.owned(&caller.client) >= DOCUMENTS_PER_CLIENT_MAX {
            return Err(Problem::new(
                507,
                format!(
                    "a client may have {DOCUMENTS_PER_CLIENT_MAX} documents, and the platform has a limit for all"
                ),
            ));
        }
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
        let path = format!("{}/{}", self.path(), escape(&id));
        if tree.get(&path).is_some() {
            return Err(Problem::new(409, format!("there is {path} already")));
        }
        let attribute = route.api.item_of(route.resource).and_then(|item| item.id.as_deref());
        self.finish(&mut value, &path, attribute, &id);
        self.check_callback(&value)?;
        let mut changes = api::admit(&self.stage, &path, &mut value, None)?;
        let answer = Answer { status: 201, ..Answer::ok(value.clone()) };
        let answer = answer.with("Location", format!("{}{path}", self.stage.url));
        changes.push(Change::put(path, value, Some(caller.client.clone())));
        Ok(Decision { changes, ..answer.into() })
    }

    fn replace(&self, mut value: Value) -> Result<Decision, Problem> {
        let (path, old) = self.own_document()?;
        let id = self.last_name();
        self.finish(&mut value, &path, self.stage.route.resource.id.as_deref(), &id);
        self.check_callback(&value)?;
        self.put(path, old, value)
    }

    /// A merge of members (RFC 7396), whose result is a whole document again.
    fn patch(&self, patch: &Value) -> Result<Decision, Problem> {
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
        self.check_callback(&value)?;
        self.put(path, old, value)
    }

    fn put(&self, path: String, old: &Document, mut value: Value) -> Result<Decision, Problem> {
        let mut changes = api::admit(&self.stage, &path, &mut value, Some(&old.value))?;
        // A type of the table that has no answer here is of the kind that gives none.
        let answer = match self.operation.answer {
            Some(_) => Answer::ok(value.clone()),
            None => Answer::nothing(),
        };
        changes.push(Change::put(path, value, old.owner.clone()));
        Ok(Decision { changes, ..answer.into() })
    }

    fn remove(&self) -> Result<Decision, Problem> {
        let (path, _) = self.own_document()?;
        let mut changes = api::removed(&self.stage, &path)?;
        changes.push(Change::remove(path));
        Ok(Decision { changes, ..Answer::nothing().into() })
    }

    /// The document of the path, for a client that may change it and means this version of it.
    fn own_document(&self) -> Result<(String, &Document), Problem> {
        let path = self.path();
        let document = self.stage.tree.get(&path).ok_or_else(|| self.missing())?;
        if !may_see(document, self.stage.caller) {
            return Err(Problem::forbidden("this belongs to another client"));
        }
        match self.call.if_match {
            Some(wanted) if wanted.trim() != "*" && !matches_tag(wanted, &document.etag()) => {
                Err(Problem::new(412, "this was changed meanwhile: read it again"))
            }
            _ => Ok((path, document)),
        }
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

    fn check_callback(&self, value: &Value) -> Result<(), Problem> {
        match api::callback(value) {
            Some(uri) => self.platform.setup.callbacks.check(uri).map(drop),
            None => Ok(()),
        }
    }

    /// The path of the request, in the one form documents have.
    fn path(&self) -> String {
        let route = self.stage.route;
        let mut path = route.api.root();
        let mut names = route.names.iter();
        for segment in &route.resource.segments {
            path.push('/');
            match segment {
                Segment::Word(word) => path.push_str(word),
                Segment::Name(_) => {
                    path.push_str(&escape(names.next().map_or("", |(_, value)| value)))
                }
            }
        }
        path
    }

    fn last_name(&self) -> String {
        self.stage.route.names.last().map(|(_, value)| value.clone()).unwrap_or_default()
    }

    fn missing(&self) -> Problem {
        Problem::not_found(&self.path())
    }
}

fn may_see(document: &Document, caller: &Caller) -> bool {
    document.owner.as_deref().is_none_or(|owner| caller.owns(owner))
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

/// Whether a list of entity tags has this one (RFC 9110 §13.1).
fn matches_tag(list: &str, etag: &str) -> bool {
    list.split(',')
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == etag || tag == "*")
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

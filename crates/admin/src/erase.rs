//! Erasing content from the stores, with an account that is the proof.

use crate::answer::{Input, beside};
use crate::context::Context;
use crate::limits::ERASURE_BEGINS_MAX;
use crate::problem::Problem;
use crate::scope::Scope;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use freshet_cache::Purge;
use freshet_disk::{Disk, Disks, Erased, Progress};
use freshet_node::worker::Shared;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// What is to be erased.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToErase {
    /// The site whose content is meant; everything without it.
    site: Option<String>,
}

/// An erasure that has begun.
#[derive(Serialize, ToSchema)]
pub(crate) struct Begun {
    /// Stored responses in memory that were purged first.
    purged: usize,
    /// Whether that is durable on every store. Where one is away, its content is not erased.
    durable: bool,
    /// Whether it has begun on every store.
    begun: bool,
    /// How far it is.
    erasure: ErasureView,
}

/// The last erasure of the stores.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErasureView {
    /// `none`: there was none. `running`: some store is not through. `waiting`: those that are not
    /// through are away. `done`: each store was visited and read again, and nothing is left.
    /// `incomplete`: it is over and something is left, or a store was away when it began.
    state: &'static str,
    /// The site whose content is erased; `null` where that is everything.
    site: Option<String>,
    /// Each store.
    stores: Vec<StoreErasure>,
}

/// What became of one store.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoreErasure {
    /// File or device.
    path: String,
    /// `running`, `done` or `incomplete`, as above; `away`: it is not in use, so nothing is known;
    /// `missed`: it was not in use when the erasure began.
    state: &'static str,
    /// Segments of the store.
    segments: u32,
    /// Segments that are through.
    segments_done: u32,
    /// Bytes of records of others, which stay.
    kept_bytes: u64,
    /// Bytes that were something else than zeroes and were overwritten.
    overwritten_bytes: u64,
    /// Bytes that were read again afterwards and are zeroes.
    zero_bytes: u64,
    /// Bytes that could not be overwritten or read again, or are no zeroes.
    left_bytes: u64,
    /// When it began, Unix milliseconds.
    begun_ms: u64,
    /// When it was through, Unix milliseconds; 0 before.
    ended_ms: u64,
}

/// Says how far the last erasure is, and what it found: it is remembered in the stores.
#[utoipa::path(get, path = "/v1/erase", tag = "purge", security(("token" = [])),
    responses((status = OK, body = ErasureView, description = "The last erasure")))]
pub(crate) async fn erasure(State(context): State<Arc<Context>>) -> Json<ErasureView> {
    let disks = context.node.shared.disks.as_ref();
    Json(disks.map_or_else(|| view(&[]), |disks| view(disks.disks())))
}

/// Purges all that a site has, or everything, and has the bytes overwritten on all stores. The answer
/// comes once the purge is durable and the erasure has begun; it goes on by itself, after a restart too.
#[utoipa::path(post, path = "/v1/erase", tag = "purge", security(("token" = [])),
    request_body = ToErase,
    responses((status = OK, body = Begun, description = "It has begun"),
        (status = NOT_FOUND, body = Problem, content_type = "application/problem+json",
            description = "There is no such site, or there are no stores"),
        (status = CONFLICT, body = Problem, content_type = "application/problem+json",
            description = "Another erasure is under way")))]
pub(crate) async fn erase(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<ToErase>,
) -> Result<Json<Begun>, Problem> {
    let site = scope.site(&context, input.site.as_deref())?;
    let tag = site.and_then(|site| site.tag_of_all());
    let name = input.site.unwrap_or_default();
    beside(move || begin(&context.node.shared, &name, tag)).await?.map(Json)
}

/// On a thread that may block: it waits for the stores.
fn begin(shared: &Shared, name: &str, tag: Option<u64>) -> Result<Begun, Problem> {
    let Some(disks) = shared.disks.as_ref() else {
        return Err(Problem::not_found(
            "the node has no stores",
            "a purge forgets what is in memory; stores are given with --store PATH:SIZE",
        ));
    };
    let Some(turn) = disks.erasure_turn() else { return Err(under_way(disks)) };
    let done = match tag {
        Some(tag) => shared.purge_tag(tag, Purge::Hard),
        None => shared.purge_all(Purge::Hard),
    };
    let (purged, durable) = (done.objects, done.durability.wait());
    let (_, pending) = turn.erase(name);
    let until = Instant::now() + ERASURE_BEGINS_MAX;
    let mut begun = pending.away == 0;
    for one in pending.completions {
        begun &= one.wait(until.saturating_duration_since(Instant::now())).result.is_ok();
    }
    tracing::info!(site = name, purged, durable, begun, "erasing by the admin interface");
    Ok(Begun { purged, durable, begun, erasure: view(disks.disks()) })
}

fn under_way(disks: &Disks) -> Problem {
    let erasure = view(disks.disks());
    let what =
        erasure.site.as_deref().map_or_else(|| "everything".to_owned(), |site| format!("`{site}`"));
    let (done, all) = erasure.stores.iter().fold((0, 0), |(done, all), store| {
        (done + u64::from(store.segments_done), all + u64::from(store.segments))
    });
    Problem::new(
        StatusCode::CONFLICT,
        format!("another erasure is under way: of {what}, {done} of {all} segments are through"),
        "`freshet store erase --follow` shows it; ask again when it is over",
    )
}

/// The last erasure of these stores.
fn view(disks: &[Arc<Disk>]) -> ErasureView {
    let found: Vec<(String, bool, Option<Progress>)> = disks
        .iter()
        .map(|disk| (disk.spec.path.display().to_string(), disk.volume().is_some(), disk.erasure()))
        .collect();
    view_of(found)
}

/// Of stores with their paths, whether they are in use, and what they remember.
fn view_of(found: Vec<(String, bool, Option<Progress>)>) -> ErasureView {
    let all = found.iter().filter_map(|(_, _, progress)| progress.as_ref());
    let Some(last) = all.max_by_key(|progress| progress.since).cloned() else {
        return ErasureView { state: "none", site: None, stores: Vec::new() };
    };
    let stores = found.into_iter().map(|(path, is_in_use, progress)| {
        let progress = progress.filter(|progress| progress.since == last.since);
        let state = match &progress {
            _ if !is_in_use => "away",
            None => "missed",
            Some(Progress { erased, .. }) if !erased.is_over() => "running",
            Some(Progress { erased, .. }) if erased.is_whole() => "done",
            Some(_) => "incomplete",
        };
        let Progress { begun_ms, ended_ms, erased, .. } = progress.unwrap_or_default();
        let Erased { segments, segments_done, kept_bytes, .. } = erased;
        let Erased { overwritten_bytes, zero_bytes, left_bytes, .. } = erased;
        StoreErasure {
            path,
            state,
            segments,
            segments_done,
            kept_bytes,
            overwritten_bytes,
            zero_bytes,
            left_bytes,
            begun_ms,
            ended_ms,
        }
    });
    let stores: Vec<StoreErasure> = stores.collect();
    let any = |state: &str| stores.iter().any(|store| store.state == state);
    let state = match () {
        () if any("running") => "running",
        () if any("away") => "waiting",
        () if any("missed") || any("incomplete") => "incomplete",
        () => "done",
    };
    let site = Some(last.what).filter(|name| !name.is_empty());
    ErasureView { state, site, stores }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(since: u64, segments_done: u32, left_bytes: u64) -> Option<Progress> {
        let erased = Erased { segments: 9, segments_done, left_bytes, ..Erased::default() };
        Some(Progress { since, what: "shop".into(), erased, ..Progress::default() })
    }

    fn state(found: &[(bool, Option<Progress>)]) -> (&'static str, Vec<&'static str>) {
        let all = found.iter().map(|(used, progress)| ("p".into(), *used, progress.clone()));
        let view = view_of(all.collect());
        (view.state, view.stores.iter().map(|store| store.state).collect())
    }

    #[test]
    fn it_is_done_only_where_each_store_is_whole() {
        let whole = || (true, progress(5, 9, 0));
        assert_eq!(state(&[(true, None)]), ("none", vec![]));
        assert_eq!(state(&[whole(), whole()]), ("done", vec!["done", "done"]));
        let others = [
            ((true, progress(5, 3, 0)), "running", "running"),
            ((false, None), "waiting", "away"),
            ((true, progress(4, 9, 0)), "incomplete", "missed"),
            ((true, None), "incomplete", "missed"),
            ((true, progress(5, 9, 1)), "incomplete", "incomplete"),
        ];
        for (other, all, one) in others {
            assert_eq!(state(&[whole(), other.clone()]), (all, vec!["done", one]), "{other:?}");
        }
    }
}

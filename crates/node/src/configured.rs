//! What a configuration makes: its sites, with the policies they name.

use freshet_config::{Mistake, Settings, SiteSettings};
use freshet_geo::Geo;
use freshet_policies::builtin::Builtin;
use freshet_policies::vcl::{Files, VclPolicy, language};
use freshet_site::semantics;
use freshet_site::site::{Site, wrong_files};
use freshet_site::snapshot::{Draft, Snapshot, Stayed, head_limits};
use freshet_vcl::{Defaults, Timeouts};
use freshet_worker::worker::Shared;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Makes the sites of a configuration. What did not change since `before` stays, with health and connections. A
/// site that cannot be made, or of which something is `wrong` already, stays as it was before, with what hosts of it
/// no other has now, and so do the certificates of the top level; the log says so.
///
/// # Errors
/// What names the sites and what is wrong with each.
pub(crate) fn draft(
    mut settings: Settings,
    before: Option<&Snapshot>,
    mut wrong: HashMap<&str, &[Mistake]>,
) -> Result<Draft, Vec<Mistake>> {
    let (mut kept, mut stayed) = (Vec::new(), Vec::new());
    let mut mistakes = Vec::new();
    match (wrong.remove("").unwrap_or_default(), before) {
        ([], _) => {}
        (of_top, Some(before)) => {
            let why = all_of(of_top);
            tracing::error!("the certificates of the top level stay as they were: {why}");
            settings.site.certificates.clone_from(&before.settings.site.certificates);
            stayed.push(Stayed { site: None, why });
        }
        (of_top, None) => mistakes.extend_from_slice(of_top),
    }
    let classes: Vec<_> = settings.store_classes().collect();
    let mut sites = Vec::with_capacity(settings.served().len());
    let geo = crate::geo::open(&settings).unwrap_or_else(|wrong| {
        mistakes.extend(wrong);
        Arc::default()
    });
    for wanted in &settings.served() {
        let known = before.and_then(|before| before.sites.named(&wanted.name));
        let mut wrong =
            wrong.get(wanted.name.as_str()).map_or_else(Vec::new, |wrong| wrong.to_vec());
        let made = site(wanted, &classes, &geo, known.map(|site| &**site));
        match (made.map_err(|mistakes| wrong.extend(mistakes)), known) {
            (Ok(site), _) if wrong.is_empty() => sites.push(Arc::new(site)),
            _ if wanted.name.is_empty() => mistakes.extend(wrong),
            (_, Some(known)) => {
                let why = all_of(&wrong);
                tracing::error!(site = wanted.name, "stays as it was: {why}");
                kept.push(Arc::clone(known));
                stayed.push(Stayed { site: Some(known.name.clone()), why });
            }
            (_, None) => mistakes.extend(wrong.into_iter().map(|mistake| {
                let message = format!("site `{}`: {}", wanted.name, mistake.message);
                Mistake { message, ..mistake }
            })),
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let h1_limits = head_limits(&settings.limits);
    // Before the others, which have the hosts that both name.
    kept.extend(sites);
    let stayed = stayed.into();
    Ok(Draft { stayed, geo, ..Draft::of(settings, kept, h1_limits, semantics::PLAIN) })
}

fn all_of(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Lets the policies of a configuration act on what a node keeps, before that is in force: those of a start are made
/// before there is anything.
pub(crate) fn let_act(draft: &Draft, shared: &Arc<Shared>) {
    for site in draft.sites.all() {
        if let Some(vcl) = VclPolicy::of(&*site.policy) {
            vcl.set_shared(shared, &site.name, draft.settings.bans);
        }
    }
}

/// One site, for a node with stores of these classes and these databases. Origins whose settings did not change since
/// `before` stay the same ones, with their health and connections.
fn site(
    settings: &Arc<SiteSettings>,
    store_classes: &[&str],
    geo: &Arc<Geo>,
    before: Option<&Site>,
) -> Result<Site, Vec<Mistake>> {
    let Some(path) = &settings.vcl else {
        return Site::new(settings, Arc::new(Builtin), geo, before);
    };
    match load(path, settings, store_classes, before) {
        Ok(vcl) => vcl.site(Arc::clone(settings)).after(geo, before),
        Err(error) => {
            let of_policy = Mistake::error(settings.vcl_place, error);
            Err([of_policy].into_iter().chain(wrong_files(settings, geo)).collect())
        }
    }
}

/// Reads and loads a policy. Origins that did not change stay the same ones.
fn load(
    path: &Path,
    settings: &SiteSettings,
    store_classes: &[&str],
    before: Option<&Site>,
) -> Result<Arc<VclPolicy>, String> {
    let (source, files) = Files::open(path)?;
    let timeouts = &settings.origin_timeouts;
    let timeouts = Timeouts {
        connect: timeouts.connect.as_secs_f64(),
        first_byte: timeouts.first_byte.as_secs_f64(),
        between_bytes: timeouts.between_bytes.as_secs_f64(),
        idle: timeouts.keep_alive.as_secs_f64(),
    };
    let defaults = Defaults { grace: settings.cache.grace.as_secs_f64(), ..Defaults::default() };
    let language = language(store_classes.iter().copied());
    let before = before.and_then(|before| VclPolicy::of(&*before.policy));
    VclPolicy::load("boot", source, &files, &language, defaults, timeouts, before)
        .map_err(|error| format!("the policy has mistakes\n{error}"))
}

//! The thread that serves the interface, and what its paths are.

use crate::connection::{Door, PlaceOf};
use crate::context::{Acme, Context, Reload};
use crate::error::AdminError;
use crate::guard::{Refusals, check_node, check_token, guard};
use crate::limits::THREADS_MAX;
use crate::metrics::Metrics;
use crate::problem::{self, Problem};
use crate::scope::SiteTokens;
use crate::token::Token;
use crate::{
    bans, blocks, certificates, control, curve, erase, explain, health, log, maintenance, metrics,
    objects, origins, players, purge, settings, sites, stats, stores,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_node::node::Node;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::{Response as OpenApiResponse, ResponseBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How long requests under way at a stop have for their answers: whoever purges wants to know.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// A running interface. Dropping it ends it.
pub struct Handle {
    address: Address,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Where it listens, with the port the kernel chose if 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An address that is listened on, and nobody answers yet.
pub struct Bound(Listener);

/// Listens on `address`. Clients that come before [`Bound::start`] wait.
///
/// # Errors
/// When the address cannot be listened on.
pub fn bind(address: &Address) -> Result<Bound, AdminError> {
    Ok(Bound(Listener::bind(address, &ListenOptions::default())?))
}

impl From<Listener> for Bound {
    /// A socket that listens already, such as one from the process before.
    fn from(listener: Listener) -> Self {
        Self(listener)
    }
}

/// Serves the interface of `node` on `address`: [`bind`] and [`Bound::start`].
///
/// # Errors
/// When the address cannot be listened on or the thread not be started.
pub fn start(
    node: Arc<Node>,
    address: &Address,
    token: Token,
    reload: Box<Reload>,
) -> Result<Handle, AdminError> {
    bind(address)?.start(node, None, token, reload)
}

impl Bound {
    /// Serves the interface of `node` until the handle is dropped. Requests that change or show
    /// something need `token`; `reload` is what `POST /v1/reload` does.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        self,
        node: Arc<Node>,
        acme: Acme,
        token: Token,
        reload: Box<Reload>,
    ) -> Result<Handle, AdminError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .build()
            .map_err(AdminError::LocalThread)?;
        let address = self.address().clone();
        let metrics = Metrics::new(Arc::clone(&node), acme.clone());
        let context = Context {
            node,
            reload,
            metrics,
            acme,
            token,
            site_tokens: SiteTokens::default(),
            is_local: matches!(address, Address::Unix(_)),
            host_name: freshet_base::machine::host_name().unwrap_or_default(),
            refusals: Refusals::default(),
        };
        let service = router(Arc::new(context)).into_make_service_with_connect_info::<PlaceOf>();
        let (stop, stopped) = watch::channel(false);
        let work = move || {
            runtime.block_on(async move {
                let told = |mut stopped: watch::Receiver<bool>| async move {
                    let _ = stopped.changed().await;
                };
                let serve = axum::serve(Door::new(self.0), service)
                    .with_graceful_shutdown(told(stopped.clone()));
                tokio::select! {
                    result = async { serve.await } => {
                        if let Err(error) = result {
                            tracing::error!(%error, "the admin interface ended");
                        }
                    }
                    () = async { told(stopped).await; sleep(ANSWERED_WITHIN).await } => {}
                }
            });
            // A purge that is walking the index is not waited for any longer.
            runtime.shutdown_background();
        };
        let thread =
            Builder::new().name("admin".to_owned()).spawn(work).map_err(AdminError::LocalThread)?;
        Ok(Handle { address, stop, thread: Some(thread) })
    }

    /// Where it listens, with the port the kernel chose if 0 was asked for.
    pub fn address(&self) -> &Address {
        self.0.local_address()
    }
}

/// The description of the interface, begun.
#[derive(OpenApi)]
#[openapi(info(
    title = "Freshet admin interface",
    description = "Metrics, health and control of one node. Paths under /v1 need the bearer token. That of a site is for what the site has."
))]
struct Description;

fn router(context: Arc<Context>) -> Router {
    let (open, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(metrics::metrics))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .split_for_parts();
    // What is the whole node's.
    let (of_node, mut closed_description) = OpenApiRouter::<Arc<Context>>::new()
        .routes(routes!(erase::erasure))
        .routes(routes!(erase::erase))
        .routes(routes!(certificates::certificates))
        .routes(routes!(certificates::renew))
        .routes(routes!(stats::stats))
        .routes(routes!(stores::stores))
        .routes(routes!(curve::curve))
        .routes(routes!(players::players))
        .routes(routes!(players::sessions))
        .routes(routes!(control::reload))
        .routes(routes!(settings::config))
        .split_for_parts();
    // What sites have, each for itself: their handlers ask for what sites the token is.
    let (of_sites, sites_description) = OpenApiRouter::<Arc<Context>>::new()
        .routes(routes!(purge::purge))
        .routes(routes!(purge::purge_tag))
        .routes(routes!(purge::purge_all))
        .routes(routes!(bans::bans))
        .routes(routes!(bans::add_ban))
        .routes(routes!(sites::sites))
        .routes(routes!(maintenance::maintenance))
        .routes(routes!(maintenance::set_maintenance))
        .routes(routes!(blocks::blocks))
        .routes(routes!(blocks::add_block))
        .routes(routes!(blocks::remove_block))
        .routes(routes!(objects::objects))
        .routes(routes!(log::log))
        .routes(routes!(explain::explain))
        .routes(routes!(origins::origins))
        .routes(routes!(origins::set_origin))
        .split_for_parts();
    closed_description.merge(sites_description);
    for operation in closed_description.paths.paths.values_mut().flat_map(operations) {
        operation.responses.responses.insert("default".to_owned(), problem_response().into());
    }
    description.merge(closed_description);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = description.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let text = description.to_pretty_json().expect("a description is plain data");
    let closed = of_node
        .route_layer(from_fn(check_node))
        .merge(of_sites)
        .route_layer(from_fn_with_state(Arc::clone(&context), check_token));
    let openapi = move || async move { ([(header::CONTENT_TYPE, "application/json")], text) };
    open.merge(closed)
        .route("/openapi.json", get(openapi))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        // Bodies are read, and limited, before.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(&context), guard))
        .with_state(context)
}

/// What a path takes.
fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut path.get, &mut path.post].into_iter().flatten()
}

/// Every path may answer with a problem: no token, another host, too long a body.
fn problem_response() -> OpenApiResponse {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new()
        .description("What is wrong and what to do (RFC 9457)")
        .content(problem::MEDIA_TYPE, content)
        .build()
}

async fn unknown_path(uri: Uri) -> Problem {
    Problem::not_found(
        format!("there is no {}", uri.path()),
        "GET /openapi.json lists what there is",
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not take {method}", uri.path()),
        "GET /openapi.json lists what there is",
    )
}

//! What an operator and a monitor ask a running router. Nothing can be changed here.

use super::{Shared, metrics};
use crate::decision::{Health, View};
use crate::limits::ADMIN;
use crate::redirect::{self, Request};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use freshet_base::clock::UnixMillis;
use freshet_net::listener::Listener;
use freshet_net::places::{Guarded, Places};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Answers until it is dropped.
pub(super) async fn serve(shared: Arc<Shared>, listener: Listener) {
    let door = Door { listener, places: Places::new(ADMIN) };
    let service = Router::new()
        .route("/metrics", get(all_metrics))
        .route("/v1/nodes", get(nodes))
        .route("/v1/explain", get(explain))
        .with_state(shared);
    let _ = axum::serve(door, service).await;
}

struct Door {
    listener: Listener,
    places: Arc<Places>,
}

impl axum::serve::Listener for Door {
    type Io = Guarded;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, ..) = self.places.accept(&mut self.listener, "the admin interface").await;
        (stream, ())
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(())
    }
}

async fn all_metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = metrics::text(&shared, UnixMillis::now());
    ([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response()
}

async fn nodes(State(shared): State<Arc<Shared>>) -> Json<serde_json::Value> {
    let routing = shared.routing.load();
    let view = routing.at(UnixMillis::now());
    let mut out = Vec::new();
    for (id, (node, live)) in (0..).zip(routing.table.nodes().iter().zip(&routing.nodes)) {
        let standing = view.standing(id);
        let region = routing.table.regions().get(usize::from(node.region));
        out.push(json!({
            "name": node.name,
            "region": region.map(|region| &region.name),
            "health": health_word(standing.health),
            "share_percent": standing.share_percent,
            "sent": live.sent.load(Relaxed),
        }));
    }
    Json(json!(out))
}

/// How a node is, in a word.
pub(super) fn health_word(health: Health) -> &'static str {
    match health {
        Health::Up => "up",
        Health::Suspect => "suspect",
        Health::Down => "down",
        Health::Drained => "drained",
    }
}

#[derive(Deserialize)]
struct Explain {
    client: IpAddr,
    url: String,
}

async fn explain(State(shared): State<Arc<Shared>>, Query(asked): Query<Explain>) -> Response {
    let routing = shared.routing.load();
    match Request::of_url(&asked.url, asked.client) {
        Some(request) => {
            let (lines, _) = redirect::explain(&routing, &request, UnixMillis::now());
            Json(json!({ "lines": lines })).into_response()
        }
        None => {
            let what = "`url` is one as clients ask for it: http://www.example/a.html\n";
            (StatusCode::BAD_REQUEST, what).into_response()
        }
    }
}

//! What needs no token, and whose a token is.

use super::{Answer, Call, Platform};
use crate::api;
use crate::client::{self, Caller, Client};
use crate::problem::Problem;
use serde_json::{Value, json};
use std::sync::PoisonError;

/// Who asks, or why nobody is believed to.
#[derive(Debug)]
pub struct Identified(Result<Caller, Problem>);

impl Identified {
    /// Who asks.
    pub(super) fn caller(&self) -> Result<&Caller, Problem> {
        self.0.as_ref().map_err(Problem::clone)
    }
}

impl Platform {
    /// Who asks: the signature of a token costs 100 µs the first time it is seen, a look-up after.
    pub fn identify(&self, call: &Call<'_>, now_ms: u64) -> Identified {
        Identified(self.caller(call, now_ms))
    }

    /// What needs no token.
    pub(super) fn open_path(
        &self,
        call: &Call<'_>,
        path: &str,
        fresh: &str,
        now_ms: u64,
    ) -> Option<Answer> {
        let url = &self.setup.url;
        let document = path
            .strip_suffix("/openapi.json")
            .and_then(|root| self.table.0.iter().find(|api| api.root() == root));
        match (call.method, path) {
            ("POST", "/oauth2/token") => {
                let form = std::str::from_utf8(call.body).unwrap_or_default();
                let find = |name: &str| self.client(name);
                let issuer = &self.setup.issuer;
                let given = client::Given {
                    authorization: call.authorization,
                    form,
                    certificate: call.certificate.as_ref(),
                };
                Some(client::token(find, issuer, given, fresh, now_ms / 1000))
            }
            ("GET", "/oauth2/keys") => Some(Answer::ok(self.setup.issuer.keys())),
            ("GET", "/.well-known/oauth-authorization-server") => Some(Answer::ok(json!({
                "issuer": url,
                "token_endpoint": format!("{url}/oauth2/token"),
                "jwks_uri": format!("{url}/oauth2/keys"),
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "self_signed_tls_client_auth"],
                "tls_client_certificate_bound_access_tokens": true,
                "response_types_supported": [],
            }))),
            ("GET", "/") => {
                let documents: Vec<Value> = self
                    .table
                    .0
                    .iter()
                    .map(|api| {
                        json!({
                            "title": api.title,
                            "url": format!("{url}{}", api.root()),
                            "document": format!("{url}{}/openapi.json", api.root()),
                        })
                    })
                    .collect();
                Some(Answer::ok(documents.into()))
            }
            ("GET", _) => document.map(|api| Answer::ok(api.document(url))),
            _ => None,
        }
    }

    fn caller(&self, call: &Call<'_>, now_ms: u64) -> Result<Caller, Problem> {
        let Some(field) = call.authorization else { return Err(client::unauthorized(None)) };
        let token =
            field.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, token) =
            token.ok_or_else(|| client::unauthorized(Some("it is not of the Bearer scheme")))?;
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = verified
            .verify(&self.setup.issuer, token.trim(), now_ms / 1000)
            .map_err(|error| client::unauthorized(Some(&error.to_string())))?;
        let client = self.client(&claims.client_id);
        let client =
            client.ok_or_else(|| client::unauthorized(Some("its client is none any more")))?;
        client
            .check_binding(claims.certificate(), call.certificate.as_ref())
            .map_err(|why| client::unauthorized(Some(why)))?;
        Ok(Caller::new(&claims, &client))
    }

    /// A client by its name: one of the configuration, or an app instance that is run here.
    pub(super) fn client(&self, name: &str) -> Option<Client> {
        let configured = self.setup.clients.get(name).cloned();
        configured.or_else(|| api::instances::client(&self.tree, &self.setup, &self.table, name))
    }
}

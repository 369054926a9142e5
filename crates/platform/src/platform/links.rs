//! Links between resources.

use freshet_documents::shape::{Shape, Types};
use serde_json::{Map, Value, json};

/// A link to a subscription.
pub(super) fn subscription(href: &str, kind: &str) -> Value {
    json!({ "href": href, "subscriptionType": kind })
}

/// Whether documents of this shape have `_links`.
pub(super) fn has_links(types: &Types, shape: &Shape) -> bool {
    match types.plain(shape) {
        Shape::Either(shapes) => shapes.iter().any(|shape| has_links(types, shape)),
        shape => types.fields(shape).is_some_and(|fields| {
            fields.iter().any(|field| {
                // A body that is an object around the one that counts.
                let is_around = fields.len() <= 2 && matches!(field.shape, Shape::Named(_));
                field.name == "_links" || (is_around && has_links(types, &field.shape))
            })
        }),
    }
}

/// A list of subscriptions in the form of its type: interfaces write it differently.
pub(super) fn list(types: &Types, shape: &Shape, href: &str, subscriptions: Vec<Value>) -> Value {
    let mut out = Map::new();
    for field in types.fields(shape).unwrap_or_default() {
        let value = match field.name.as_str() {
            "subscription" | "subscriptions" => Value::Array(subscriptions.clone()),
            "self" | "resourceURL" => json!({ "href": href }),
            _ => list(types, &field.shape, href, subscriptions.clone()),
        };
        if value.as_object().is_none_or(|members| !members.is_empty()) {
            out.insert(field.name.clone(), value);
        }
    }
    out.into()
}

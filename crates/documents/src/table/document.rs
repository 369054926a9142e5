//! The OpenAPI document of an interface, from its table.

use super::{Act, Api, Operation, Parameter, Resource, Segment};
use serde_json::{Map, Value, json};

impl Api {
    /// The document; `url` is where the platform is reached.
    pub fn document(&self, url: &str) -> Value {
        let paths: Map<String, Value> = self
            .resources
            .iter()
            .map(|resource| (resource.template(), self.path(resource)))
            .collect();
        let mut schemas = self.types.schemas();
        schemas.insert("Problem".to_owned(), crate::problem::schema());
        json!({
            "openapi": "3.1.0",
            "info": { "title": self.title, "version": self.version },
            "servers": [{ "url": format!("{url}{}", self.root()) }],
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": { "oauth2": { "type": "oauth2", "flows": { "clientCredentials": {
                    "tokenUrl": format!("{url}/oauth2/token"), "scopes": self.scopes(),
                } } } },
            },
        })
    }

    fn scopes(&self) -> Map<String, Value> {
        let operations = self.resources.iter().flat_map(|resource| &resource.operations);
        operations.map(|operation| (operation.scope.clone(), "".into())).collect()
    }

    fn path(&self, resource: &Resource) -> Value {
        let names: Vec<Value> = resource
            .segments
            .iter()
            .filter_map(|segment| match segment {
                Segment::Name(name) => Some(json!({
                    "name": name, "in": "path", "required": true, "schema": { "type": "string" },
                })),
                Segment::Word(_) => None,
            })
            .collect();
        let mut path: Map<String, Value> = resource
            .operations
            .iter()
            .map(|one| (one.method.name().to_ascii_lowercase(), operation(one)))
            .collect();
        path.insert("parameters".to_owned(), names.into());
        path.into()
    }
}

/// Parameters that every list takes (ETSI GS MEC 009 §6.19 and §6.20).
const OF_LISTS: [&str; 3] = ["filter", "size", "nextpage_opaque_marker"];

/// Parameters that choose among attributes (§6.18), and whether they are there or not, and no more.
const SELECTORS: [(&str, bool); 4] =
    [("all_fields", true), ("fields", false), ("exclude_fields", false), ("exclude_default", true)];

fn parameter(name: &str, is_required: bool, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": is_required, "schema": schema })
}

fn of_list(name: &str) -> Value {
    let schema = match name {
        "size" => json!({ "type": "integer", "minimum": 1 }),
        _ => json!({ "type": "string" }),
    };
    parameter(name, false, schema)
}

fn selector(one: &Operation, name: &str, is_flag: bool) -> Value {
    let mut parameter = parameter(name, false, json!({ "type": "string" }));
    if is_flag {
        parameter["allowEmptyValue"] = true.into();
    }
    if name == "exclude_default" && !one.left_out.is_empty() {
        let left_out = one.left_out.join(", ");
        parameter["description"] = format!("Left out where nothing is chosen: {left_out}").into();
    }
    parameter
}

fn operation(one: &Operation) -> Value {
    // One without a value is refused.
    let own_schema = json!({ "type": "string", "minLength": 1 });
    let own = |own: &Parameter| parameter(&own.name, own.is_required, own_schema.clone());
    let mut parameters: Vec<Value> = one.parameters.iter().map(own).collect();
    if one.is_list() {
        parameters.extend(OF_LISTS.iter().map(|name| of_list(name)));
    }
    if one.takes_selectors() {
        parameters.extend(SELECTORS.iter().map(|(name, is_flag)| selector(one, name, *is_flag)));
    }
    let status = match one.act {
        Act::Create => "201",
        Act::Remove => "204",
        // They say themselves whether all is done, or begun.
        Act::Own(_) => "2XX",
        _ if one.answer.is_none() => "204",
        _ => "200",
    };
    let content =
        |shape: &crate::shape::Shape| json!({ "application/json": { "schema": shape.schema() } });
    let mut success = json!({ "description": "Done" });
    if let Some(answer) = one.answer.as_ref().filter(|_| status != "204") {
        success["content"] = content(answer);
    }
    let problem = json!({
        "description": "What is wrong (RFC 9457)",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    let mut text = json!({
        "parameters": parameters,
        "responses": { status: success, "default": problem },
        "security": [{ "oauth2": [one.scope] }],
    });
    if let Some(body) = &one.body {
        text["requestBody"] = json!({ "required": true, "content": content(body) });
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_document_says_what_a_query_may_have() {
        let text = "api a v1 of tests\n/things\n  get list [A] without b ? kind name!\ntype A\n  b? [string]\n";
        let api = crate::table::read(&[("a", text)]).expect("a table").0.remove(0);
        let document = api.document("http://mec.example");
        let parameters = document["paths"]["/things"]["get"]["parameters"].clone();
        let of = |name: &str| {
            let mut all = parameters.as_array().expect("a list").iter();
            all.find(|one| one["name"] == name).expect("it is there").clone()
        };
        assert_eq!(of("kind")["schema"], json!({ "type": "string", "minLength": 1 }));
        assert_eq!(
            (&of("kind")["required"], &of("name")["required"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(of("size")["schema"], json!({ "type": "integer", "minimum": 1 }));
        assert_eq!(of("all_fields")["allowEmptyValue"], true);
        assert_eq!(of("exclude_default")["description"], "Left out where nothing is chosen: b");
    }
}

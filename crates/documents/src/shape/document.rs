//! Types as schemas of OpenAPI 3.1, which are those of JSON Schema 2020-12.

use super::{Presence, Shape, Type, Types};
use serde_json::{Map, Value, json};

impl Types {
    /// The schema of each type, by its name.
    pub fn schemas(&self) -> Map<String, Value> {
        self.0.iter().map(|(name, one)| (name.clone(), one.schema())).collect()
    }
}

impl Type {
    fn schema(&self) -> Value {
        let fields = match self {
            Self::Alias(shape) => return shape.schema(),
            Self::Record(fields) => fields,
        };
        let properties: Map<String, Value> = fields
            .iter()
            .map(|field| {
                let mut schema = field.shape.schema();
                if field.presence == Presence::Given {
                    schema["readOnly"] = true.into();
                }
                (field.name.clone(), schema)
            })
            .collect();
        let is_needed = |presence| presence != Presence::Optional;
        let needed: Vec<&str> = fields
            .iter()
            .filter(|field| is_needed(field.presence))
            .map(|field| field.name.as_str())
            .collect();
        json!({ "type": "object", "properties": properties, "required": needed })
    }
}

impl Shape {
    /// The schema of what is of this shape.
    pub(crate) fn schema(&self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Object => json!({ "type": "object" }),
            Self::Text => json!({ "type": "string" }),
            Self::Uri => json!({ "type": "string", "format": "uri-reference" }),
            Self::Time => json!({ "type": "string", "format": "date-time" }),
            Self::Choice(known) => json!({ "type": "string", "enum": known }),
            Self::Code(known) => json!({ "type": "integer", "enum": known }),
            Self::Number => json!({ "type": "number" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Named(name) => json!({ "$ref": format!("#/components/schemas/{name}") }),
            Self::Either(shapes) => {
                json!({ "anyOf": shapes.iter().map(Self::schema).collect::<Vec<_>>() })
            }
            Self::Integer(min, max) => {
                let mut schema = json!({ "type": "integer" });
                if *min != i64::MIN {
                    schema["minimum"] = (*min).into();
                }
                if *max != i64::MAX {
                    schema["maximum"] = (*max).into();
                }
                schema
            }
            Self::List(of, min, max) => {
                let mut schema = json!({ "type": "array", "items": of.schema() });
                if *min > 0 {
                    schema["minItems"] = (*min).into();
                }
                if *max != usize::MAX {
                    schema["maxItems"] = (*max).into();
                }
                schema
            }
        }
    }
}

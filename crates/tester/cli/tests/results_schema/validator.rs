//! As much of JSON Schema (2020-12) as `docs/results.schema.json` uses. A keyword that is not known here is
//! an error, so that the schema cannot ask for what nobody checks.

use serde_json::Value;

/// What of fields that the schema does not describe?
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// As readers must take them: fields may be added.
    Allowed,
    /// They are faults.
    Refused,
}

/// What is wrong with the value, each with its place; nothing if it is valid.
pub fn validate(schema: &Value, value: &Value, unknown: Unknown) -> Vec<String> {
    let mut check = Check { root: schema, unknown, faults: Vec::new() };
    check.value(schema, value, "");
    check.faults
}

struct Check<'a> {
    root: &'a Value,
    unknown: Unknown,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, at: &str, what: &str) {
        self.faults.push(format!("{at}: {what}"));
    }

    fn value(&mut self, schema: &'a Value, value: &Value, at: &str) {
        for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
            self.keyword(keyword, wanted, value, at);
        }
        if let Some(fields) = value.as_object() {
            self.fields(schema, fields, at);
        }
        if let Some(items) = value.as_array() {
            let heads = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
            for (index, item) in items.iter().enumerate() {
                if let Some(wanted) = heads.get(index).or_else(|| schema.get("items")) {
                    self.value(wanted, item, &format!("{at}/{index}"));
                }
            }
        }
    }

    fn keyword(&mut self, keyword: &str, wanted: &'a Value, value: &Value, at: &str) {
        let length = || value.as_array().map(|items| items.len() as u64);
        let fine = match keyword {
            "$schema"
            | "$defs"
            | "title"
            | "description"
            | "properties"
            | "additionalProperties"
            | "items"
            | "prefixItems" => true,
            "$ref" => {
                let pointer = wanted.as_str().and_then(|text| text.strip_prefix('#')).expect("a pointer");
                let target = self.root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not defined"));
                self.value(target, value, at);
                true
            }
            "anyOf" => {
                let schemas = wanted.as_array().expect("schemas");
                schemas.iter().any(|schema| {
                    let mut check = Check { faults: Vec::new(), ..*self };
                    check.value(schema, value, at);
                    check.faults.is_empty()
                })
            }
            "const" => wanted == value,
            "enum" => wanted.as_array().expect("values").contains(value),
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|one| is(one, value)),
                one => is(one, value),
            },
            "minimum" => value.as_f64().is_none_or(|value| value >= wanted.as_f64().expect("a number")),
            "minItems" => length().is_none_or(|length| length >= wanted.as_u64().expect("a count")),
            "maxItems" => length().is_none_or(|length| length <= wanted.as_u64().expect("a count")),
            "required" => {
                let names = wanted.as_array().expect("names").iter().filter_map(Value::as_str);
                for name in names.filter(|name| value.is_object() && value.get(*name).is_none()) {
                    self.fault(at, &format!("{name} is missing"));
                }
                true
            }
            other => panic!("{other} is no keyword that this validator knows"),
        };
        if !fine {
            self.fault(at, &format!("{value} is not as {keyword} says: {wanted}"));
        }
    }

    fn fields(&mut self, schema: &'a Value, fields: &serde_json::Map<String, Value>, at: &str) {
        let others = schema.get("additionalProperties");
        for (name, field) in fields {
            let at = format!("{at}/{name}");
            match schema["properties"].get(name).or(others) {
                Some(wanted) => self.value(wanted, field, &at),
                // A reference says it elsewhere.
                None if schema.get("properties").is_some() && self.unknown == Unknown::Refused => {
                    self.fault(&at, "is not described");
                }
                None => {}
            }
        }
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("{other} is no type"),
    }
}

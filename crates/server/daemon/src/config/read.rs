//! Reads the file as TOML, checks it against the declarations of the keys, and fills the structs of the keys.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue, Deserializer, Error, ValueDeserializer};

use super::keys::{Key, Kind, Rule, TABLES, Table, Top, alternatives};
use super::place::{Result, SourceText, join};

/// What a misspelt key has in common with the one that was meant, at least (Jaro and Winkler, 0 to 1).
const SIMILAR: f64 = 0.85;

pub(super) fn read(place: &SourceText<'_>) -> Result<Top> {
    let document = DeTable::parse(place.text).map_err(|error| place.toml_error(&error))?;
    let fault = |error: Error| place.type_error(&error);
    check_table(place, &Top::TABLE, "", document.get_ref())?;
    let views = document.get_ref().get("view").cloned();
    let mut top = Top::deserialize(Deserializer::from(document)).map_err(fault)?;
    if let Some(views) = views {
        let rules = Vec::<Rule>::deserialize(ValueDeserializer::from(views)).map_err(fault)?;
        top.view.iter_mut().zip(rules).for_each(|(view, rule)| view.as_mut().rule = rule);
    }
    Ok(top)
}

/// Checks that each key is known and its value within its bounds. What has another type is left to serde.
fn check_table(place: &SourceText<'_>, table: &Table, path: &str, found: &DeTable<'_>) -> Result<()> {
    let is_top = table.heading.is_empty();
    for (name, value) in found {
        let path = join(path, name.get_ref());
        let inner = TABLES
            .iter()
            .find(|inner| is_top && inner.name() == name.get_ref() && !name.get_ref().is_empty());
        match (table.key(name.get_ref()), inner, value.get_ref()) {
            (Some(key), _, _) => check_value(place, key, &path, value)?,
            (None, Some(inner), DeValue::Table(found)) => check_table(place, inner, &path, found)?,
            (None, Some(inner), DeValue::Array(all)) => {
                for (index, value) in all.iter().enumerate() {
                    if let DeValue::Table(found) = value.get_ref() {
                        check_table(place, inner, &format!("{path}[{index}]"), found)?;
                    }
                }
            }
            (None, Some(_), _) => {}
            (None, None, _) => {
                let advice = names_like(name.get_ref(), &table.names());
                return Err(place.key_error(
                    &path,
                    name.span().start,
                    format_args!("no such key, write {advice}"),
                ));
            }
        }
    }
    Ok(())
}

/// The name that was meant, or all there are.
fn names_like(name: &str, names: &[&str]) -> String {
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    let best = names.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match best.filter(|best| likeness(best) > SIMILAR) {
        Some(best) => format!("`{best}`"),
        None => {
            format!("one of {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

fn check_value(place: &SourceText<'_>, key: &Key, path: &str, value: &Spanned<DeValue<'_>>) -> Result<()> {
    let at = value.span().start;
    match (key.kind, value.get_ref()) {
        (Kind::Number(low, high), DeValue::Integer(number)) => within(place, path, at, number, low, high),
        (Kind::Numbers(low, high), DeValue::Array(numbers)) => {
            numbers.iter().enumerate().try_for_each(|(index, number)| match number.get_ref() {
                DeValue::Integer(integer) => {
                    within(place, &format!("{path}[{index}]"), number.span().start, integer, low, high)
                }
                _ => Ok(()),
            })
        }
        (Kind::FlagOr(known), DeValue::String(word)) if **word != *known => {
            Err(place.value_error(path, at, word, format_args!("choose true, false or {known}")))
        }
        (Kind::Choice(words), DeValue::String(word)) if !words.contains(&word.as_ref()) => {
            let alternatives = alternatives(words, "");
            let reason = format_args!("choose {alternatives}");
            Err(place.value_error(path, at, word, reason))
        }
        _ => Ok(()),
    }
}

fn within(
    place: &SourceText<'_>,
    path: &str,
    at: usize,
    number: &DeInteger<'_>,
    low: u64,
    high: u64,
) -> Result<()> {
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) if !(low..=high).contains(&number) => {
            Err(place.out_of_bounds(path, at, number, low, high))
        }
        // Less than nothing is another type, which serde names.
        _ => Ok(()),
    }
}

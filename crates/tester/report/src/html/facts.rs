//! Names and values.

use maud::{Markup, html};

use crate::clean::unbroken;
use record::number::NONE;

/// Names and values below each other.
pub fn facts(pairs: &[(&str, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in pairs {
                div { dt { (name) } dd { @if value.is_empty() { (NONE) } @else { (unbroken(value)) } } }
            }
        }
    }
}

//! Whether answers are judged by DNSSEC, and from which keys on.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::place::{Place, Result};
use super::raw::Text;

const MISSING: &str = "this dns64d cannot validate: build it with the cargo feature validation";

/// Reads `validate`, which only some programs can do.
pub(super) fn validate(place: &Place<'_>, key: &str, value: Option<&Spanned<bool>>) -> Result<Option<bool>> {
    let Some(value) = value else { return Ok(None) };
    if *value.get_ref() && !cfg!(feature = "validation") {
        return Err(place.key_error(key, value.span().start, MISSING));
    }
    Ok(Some(*value.get_ref()))
}

/// The file of trust anchors.
pub(super) fn anchors(place: &Place<'_>, text: Option<&Text>) -> Result<Option<PathBuf>> {
    let Some(text) = text else { return Ok(None) };
    let path = place.path("upstream.anchors", text)?;
    check_anchors(&path).map_err(|reason| place.value_error("upstream.anchors", text, reason))?;
    Ok(Some(path))
}

#[cfg(feature = "validation")]
fn check_anchors(path: &Path) -> std::result::Result<(), String> {
    ::validation::Anchors::load(path).map(drop).map_err(|error| error.to_string())
}

#[cfg(not(feature = "validation"))]
fn check_anchors(_: &Path) -> std::result::Result<(), String> {
    Err(MISSING.to_owned())
}

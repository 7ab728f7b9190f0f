//! Whether answers are validated by DNSSEC, and the trust anchors.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::keys::Text;
use super::place::{Result, SourceText};

const MISSING: &str = "this dns64d cannot validate: build it with the cargo feature validation";

/// Reads `validate`, which only some programs can do.
pub(super) fn validate(place: &SourceText<'_>, value: &Spanned<bool>) -> Result<bool> {
    if *value.get_ref() && !cfg!(feature = "validation") {
        return Err(place.error_at(value.span().start, MISSING));
    }
    Ok(*value.get_ref())
}

/// The file of trust anchors.
pub(super) fn anchors(place: &SourceText<'_>, text: Option<&Text>) -> Result<Option<PathBuf>> {
    let Some(text) = text else { return Ok(None) };
    let path = place.path(text)?;
    check_anchors(&path).map_err(|reason| place.text_error(text, reason))?;
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

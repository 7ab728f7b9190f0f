//! x
use crate::wire::{Malformed, Message};
/// x
pub fn scrub(_r: &Message<'_>, _o: &mut [u8]) -> Result<Option<usize>, Malformed> {
    Ok(None)
}

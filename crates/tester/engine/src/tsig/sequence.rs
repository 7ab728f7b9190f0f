//! The signatures of a response of several messages, such as a zone transfer (RFC 8945 5.3.1).

use std::sync::Arc;

use dns64::wire::Header;
use ring::hmac::Context;

use super::{Key, Mac, Signature, TsigDefect, Variables};

/// Messages without a signature that may stand between two that have one.
const UNSIGNED_MAX: u32 = 99;

/// Verifies the messages of one response, in their order. The first one and the last one must be signed; each
/// signature is also that of the messages without one before it.
#[derive(Clone, Debug)]
pub struct Sequence {
    key: Arc<Key>,
    /// Has the last MAC, and the messages since then.
    context: Context,
    /// How many these are; `None` before the first signature.
    unsigned: Option<u32>,
}

impl Sequence {
    /// The response to the query that has this MAC.
    pub fn new(key: Arc<Key>, request: &Mac) -> Self {
        Self { context: key.after(request), key, unsigned: None }
    }

    /// Takes the next message, whose records begin at `records_at`.
    ///
    /// # Errors
    /// Why its signature does not hold, or that there is none where one must be.
    pub fn take(
        &mut self,
        now_ns: u64,
        header: &Header,
        message: &[u8],
        records_at: usize,
    ) -> Result<(), TsigDefect> {
        let signature = match (Signature::find(header, message, records_at), self.unsigned) {
            (Err(TsigDefect::Missing), Some(unsigned)) if unsigned < UNSIGNED_MAX => {
                self.context.update(message);
                self.unsigned = Some(unsigned + 1);
                return Ok(());
            }
            (found, _) => found?,
        };
        let variables = self.unsigned.map_or(Variables::All, |_| Variables::Timers);
        self.key.verify_one(now_ns, self.context.clone(), &signature, (header, message), variables)?;
        self.context = self.key.after(&Mac::of(signature.signed.mac));
        self.unsigned = Some(0);
        Ok(())
    }

    /// Ends the response.
    ///
    /// # Errors
    /// Its last message has no signature.
    pub fn end(&self) -> Result<(), TsigDefect> {
        if self.unsigned == Some(0) { Ok(()) } else { Err(TsigDefect::Missing) }
    }
}

//! The side thread that validates answers by DNSSEC, if there is one.
//!
//! Without the cargo feature `validation` there is no such thread, and the configuration cannot ask for it.

#[cfg(not(feature = "validation"))]
mod none;
#[cfg(feature = "validation")]
mod room;

use std::sync::Arc;

use super::ServerError;
use super::inbox::Inbox;
use crate::config::Config;

/// The room. It is made when a configuration first wants it.
pub(super) struct Validator {
    #[cfg(feature = "validation")]
    room: Option<validation::Validation>,
    #[cfg_attr(not(feature = "validation"), expect(dead_code, reason = "nobody answers"))]
    inboxes: Arc<[Arc<Inbox>]>,
}

/// Who judges the answers to the questions of one generation.
#[derive(Clone)]
pub(super) struct ValidationHandle {
    #[cfg(feature = "validation")]
    handle: validation::Handle,
    /// For each upstream server whether its answers are judged.
    judged: Arc<[bool]>,
}

impl Validator {
    pub fn new(inboxes: Arc<[Arc<Inbox>]>) -> Self {
        Self {
            #[cfg(feature = "validation")]
            room: None,
            inboxes,
        }
    }

    /// Tells the room of the upstream servers of a generation. `None`: none of them is judged.
    pub fn prepare(
        &mut self,
        config: &Config,
        generation: u64,
        upstreams: &[streams::Upstream],
    ) -> Result<Option<ValidationHandle>, ServerError> {
        let judged: Arc<[bool]> = config.upstreams.iter().map(|upstream| upstream.validate).collect();
        if !judged.contains(&true) {
            return Ok(None);
        }
        self.judge(config, generation, upstreams, judged)
    }
}

impl ValidationHandle {
    /// Whether the answers of this server are judged.
    pub fn judges(&self, upstream: usize) -> bool {
        self.judged.get(upstream).is_some_and(|&judged| judged)
    }
}

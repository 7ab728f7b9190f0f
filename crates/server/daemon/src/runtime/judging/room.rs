//! The side thread itself.

use std::sync::Arc;
use std::time::Duration;

use validation::{Anchors, Counts, Validation};

use super::{ValidationHandle, Validator};
use crate::config::Config;
use crate::runtime::ServerError;
use crate::runtime::inbox::Event;
use crate::runtime::outlet::stream_token;
use crate::snapshot::Metric;

impl Validator {
    pub(super) fn judge(
        &mut self,
        config: &Config,
        generation: u64,
        upstreams: &[streams::Upstream],
        judged: Arc<[bool]>,
    ) -> Result<Option<ValidationHandle>, ServerError> {
        let anchors = config.anchors.as_deref().map_or_else(|| Ok(Anchors::iana()), Anchors::load);
        let anchors = anchors.map_err(|error| ServerError::Anchors(error.to_string()))?;
        let room = match &self.room {
            Some(room) => room,
            None => self.room.insert(self.start()?),
        };
        room.set_upstreams(generation, upstreams.to_vec(), &anchors).map_err(ServerError::StreamUpstream)?;
        Ok(Some(ValidationHandle { handle: room.handle(), judged }))
    }

    /// Starts the room; answers go to the thread that asked.
    fn start(&self) -> Result<Validation, ServerError> {
        let inboxes = self.inboxes.clone();
        Validation::start(move |answer| {
            let (worker, generation, token) = stream_token::split(answer.token);
            if let Some(inbox) = inboxes.get(worker) {
                inbox.push(Event::Answer { generation, token, octets: answer.octets });
            }
        })
        .map_err(|error| ServerError::System("start the thread of the validation", error))
    }

    pub fn silent_threads(&self) -> Vec<String> {
        self.room.as_ref().map_or_else(Vec::new, Validation::silent_threads)
    }

    pub fn readings(&self) -> Vec<Metric> {
        let Some(room) = &self.room else { return Vec::new() };
        let Counts { asked: _, secure, insecure, bogus, unjudged, failures, chain_queries } = room.counts();
        vec![
            Metric::counter("validation_secure", "Upstream answers judged secure", secure),
            Metric::counter("validation_insecure", "Upstream answers judged insecure", insecure),
            Metric::counter("validation_bogus", "Upstream answers judged bogus", bogus),
            Metric::counter(
                "validation_unjudged",
                "Upstream answers passed on without a verdict: questions with CD, failures of servers",
                unjudged,
            ),
            Metric::counter("validation_failures", "Questions without a verdict in time", failures),
            Metric::counter("validation_chain_queries", "Questions for DS and DNSKEY records", chain_queries),
        ]
    }
}

impl ValidationHandle {
    /// Asks this server, by way of the room.
    pub fn ask(&self, generation: u64, upstream: usize, token: u64, query: Vec<u8>, timeout: Duration) {
        self.handle.ask(generation, upstream, token, query, timeout);
    }
}

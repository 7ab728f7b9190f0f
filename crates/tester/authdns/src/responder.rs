//! One query in, one answer out, whatever the back-end: the zone answers, the faults spoil, the observer
//! notes.

use std::sync::Arc;

use super::faults::{Faults, Reply};
use super::observe::{Observer, Recorder};
use super::query::Query;
use super::zone::Zone;

/// What answers for one thread. A clone is for another thread: it shares zone and faults and notes on its
/// own.
#[derive(Debug)]
pub struct Responder {
    zone: Arc<Zone>,
    faults: Option<Arc<Faults>>,
    observer: Option<Arc<Observer>>,
    recorder: Option<Recorder>,
}

impl Responder {
    /// Answers from `zone`; `faults` befall the answers and `observer` notes the queries where there are any.
    pub fn new(zone: Arc<Zone>, faults: Option<Arc<Faults>>, observer: Option<Arc<Observer>>) -> Self {
        let recorder = observer.as_ref().map(Observer::recorder);
        Self { zone, faults, observer, recorder }
    }

    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Whether a clock has to be read for each batch: for [`Query::arrived_ns`], or to know when delayed
    /// answers are due.
    pub fn needs_time(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_watching)
            || self.faults.as_ref().is_some_and(|faults| faults.can_delay())
    }

    /// Answers into `out`, where [`super::ANSWER_OCTETS_MAX`] octets are always enough over UDP. Without
    /// faults and observer this is [`Zone::answer`].
    #[inline]
    pub fn respond(&mut self, query: Query<'_>, out: &mut [u8]) -> Reply {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(&query);
        }
        let answer = self.zone.answer(query.octets, query.transport, out);
        match &self.faults {
            None => Reply::plain(answer),
            Some(faults) => faults.befall(query.octets, query.transport, answer, out),
        }
    }
}

impl Clone for Responder {
    fn clone(&self) -> Self {
        Self::new(self.zone.clone(), self.faults.clone(), self.observer.clone())
    }
}

//! One query in, one answer out, whatever the back-end: the zone answers, the faults spoil, the observer notes.

use std::net::SocketAddr;
use std::sync::Arc;

use super::faults::{Faults, Kinds};
use super::observe::{Observer, Recorder};
use super::zone::{Answer, Transport, Zone};

/// A query as it came.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// The message.
    pub octets: &'q [u8],
    /// The client.
    pub from: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// When it came, in ns of the monotonic clock. A batch may share one reading, and none is needed where
    /// [`Responder::needs_time`] says so.
    pub arrived_ns: u64,
}

/// What is to be done with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The answer at the start of the buffer.
    pub answer: Answer,
    /// How often it is to be sent; 0 means that it is lost.
    pub copies: u8,
    /// How long it has to wait before, in ns.
    pub delay_ns: u64,
    /// The faults that befell it.
    pub faults: Kinds,
}

impl Reply {
    /// An answer that leaves at once and as it is.
    pub fn plain(answer: Answer) -> Self {
        Self { answer, copies: 1, delay_ns: 0, faults: Kinds::default() }
    }

    /// Whether it leaves once and at once.
    pub fn is_prompt(&self) -> bool {
        self.copies == 1 && self.delay_ns == 0
    }
}

/// What answers for one thread. A clone is for another thread: it shares zone and faults and notes on its own.
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

    /// What it answers from.
    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Whether a clock has to be read for each batch: for [`Query::arrived_ns`], or to know when delayed answers are due.
    pub fn needs_time(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_watching)
            || self.faults.as_ref().is_some_and(|faults| faults.can_delay())
    }

    /// Answers into `out`, where [`super::ANSWER_OCTETS_MAX`] octets are always enough over UDP. Without faults and
    /// observer this is [`Zone::answer`].
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

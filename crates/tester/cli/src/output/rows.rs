//! The queries of a trial one by one, with their names and with instants of the calendar.

use dns64::wire::{HEADER_LENGTH, Name};
use engine::querylog::{Class, Entry, QueryLog};
use engine::workload::{QUERY_OCTETS_MAX, Workload};

use super::Finished;

/// One query as the outputs show it. Instants are in ns since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// From 0, in the order of the schedule.
    pub number: u64,
    /// When it was due; `None` if it was never written.
    pub scheduled_ns: Option<u64>,
    /// When it was handed to the kernel, also where that refused it.
    pub sent_ns: Option<u64>,
    /// When its first answer arrived.
    pub received_ns: Option<u64>,
    pub class: Class,
    pub rcode: Option<u8>,
    /// That answer counts by dns64perf++'s rule, had it come in time.
    pub compat: bool,
}

impl Row {
    fn new(number: u64, entry: &Entry, start_ns: u64, start_unix_ns: u64) -> Self {
        let unix = |ns: u64| (ns > 0).then(|| start_unix_ns.wrapping_add(ns.wrapping_sub(start_ns)));
        Self {
            number,
            scheduled_ns: unix(entry.scheduled_ns),
            sent_ns: unix(entry.sent_ns),
            received_ns: unix(entry.received_ns),
            class: entry.class,
            rcode: (entry.received_ns > 0).then_some(entry.rcode),
            compat: entry.compat,
        }
    }

    /// From the scheduled instant to the first answer, whatever it was, in ns.
    pub fn latency_ns(&self) -> Option<u64> {
        Some(self.received_ns?.saturating_sub(self.scheduled_ns?))
    }

    /// From the sending to the first answer, in ns.
    pub(crate) fn round_trip_ns(&self) -> Option<u64> {
        Some(self.received_ns?.saturating_sub(self.sent_ns?))
    }
}

/// Whether there was such a query. In a closed loop the list has room for more than came of it.
pub(crate) fn was_planned(finished: &Finished<'_>, entry: &Entry) -> bool {
    entry.class != Class::Unsent || !finished.tried.schedule.model.is_closed()
}

/// The queries in the order of their numbers.
pub fn rows<'a>(finished: &Finished<'a>, log: &'a QueryLog) -> impl Iterator<Item = Row> + use<'a> {
    let finished = *finished;
    let (start_ns, start_unix_ns) = (finished.tried.schedule.start_ns, finished.tried.start_unix_ns);
    log.iter()
        .filter(move |(_, entry)| was_planned(&finished, entry))
        .map(move |(number, entry)| Row::new(number, entry, start_ns, start_unix_ns))
}

/// The queries of one of the Measurer's threads, in the order of their numbers.
pub(crate) fn rows_of<'a>(
    finished: &Finished<'a>,
    log: &'a QueryLog,
    thread: u64,
) -> impl Iterator<Item = Row> + use<'a> {
    let (start_ns, start_unix_ns) = (finished.tried.schedule.start_ns, finished.tried.start_unix_ns);
    let (finished, threads) = (*finished, finished.threads.max(1));
    (0..)
        .map(move |own| thread + own * threads as u64)
        .map_while(move |number| Some((number, log.get(number)?)))
        .filter(move |(_, entry)| was_planned(&finished, entry))
        .map(move |(number, entry)| Row::new(number, entry, start_ns, start_unix_ns))
}

/// A class in the words of the outputs.
pub(crate) fn class_word(class: Class) -> &'static str {
    match class {
        Class::Unsent => "unsent",
        Class::SendError => "send_error",
        Class::Lost => "lost",
        Class::Valid => "valid",
        Class::Invalid => "invalid",
        Class::Late => "late",
    }
}

pub struct Questions<'a> {
    workload: &'a Workload,
    query: [u8; QUERY_OCTETS_MAX],
}

impl<'a> Questions<'a> {
    pub fn new(workload: &'a Workload) -> Self {
        Self { workload, query: [0; QUERY_OCTETS_MAX] }
    }

    /// The name that query `number` asks for, in presentation format with the final dot, and the type; `None`
    /// where the workload does not know it any more.
    pub fn of(&mut self, number: u64) -> Option<(String, u16)> {
        let length = self.workload.write(number, 0, &mut self.query);
        let query = self.query.get(..length)?;
        let (name, end) = Name::parse(query, HEADER_LENGTH).ok()?;
        let qtype = query.get(end..)?.first_chunk()?;
        Some((name.to_string(), u16::from_be_bytes(*qtype)))
    }
}

//! Answers that the sink could not judge, judged in user space.

use dns64::wire::Header;
use engine::matcher::{Judgement, judge};
use engine::stats::Stats;
use engine::workload::{Expectation, Workload, question};

use super::accounts::Accounts;
use sys::bpf::{BpfError, MapData, Object, RingBuf};

/// The ring that the sink fills.
pub(super) struct Doubts {
    ring: RingBuf<MapData>,
}

/// Where the members of `struct doubt` of `bpf/sink.h` stand.
mod at {
    pub const N: usize = 0;
    pub const OCTETS: usize = 4;
    pub const LATENCY_NS: usize = 8;
    pub const LATENCY_FROM_SEND_NS: usize = 16;
    pub const MESSAGE: usize = 24;
}
/// Records taken at a time, so that the caller gets to its other work.
const TAKEN_MAX: usize = 1 << 14;

impl Doubts {
    pub(super) fn share(object: &mut Object) -> Result<Self, BpfError> {
        let ring = RingBuf::try_from(object.take_map("doubts")?);
        let ring = ring.map_err(|error| object.refused(&error))?;
        Ok(Self { ring })
    }

    /// Judges what has come in; returns how many there were.
    pub(super) fn judge(&mut self, workload: &Workload, accounts: &Accounts, stats: &mut Stats) -> usize {
        for taken in 0..TAKEN_MAX {
            let Some(record) = self.ring.next() else { return taken };
            if let Some(doubt) = Doubt::parse(&record) {
                doubt.judge(workload, accounts, stats);
            }
        }
        TAKEN_MAX
    }
}

/// An answer in time to query `n`, whose question, ID and ports are right.
#[derive(Debug, PartialEq, Eq)]
struct Doubt<'a> {
    n: u64,
    latency_ns: u64,
    latency_from_send_ns: u64,
    message: &'a [u8],
}

impl<'a> Doubt<'a> {
    fn parse(record: &'a [u8]) -> Option<Self> {
        let word = |at: usize| record.get(at..)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets));
        let half = |at: usize| record.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets));
        Some(Self {
            n: half(at::N)?.into(),
            latency_ns: word(at::LATENCY_NS)?,
            latency_from_send_ns: word(at::LATENCY_FROM_SEND_NS)?,
            message: record.get(at::MESSAGE..)?.get(..half(at::OCTETS)? as usize)?,
        })
    }

    fn judge(&self, workload: &Workload, accounts: &Accounts, stats: &mut Stats) {
        let Some((expected, judgement)) = self.judgement(workload) else { return };
        stats.valid_compat += u64::from(judgement.compat);
        match judgement.strict {
            Ok(()) => {
                stats.add_latency(self.latency_ns, 1);
                stats.add_latency_from_send(self.latency_from_send_ns, 1);
            }
            Err(defect) => {
                accounts.mark_failed(self.n);
                stats.note_invalid(defect, expected.address());
            }
        }
    }

    /// `None` only if the sink had not found header and question, which it looks for first.
    fn judgement(&self, workload: &Workload) -> Option<(Expectation, Judgement)> {
        let header = Header::parse(self.message).ok()?;
        let question_end = question::end(self.message)?;
        let expected = workload.expectation(self.n, self.message, question_end);
        Some((expected, judge(expected, &header, self.message, question_end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;
    use sys::bpf::layout::Layout;

    #[test]
    fn records_are_laid_out_as_in_the_program() {
        let layout = Layout::of(objects::MEASURER, "doubt").unwrap();
        let expected = [
            ("n", at::N),
            ("octets", at::OCTETS),
            ("latency_ns", at::LATENCY_NS),
            ("latency_from_send_ns", at::LATENCY_FROM_SEND_NS),
            ("message", at::MESSAGE),
        ];
        assert_eq!(layout.offsets(), expected);
        assert_eq!(layout.members.iter().map(|member| member.octets).collect::<Vec<_>>(), [4, 4, 8, 8, 0]);
    }

    #[test]
    fn records_are_read_as_the_program_writes_them() {
        let mut record = vec![7, 0, 0, 0, 3, 0, 0, 0];
        record.extend(9u64.to_ne_bytes());
        record.extend(5u64.to_ne_bytes());
        record.extend([1, 2, 3, 4]);
        let expected = Doubt { n: 7, latency_ns: 9, latency_from_send_ns: 5, message: &[1, 2, 3] };
        #[cfg(target_endian = "little")]
        assert_eq!(Doubt::parse(&record), Some(expected));
        for length in 0..27 {
            assert_eq!(Doubt::parse(&record[..length]), None);
        }
    }
}

//! What of a capture is no query that can be asked again, by reason.

/// Why something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A packet of other protocols or ports, or a TCP segment without data.
    Other,
    /// A packet from the DNS port: responses.
    Response,
    /// A packet of an interface whose link type is not read.
    LinkType,
    /// A fragment of an IP packet to the DNS port or of unknown ports.
    Fragment,
    /// A packet to the DNS port of which the capture has a part, or whose lengths contradict each other.
    Cut,
    /// A TCP segment to the DNS port that does not consist of whole messages.
    Segment,
    /// A message to the DNS port that is no request, has not exactly one question, or is too long to be sent.
    Unaskable,
    /// A packet whose time the capture does not say.
    NoTime,
    /// A query whose time is before that of a query read long before it.
    OutOfOrder,
}

impl Reason {
    /// All of them, in the order in which a compact file has them.
    pub const ALL: [Self; 9] = [
        Self::Other,
        Self::Response,
        Self::LinkType,
        Self::Fragment,
        Self::Cut,
        Self::Segment,
        Self::Unaskable,
        Self::NoTime,
        Self::OutOfOrder,
    ];

    /// Its name in a record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "other_traffic",
            Self::Response => "responses",
            Self::LinkType => "unknown_link_type",
            Self::Fragment => "fragments",
            Self::Cut => "cut_packets",
            Self::Segment => "partial_segments",
            Self::Unaskable => "unaskable_messages",
            Self::NoTime => "packets_without_time",
            Self::OutOfOrder => "out_of_order",
        }
    }

    /// The same in a sentence.
    pub fn in_words(self) -> String {
        self.as_str().replace('_', " ")
    }

    /// What to do about a capture that holds nothing else.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Other => "'sextant convert --port' takes queries to another port than 53",
            Self::Response => "record the queries, too (tcpdump 'port 53')",
            Self::LinkType => "record Ethernet, Linux cooked packets (tcpdump -i any) or raw IP",
            Self::Fragment => "fragments are not put together, record where packets are whole",
            Self::Cut => "record whole packets (tcpdump -s 0)",
            Self::Segment => {
                "queries over TCP are taken that lie whole in a segment, record queries over UDP"
            }
            Self::Unaskable => "requests are taken that have one question and at most 512 octets",
            Self::NoTime => "record again with a program that notes the time of each packet",
            Self::OutOfOrder => "sort the capture by time (reordercap)",
        }
    }
}

/// How much was left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(pub(crate) [u64; Reason::ALL.len()]);

impl LeftOut {
    /// Counts one.
    pub fn note(&mut self, why: Reason) {
        self.0[why as usize] += 1;
    }

    /// How many were left out for this reason.
    pub fn of(&self, why: Reason) -> u64 {
        self.0[why as usize]
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// The reason that occurred most often; other traffic only if there was nothing else.
    pub fn most(&self) -> Option<Reason> {
        self.iter().max_by_key(|(why, count)| (*why != Reason::Other, *count)).map(|(why, _)| why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_under_their_reasons() {
        let mut left_out = LeftOut::default();
        for (times, why) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, times);
            (0..times).for_each(|_| left_out.note(why));
        }
        assert!(left_out.iter().map(|(why, count)| (why as usize, count)).eq((1..9).map(|n| (n, n as u64))));
        assert_eq!((left_out.of(Reason::Cut), left_out.most()), (4, Some(Reason::OutOfOrder)));
        assert_eq!(LeftOut::default().most(), None);
        let mut left_out = LeftOut::default();
        (0..9).for_each(|_| left_out.note(Reason::Other));
        assert_eq!(left_out.most(), Some(Reason::Other));
        left_out.note(Reason::Fragment);
        assert_eq!(left_out.most(), Some(Reason::Fragment));
    }
}

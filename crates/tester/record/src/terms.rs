//! The terms of a record: each value from a fixed list of words is an enum here, and is written in JSON as
//! its word.
//!
//! A record of another version may hold a word that this version does not know. Such a word is kept as
//! `Other`, and is written again as it was read.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! terms {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $term:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$meaning])* $term,)+
            /// A word that this version does not know, as it stands in the record.
            Other(String),
        }

        impl $name {
            /// The word in the record.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$term => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$term,)+
                    _ => Self::Other(word.to_owned()),
                }
            }
        }

        impl Default for $name {
            /// The empty word: nothing was said.
            fn default() -> Self {
                Self::from("")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        /// In the order of the words, so that maps keep their order in JSON.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.as_str().cmp(other.as_str())
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|word| Self::from(word.as_str()))
            }
        }
    };
}

terms! {
    /// Why a trial did not pass, or what limited the rate.
    Cause {
        /// The trial was cut short.
        Interrupted = "interrupted",
        /// The file or pipe that queries come from had none when they were due.
        QueryFile = "query file",
        /// The Tester did not send, or not in time.
        TesterCpu = "Tester CPU",
        /// The Tester's sockets or rings lost answers.
        TesterReceive = "Tester receive",
        /// The device of the queries or the kernel of this machine lost packets.
        Kernel = "NIC or kernel of this host",
        /// The AuthDNS did not answer the server, or not in time.
        AuthDns = "AuthDNS",
        /// The names that were to be cached had no answer before the trial.
        ColdCache = "cold cache",
        /// One thread of the server had all the work.
        OneThread = "one thread of the DUT (RSS, port spread)",
        /// The server's busiest thread had no time left.
        DutCpu = "DUT CPU",
        /// The server's socket overflowed while the server had time.
        DutSocket = "DUT socket buffer and pauses",
        /// Packets were lost between the Tester and the server.
        Path = "path",
        /// Other programs or the hypervisor used the processors.
        OtherLoad = "other load on this machine",
        /// Connections were refused, broken off or not ready in time.
        Connections = "connections",
        /// Answers came too late, and nothing was dropped.
        DutQueueing = "DUT queueing",
        /// The evidence does not tell.
        Unattributed = "unattributed",
        /// Every run passed at the highest rate that it was to try.
        HighestRate = "the highest rate tried",
        /// Every run held as many connections as it was to try.
        MostConnections = "the highest number of connections tried",
        /// The Tester could open no more connections.
        TesterConnections = "Tester connections",
        /// Every run passed at the highest rate that the self-test allows.
        Certificate = "the Tester's certificate",
    }
}

terms! {
    /// Which answers counted.
    Validity {
        /// Not said, by a program that knew one rule.
        Unstated = "",
        /// The AAAA record expected from the name.
        Strict = "strict",
        /// A NOERROR response with any answer record, the rule of dns64perf++.
        Compat = "compat",
        /// Any response to the question.
        Response = "response",
    }
}

terms! {
    /// How the name of each query was chosen.
    NameChoice {
        /// Each name of the range once, in turn.
        Each = "each",
        /// Each name once, but for a share of the queries, which ask names that the server has cached.
        Cached = "cached",
        /// The names of the range over and over.
        OverAndOver = "over_and_over",
        /// By popularity (Zipf): popular names come again.
        Zipf = "zipf",
        /// A random label below the suffix for each query; no label comes twice.
        RandomLabels = "random_labels",
        /// Made from templates.
        Generated = "generated",
        /// As a file or a pipe has them.
        File = "file",
    }
}

terms! {
    /// How a rate was searched.
    SearchMode {
        /// Bisection, as RFC 8219 has it.
        Rfc8219 = "rfc8219",
        /// Bisection; two trials decide a rate, a third one where they differ.
        Verify = "verify",
        /// MLRsearch (RFC 9971).
        Mlr = "mlr",
        /// The rate was given.
        Fixed = "fixed",
    }
}

terms! {
    /// What measured.
    Kind {
        /// `sextant bench`.
        Bench = "bench",
        /// `sextant search`.
        Search = "search",
        /// `sextant selftest`.
        SelfTest = "selftest",
        /// `sextant campaign`.
        Campaign = "campaign",
        /// Another tool; `sextant report` has read its file.
        Import = "import",
    }
}

terms! {
    /// How strongly an RFC asks for something (RFC 2119).
    Level {
        /// An absolute requirement.
        Must = "MUST",
        /// There may be reasons to do otherwise.
        Should = "SHOULD",
        /// It is left to choice.
        May = "MAY",
    }
}

terms! {
    /// Where a query was lost: the keys of [`Trial::losses`](crate::Trial::losses).
    LossPlace {
        /// The kernel refused to send.
        OwnSendError = "own_send_error",
        /// Never sent, because the trial was cut short or the Tester gave up.
        Unsent = "unsent",
        /// Dropped at the Measurer's sockets or rings.
        OwnSocketDrop = "own_socket_drop",
        /// Answered, but to a queue of the device that nobody read.
        WrongQueue = "wrong_queue",
        /// Dropped by the device that the queries leave by, or by its queue.
        OwnDeviceDrop = "own_device_drop",
        /// Dropped by the kernel of this machine between device and socket.
        SoftnetDrop = "softnet_drop",
        /// Dropped at the server's listening socket.
        ServerSocketDrop = "server_socket_drop",
        /// Dropped at the AuthDNS's sockets.
        AuthSocketDrop = "auth_socket_drop",
        /// Taken by the server (as far as is known) and never answered.
        ServerSilent = "server_silent",
        /// The server refused the connection.
        ConnectionRefused = "connection_refused",
        /// No way to the server, as the network says.
        ConnectionUnreachable = "connection_unreachable",
        /// The connection was not ready within the timeout.
        ConnectionTimedOut = "connection_timed_out",
        /// The server broke the connection off, or what it sent could not be read.
        ConnectionReset = "connection_reset",
        /// The server closed the connection before it answered.
        ConnectionClosed = "connection_closed",
        /// The handshake of TLS failed.
        HandshakeFailed = "handshake_failed",
        /// Never sent, because the connection took no more: the server did not read, or allowed no stream.
        FlowControl = "flow_control",
        /// The response was of another status of HTTP than 200.
        HttpStatus = "http_status",
        /// The response was of status 200 and had no message of DNS.
        HttpMalformed = "http_malformed",
        /// The server reset the stream of the query.
        StreamReset = "stream_reset",
        /// The server took no more queries by the connection (GOAWAY).
        GoAway = "goaway",
        /// Never sent, because all connections that the Tester may have were in use.
        OwnConnectionLimit = "own_connection_limit",
        /// Answered after the timeout.
        Late = "late",
        /// Answered in time, but wrong.
        WrongAnswer = "wrong_answer",
    }
}

terms! {
    /// What ended a zone transfer before its end.
    TransferEnd {
        /// The server refused the connection.
        Refused = "connection_refused",
        /// No way to the server, as the network says, or no socket for it.
        Unreachable = "connection_unreachable",
        /// The handshake of TLS failed.
        Handshake = "handshake_failed",
        /// The server answered with an RCODE that is not NOERROR.
        Rcode = "rcode",
        /// The server closed the connection or broke it off.
        ClosedEarly = "closed_early",
        /// Connection, handshake or next message took longer than the timeout, or all longer than the trial.
        TimedOut = "timed_out",
        /// A message has no signature where one must be, or one that does not hold; or the server says so.
        Signature = "tsig",
        /// What came is no transfer of the zone.
        Malformed = "malformed",
        /// It has more messages or octets than are taken.
        TooLarge = "too_large",
        /// This machine had no thread, port or file for it.
        OwnLimit = "own_limit",
        /// The user ended the program.
        Interrupted = "interrupted",
    }
}

terms! {
    /// What a transfer that came to its end brought.
    TransferAnswer {
        /// The whole zone.
        Full = "full",
        /// The changes since the serial that was asked for.
        Incremental = "incremental",
        /// The SOA record alone: there are no changes since then.
        UpToDate = "up_to_date",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn words_are_read_and_written_as_they_are() {
        for word in ["Tester CPU", "one thread of the DUT (RSS, port spread)", "", "a cause of 2031"] {
            let json = serde_json::to_string(word).unwrap();
            let cause: Cause = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&cause).unwrap(), json);
        }
        assert_eq!(Cause::from("DUT CPU"), Cause::DutCpu);
        assert_eq!(Validity::default(), Validity::Unstated);
        assert_eq!(Cause::default(), Cause::Other(String::new()));
    }

    #[test]
    fn places_are_keys_in_the_order_of_their_words() {
        let json = r#"{"a_place_of_2031":1,"late":2,"own_send_error":3,"unsent":4}"#;
        let losses: BTreeMap<LossPlace, u64> = serde_json::from_str(json).unwrap();
        assert_eq!(losses[&LossPlace::Late], 2);
        assert_eq!(serde_json::to_string(&losses).unwrap(), json);
    }
}

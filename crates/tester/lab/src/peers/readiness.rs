//! Waits until a server answers with the expected address, asked over UDP as the Measurer asks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use dns64::Prefix;
use dns64::names::{LABEL_LENGTH, write_label};
use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Writer, rtype};

/// The address of the name to ask with: the last of the default name space, far from where trials start.
pub const PROBE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 255);
/// How long the first reply is waited for before the question is asked again; each time twice as long as
/// before.
const REPLY_TIMEOUT_FIRST: Duration = Duration::from_millis(10);
/// The longest such wait.
const REPLY_TIMEOUT_MAX: Duration = Duration::from_millis(250);
/// The pause after a port that refuses, or a wrong answer.
const PAUSE: Duration = Duration::from_millis(5);
/// A query for a name of 255 octets fits (RFC 1035 2.3.4).
const QUERY_OCTETS: usize = 512;

/// A question whose right answer is known.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The name whose address is asked.
    pub name: Name,
    /// The address that must be in the answer; its family says whether A or AAAA is asked.
    pub expected: IpAddr,
}

/// A server that gave the right answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// From the first question to the answer, in nanoseconds.
    pub after_ns: u64,
    /// How many questions that took.
    pub queries: u32,
}

impl Probe {
    /// The benchmark name of an IPv4 address under `suffix`, and the address synthesized for it.
    ///
    /// Choose a name that the trials will not ask, so that the probe warms no cache for them.
    ///
    /// # Errors
    /// The suffix leaves no room for the label.
    pub fn synthesized(
        ipv4: Ipv4Addr,
        suffix: &Name,
        prefix: &Prefix,
    ) -> Result<Self, dns64::wire::Malformed> {
        Ok(Self { expected: prefix.embed(ipv4).into(), ..Self::a(ipv4, suffix)? })
    }

    /// The benchmark name of an IPv4 address under `suffix`, and that address: what an authoritative server
    /// says.
    ///
    /// # Errors
    /// The suffix leaves no room for the label.
    pub fn a(ipv4: Ipv4Addr, suffix: &Name) -> Result<Self, dns64::wire::Malformed> {
        let mut label = [0; LABEL_LENGTH];
        write_label(ipv4, &mut label);
        let mut wire = vec![LABEL_LENGTH as u8];
        wire.extend_from_slice(&label);
        wire.extend_from_slice(suffix.as_wire());
        let (name, _) = Name::parse(&wire, 0)?;
        Ok(Self { name, expected: ipv4.into() })
    }

    fn qtype(&self) -> u16 {
        if self.expected.is_ipv4() { rtype::A } else { rtype::AAAA }
    }

    /// Asks `server` until it answers rightly or `timeout` is over; `still_there` ends the wait early.
    ///
    /// # Errors
    /// The outer error is `still_there`'s, the inner one says in words what came instead of the answer.
    pub fn wait<E>(
        &self,
        server: SocketAddr,
        timeout: Duration,
        mut still_there: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<Ready, String>, E> {
        let start = Instant::now();
        let (mut last, mut patience) = (String::from("no reply"), REPLY_TIMEOUT_FIRST);
        for queries in 1u32.. {
            still_there()?;
            match self.ask(server, queries as u16, patience) {
                Ok(()) => {
                    let after_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    return Ok(Ok(Ready { after_ns, queries }));
                }
                Err(reason) => last = reason,
            }
            if start.elapsed() >= timeout {
                break;
            }
            patience = REPLY_TIMEOUT_MAX.min(patience * 2);
        }
        still_there()?;
        Ok(Err(last))
    }

    /// One question, from a port of its own so that late replies to earlier ones are not seen.
    fn ask(&self, server: SocketAddr, id: u16, patience: Duration) -> Result<(), String> {
        let mut query = [0; QUERY_OCTETS];
        let length = self.query(id, &mut query).map_err(|error| error.to_string())?;
        let mut reply = [0; 4096];
        match exchange(server, &query[..length], &mut reply, patience) {
            Ok(length) => self.judge(&reply[..length], id).inspect_err(|_| std::thread::sleep(PAUSE)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::thread::sleep(PAUSE);
                Err(format!("nothing listens at {server}"))
            }
            Err(error) if is_silence(&error) => Err(format!("no reply from {server}")),
            Err(error) => Err(format!("cannot ask {server}: {error}")),
        }
    }

    /// Asks once, from a port of its own; whether any reply came in time, whatever it says.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub fn has_reply(&self, server: SocketAddr, id: u16, patience: Duration) -> io::Result<bool> {
        let mut query = [0; QUERY_OCTETS];
        let length = self.query(id, &mut query)?;
        match exchange(server, &query[..length], &mut [0; 4096], patience) {
            Ok(_) => Ok(true),
            Err(error) if is_silence(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes the question; its length.
    fn query(&self, id: u16, query: &mut [u8; QUERY_OCTETS]) -> io::Result<usize> {
        let question = Question { name: self.name, qtype: self.qtype(), qclass: CLASS_IN };
        let written = Writer::new(query, id, Header::RD, &question).map(Writer::finish);
        written.map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the name asked is too long"))
    }

    fn type_name(&self) -> &'static str {
        if self.expected.is_ipv4() { "A" } else { "AAAA" }
    }

    /// Why a reply is not the right one.
    fn judge(&self, reply: &[u8], id: u16) -> Result<(), String> {
        let message = Message::parse(reply).map_err(|error| error.to_string())?;
        if message.header.id != id || !message.header.has(Header::QR) || message.question().name != self.name
        {
            return Err("a reply to another question".to_owned());
        }
        if message.header.rcode() != 0 {
            return Err(format!("RCODE {} for {} {}", message.header.rcode(), self.name, self.type_name()));
        }
        let mut other = None;
        for record in message.answers().filter(|record| record.rtype == self.qtype()) {
            match address(record.rdata) {
                Some(address) if address == self.expected => return Ok(()),
                address => other = address.or(other),
            }
        }
        let got = other.map_or_else(|| format!("no {}", self.type_name()), |address| address.to_string());
        Err(format!("{got} instead of {} for {}", self.expected, self.name))
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// An address by the length of its RDATA.
fn address(rdata: &[u8]) -> Option<IpAddr> {
    let ipv4 = <[u8; 4]>::try_from(rdata).map(IpAddr::from);
    ipv4.or_else(|_| <[u8; 16]>::try_from(rdata).map(IpAddr::from)).ok()
}

fn exchange(server: SocketAddr, query: &[u8], reply: &mut [u8], patience: Duration) -> io::Result<usize> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(patience))?;
    socket.send(query)?;
    socket.recv(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::Section;
    use proptest::prelude::*;

    fn probe() -> Probe {
        let suffix = Name::from_text("dns64perf.test").unwrap();
        let prefix = "2001:db8:64::/96".parse().unwrap();
        Probe::synthesized(Ipv4Addr::new(10, 0, 0, 7), &suffix, &prefix).unwrap()
    }

    fn reply(flags: u16, addresses: &[IpAddr]) -> Vec<u8> {
        let mut buffer = [0; 512];
        let question = Question { name: probe().name, qtype: rtype::AAAA, qclass: CLASS_IN };
        let mut writer = Writer::new(&mut buffer, 9, flags, &question).unwrap();
        for address in addresses {
            let IpAddr::V6(address) = address else { continue };
            let octets = address.octets();
            writer.record(Section::Answer, &question.name, rtype::AAAA, CLASS_IN, 1, &octets).unwrap();
        }
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    #[test]
    fn only_the_expected_answer_is_ready() {
        let probe = probe();
        assert_eq!(probe.name.to_string().trim_end_matches('.'), "010-000-000-007.dns64perf.test");
        let wrong = "64:ff9b::a00:7".parse().unwrap();
        assert_eq!(probe.judge(&reply(Header::QR, &[wrong, probe.expected]), 9), Ok(()));
        let reason = |octets: &[u8], id| probe.judge(octets, id).unwrap_err();
        assert!(
            reason(&reply(Header::QR, &[wrong]), 9).starts_with("64:ff9b::a00:7 instead of 2001:db8:64::")
        );
        assert!(reason(&reply(Header::QR, &[]), 9).starts_with("no AAAA instead"));
        assert!(reason(&reply(Header::QR | 2, &[]), 9).starts_with("RCODE 2 for 010-"));
        assert_eq!(reason(&reply(Header::QR, &[probe.expected]), 8), "a reply to another question");
        assert_eq!(reason(&reply(0, &[probe.expected]), 9), "a reply to another question");
    }

    #[test]
    fn a_silent_or_absent_server_is_given_up() {
        let silent = UdpSocket::bind("[::1]:0").unwrap();
        let address = silent.local_addr().unwrap();
        let there = || Ok::<(), ()>(());
        let waited = probe().wait(address, Duration::from_millis(300), there).unwrap();
        assert_eq!(waited, Err(format!("no reply from {address}")));
        drop(silent);
        let waited = probe().wait(address, Duration::from_millis(50), there).unwrap();
        assert_eq!(waited, Err(format!("nothing listens at {address}")));
        assert_eq!(probe().wait(address, Duration::from_secs(60), || Err("gone")), Err("gone"));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(probe().judge(&octets, 0).is_err());
        }
    }
}

//! A client of dns64d.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use dns64::rewrite::OPT_LENGTH;
use dns64::wire::{Header, Message, Options, append_option, option_code};

use super::words::{lines, query};
use super::{PATIENCE, read_frame, write_frame};

/// The ID of all questions that are not numbered.
const ID: u16 = 0x1234;

/// A question on its way to dns64d.
#[derive(Clone, Debug)]
pub struct Ask {
    pub octets: Vec<u8>,
}

/// A question with RD, without EDNS.
pub fn ask(words: &str) -> Ask {
    Ask { octets: query(ID, words, None) }
}

/// A question with EDNS.
pub fn ask_edns(words: &str) -> Ask {
    Ask { octets: query(ID, words, Some((1232, false))) }
}

/// A question with DO.
pub fn ask_dnssec(words: &str) -> Ask {
    Ask { octets: query(ID, words, Some((1232, true))) }
}

impl Ask {
    /// With another ID.
    pub fn numbered(mut self, id: u16) -> Self {
        self.octets[..2].copy_from_slice(&id.to_be_bytes());
        self
    }

    /// With one more flag.
    pub fn flag(mut self, flag: u16) -> Self {
        self.octets[2] |= (flag >> 8) as u8;
        self.octets[3] |= flag as u8;
        self
    }

    pub fn without_recursion(mut self) -> Self {
        self.octets[2] &= !((Header::RD >> 8) as u8);
        self
    }

    /// With one more EDNS option; the question must have EDNS.
    pub fn option(mut self, code: u16, value: &[u8]) -> Self {
        let length = self.octets.len();
        assert!(length >= 12 + OPT_LENGTH);
        self.octets.resize(1232, 0);
        let length = append_option(&mut self.octets, length, code, value);
        self.octets.truncate(length);
        self
    }

    /// Asks over UDP from some address of this host.
    pub fn over_udp(&self, server: SocketAddr) -> Answer {
        let host = if server.is_ipv4() { [127, 0, 0, 1].into() } else { IpAddr::V6(1.into()) };
        self.from(host, server).expect("an answer over UDP")
    }

    /// Asks over UDP from this address; `None` without an answer.
    pub fn from(&self, host: IpAddr, server: SocketAddr) -> Option<Answer> {
        self.within(PATIENCE, host, server)
    }

    /// Likewise, and waits no longer than this.
    pub fn within(&self, patience: Duration, host: IpAddr, server: SocketAddr) -> Option<Answer> {
        let socket = UdpSocket::bind((host, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(patience)).unwrap();
        socket.send(&self.octets).unwrap();
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).ok()?;
        Some(self.answered_by(buffer[..length].to_vec()))
    }

    /// Checks that this is an answer to the question.
    #[track_caller]
    pub fn answered_by(&self, octets: Vec<u8>) -> Answer {
        let header = Header::parse(&octets).unwrap();
        assert_eq!(header.id, Header::parse(&self.octets).unwrap().id);
        assert!(header.has(Header::QR));
        Answer { octets }
    }

    /// Asks over TCP.
    pub fn over_tcp(&self, server: SocketAddr) -> Answer {
        let mut stream = connect(server);
        write_frame(&mut stream, &self.octets);
        self.answered_by(read_frame(&mut stream).expect("an answer over TCP"))
    }
}

/// A TCP connection that does not wait for ever.
pub fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What dns64d answered.
#[derive(Debug)]
pub struct Answer {
    pub octets: Vec<u8>,
}

impl Answer {
    pub fn message(&self) -> Message<'_> {
        Message::parse(&self.octets).unwrap()
    }

    pub fn rcode(&self) -> u8 {
        Header::parse(&self.octets).unwrap().rcode()
    }

    pub fn has(&self, flag: u16) -> bool {
        Header::parse(&self.octets).unwrap().flags & flag != 0
    }

    /// The records in words, without OPT.
    pub fn records(&self) -> Vec<String> {
        lines(&self.octets).into_iter().filter(|line| !line.starts_with("opt ")).collect()
    }

    /// The value of an EDNS option.
    pub fn option(&self, code: u16) -> Option<Vec<u8>> {
        Options::of(&self.message()).find(code).map(<[u8]>::to_vec)
    }

    /// The codes of its extended errors (RFC 8914).
    pub fn extended_errors(&self) -> Vec<u16> {
        let message = self.message();
        let options = Options::of(&message);
        let errors = options.iter().filter(|(code, _)| *code == option_code::EXTENDED_ERROR);
        errors.map(|(_, value)| u16::from_be_bytes([value[0], value[1]])).collect()
    }

    /// Has this RCODE and these records.
    #[track_caller]
    pub fn is(&self, rcode: u8, records: &[&str]) {
        assert_eq!(self.records(), records);
        assert_eq!(self.rcode(), rcode);
    }
}

//! The packets of a pcap or pcapng file, one after another.

use std::fmt;
use std::io::{self, Read};

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// Octets that are read at once.
const READ_OCTETS: usize = 1 << 18;
/// A packet or block of more octets is no packet of a network: the file is malformed.
pub const BLOCK_OCTETS_MAX: usize = 1 << 24;
/// More interfaces than a capture has: a bound for memory.
const INTERFACES_MAX: usize = 1 << 16;
const SECOND_NS: u128 = 1_000_000_000;

/// A packet as the capture has it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// When it was captured, in ns since 1970; `None` where the capture does not say so.
    pub time_ns: Option<u64>,
    /// The link type of its interface (`LINKTYPE_`, draft-ietf-opsawg-pcaplinktype).
    pub link_type: u16,
    /// Its octets, as far as they were captured.
    pub octets: &'p [u8],
    /// Whether it had more.
    pub is_cut: bool,
}

/// Why reading ended before the end of a file, and where: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Packets that were read before.
    pub packets: u64,
    /// Where the packet or block begins that cannot be read, in octets from the start.
    pub octet: u64,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "octet {}, after {} packets: {}", self.octet, self.packets, self.reason)
    }
}

impl std::error::Error for Stopped {}

/// How the times of an interface are counted.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Units of a second; `None`: so many that no clock has them.
    units: Option<u128>,
    offset_s: i64,
}

/// Reads packets; memory is bounded whatever the file holds.
pub struct Packets<'r> {
    reader: Box<dyn PcapReaderIterator + Send + 'r>,
    /// The capacity of its buffer, in octets.
    capacity: usize,
    /// Those of the present section; of a pcap file the only one.
    interfaces: Vec<Interface>,
    is_big_endian: bool,
    packets: u64,
}

/// Whether a file that begins so is a pcap or pcapng file; its first 12 octets decide.
pub fn is_capture(first: &[u8]) -> bool {
    let word = |at: usize| Some(u32::from_le_bytes(*first.get(at..)?.first_chunk()?));
    match word(0) {
        Some(0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0xa1b2_cd34) => true,
        Some(0x0a0d_0d0a) => matches!(word(8), Some(0x1a2b_3c4d | 0x4d3c_2b1a)),
        _ => false,
    }
}

impl<'r> Packets<'r> {
    /// Begins to read.
    ///
    /// # Errors
    /// It is no pcap or pcapng file, or ends within its header.
    pub fn new(input: impl Read + Send + 'r) -> Result<Self, Stopped> {
        let reader = create_reader(READ_OCTETS, Whole(input)).map_err(|error| Stopped {
            packets: 0,
            octet: 0,
            reason: match error {
                PcapError::Eof => "the file is empty",
                PcapError::Incomplete(_) => "the file ends within its header",
                PcapError::ReadError => UNREADABLE,
                _ => "no pcap or pcapng file",
            },
        })?;
        let interfaces = Vec::new();
        Ok(Self { reader, capacity: READ_OCTETS, interfaces, is_big_endian: false, packets: 0 })
    }

    /// Reads to the next packet and hands it over; `false` at the end of the file.
    ///
    /// # Errors
    /// The file is cut off or malformed here: nothing more can be read.
    pub fn next(&mut self, take: &mut dyn FnMut(Packet<'_>)) -> Result<bool, Stopped> {
        loop {
            let (packets, octet) = (self.packets, self.reader.consumed() as u64);
            let stopped = |reason| Stopped { packets, octet, reason };
            let before = self.reader.data().len();
            let found = match self.reader.next() {
                Ok((octets, block)) => {
                    let sections = (&mut self.interfaces, &mut self.is_big_endian);
                    Ok((octets, read_block(block, sections, take).map_err(stopped)?))
                }
                Err(PcapError::Eof) => return Ok(false),
                Err(PcapError::UnexpectedEof) => {
                    return Err(stopped("the file ends within a packet or block"));
                }
                Err(PcapError::BufferTooSmall) => Err(true),
                Err(PcapError::Incomplete(_)) => Err(false),
                Err(_) => return Err(stopped("no packet or block as the format has it")),
            };
            match found {
                Ok((octets, is_packet)) => {
                    self.reader.consume(octets);
                    self.packets += u64::from(is_packet);
                    if is_packet {
                        return Ok(true);
                    }
                }
                Err(needs_room) => self.read_more(needs_room, before).map_err(stopped)?,
            }
        }
    }

    fn read_more(&mut self, mut needs_room: bool, before: usize) -> Result<(), &'static str> {
        loop {
            if needs_room {
                if self.capacity >= BLOCK_OCTETS_MAX {
                    return Err("a packet or block of over 16 MiB");
                }
                self.capacity *= 2;
                if !self.reader.grow(self.capacity) {
                    return Err("no memory for a block so large");
                }
            }
            self.reader.refill().map_err(|_| UNREADABLE)?;
            // A buffer that is full takes nothing more, and says nothing.
            if self.reader.data().len() > before || self.reader.reader_exhausted() {
                return Ok(());
            }
            needs_room = true;
        }
    }
}

const UNREADABLE: &str = "the file cannot be read further";

/// Reads a block; tells whether it was a packet.
fn read_block(
    block: PcapBlockOwned<'_>,
    (interfaces, is_big_endian): (&mut Vec<Interface>, &mut bool),
    take: &mut dyn FnMut(Packet<'_>),
) -> Result<bool, &'static str> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let units = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            interfaces.push(Interface {
                link_type: link_type(header.network),
                units: Some(units),
                offset_s: 0,
            });
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first().ok_or("a packet before the header")?;
            let fraction_ns =
                interface.units.map(|units| u64::from(packet.ts_usec) * (SECOND_NS / units) as u64);
            let second_ns = u64::from(packet.ts_sec) * SECOND_NS as u64;
            take(Packet {
                time_ns: fraction_ns.map(|fraction_ns| second_ns + fraction_ns),
                link_type: interface.link_type,
                octets: packet.data,
                is_cut: packet.caplen < packet.origlen,
            });
            return Ok(true);
        }
        PcapBlockOwned::NG(Block::SectionHeader(header)) => {
            interfaces.clear();
            *is_big_endian = header.big_endian();
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
            if interfaces.len() == INTERFACES_MAX {
                return Err("over 65536 interfaces");
            }
            // The library reads the offset as little-endian whatever the section is.
            let offset_s = described.if_tsoffset;
            interfaces.push(Interface {
                link_type: link_type(described.linktype),
                units: units(described.if_tsresol),
                offset_s: if *is_big_endian { offset_s.swap_bytes() } else { offset_s },
            });
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces
                .get(packet.if_id as usize)
                .ok_or("a packet of an interface without description")?;
            let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            take(Packet {
                time_ns: interface.time_ns(time),
                link_type: interface.link_type,
                octets: packet.packet_data(),
                is_cut: packet.caplen < packet.origlen,
            });
            return Ok(true);
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let interface = interfaces.first().ok_or("a packet of an interface without description")?;
            let octets = packet.packet_data();
            let is_cut = octets.len() < packet.origlen as usize;
            take(Packet { time_ns: None, link_type: interface.link_type, octets, is_cut });
            return Ok(true);
        }
        PcapBlockOwned::NG(_) => {}
    }
    Ok(false)
}

/// The upper bits of the field tell of checksums at the end of frames.
fn link_type(of: Linktype) -> u16 {
    of.0 as u16
}

/// Units of a second by `if_tsresol`: a power of ten, or of two where the highest bit is set.
fn units(resolution: u8) -> Option<u128> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).filter(|units| *units <= u64::MAX.into())
}

impl Interface {
    /// A time in ns since 1970; `None` before that year or after the numbers end.
    fn time_ns(&self, time: u64) -> Option<u64> {
        let since_ns = u128::from(time) * SECOND_NS / self.units?;
        let offset_ns = i128::from(self.offset_s) * SECOND_NS as i128;
        u64::try_from(i128::try_from(since_ns).ok()?.checked_add(offset_ns)?).ok()
    }
}

/// Reads as much as is asked for, so that short reads of a pipe do not look like the end of a header.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match self.0.read(&mut into[read..]) {
                Ok(0) => break,
                Ok(octets) => read += octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if read == 0 => return Err(error),
                // It comes again with the next call.
                Err(_) => break,
            }
        }
        Ok(read)
    }
}

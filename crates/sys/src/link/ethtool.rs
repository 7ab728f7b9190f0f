//! Properties that only the driver of a device knows (the ethtool ioctl, `linux/ethtool.h`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::netlink::{u32_at, u64_at};

const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const GRXFH: u32 = 0x29;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
const GCHANNELS: u32 = 0x3c;

/// The set of names of the driver's counters.
const SET_STATISTICS: u32 = 1;
/// The set of names of offload features.
const SET_FEATURES: u32 = 4;
/// Names have this many octets, the last of them zero.
const NAME_OCTETS: usize = 32;
/// A driver may have gained counters (by a new queue) since it was asked how many it has: room for as many
/// again.
const SLACK: usize = 1024;
/// A word holds so many features.
const BLOCK_BITS: usize = 32;
/// More than any driver has.
const NAMES_MAX: usize = 1 << 16;

/// Runs one command.
///
/// # Safety
/// `buffer` starts with the command's number and has room for all that the kernel writes, which does not know
/// its length.
unsafe fn call(device: &str, buffer: &mut [u8]) -> io::Result<()> {
    // SAFETY: on success the call returns a new descriptor that nobody else owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(crate::check(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?)
    };
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
    // SAFETY: the request is a valid ifreq with a terminated name; its data are a buffer with room for what
    // the command writes, as the caller promises.
    crate::check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &mut request) }).map(drop)
}

/// A buffer that starts with the given words and has `octets` in all.
fn buffer(words: &[u32], octets: usize) -> Vec<u8> {
    let mut buffer: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    buffer.resize(octets, 0);
    buffer
}

/// The name that starts at an offset and ends with a zero.
fn text(octets: &[u8]) -> String {
    let end = octets.iter().position(|&octet| octet == 0).unwrap_or(octets.len());
    String::from_utf8_lossy(&octets[..end]).into_owned()
}

/// The driver's name.
pub(super) fn driver(device: &str) -> io::Result<String> {
    // struct ethtool_drvinfo has 196 octets; the name follows the command.
    let mut info = buffer(&[GDRVINFO], 256);
    // SAFETY: the struct fits.
    unsafe { call(device, &mut info)? };
    Ok(text(&info[4..36]))
}

/// The number of channels that receive, those of their own and those combined with sending ones, and the most
/// there may be.
pub(super) fn receiving_channels(device: &str) -> io::Result<(usize, usize)> {
    // struct ethtool_channels: command, four maxima, then receiving, sending, other and combined channels.
    let mut channels = buffer(&[GCHANNELS], 36);
    // SAFETY: nine words of four octets are all of the struct.
    unsafe { call(device, &mut channels)? };
    let word = |index: usize| u32_at(&channels, 4 * index).unwrap_or(0) as usize;
    Ok((word(5) + word(8), word(1) + word(4)))
}

/// `UDP_V4_FLOW` and `UDP_V6_FLOW`.
const UDP_FLOWS: [u32; 2] = [0x02, 0x06];
/// `RXH_L4_B_0_1` and `RXH_L4_B_2_3`: both ports.
const BOTH_PORTS: u64 = 1 << 6 | 1 << 7;

/// Whether the receive queue of a UDP datagram depends on its ports, too.
pub(super) fn udp_hash_has_ports(device: &str, ipv6: bool) -> io::Result<bool> {
    // struct ethtool_rxnfc has fewer than 256 octets: command, flow type, fields (64 bits), and more that is
    // not used here.
    let mut fields = buffer(&[GRXFH, UDP_FLOWS[usize::from(ipv6)]], 256);
    // SAFETY: the struct fits.
    unsafe { call(device, &mut fields)? };
    Ok(u64_at(&fields, 8).unwrap_or(0) & BOTH_PORTS == BOTH_PORTS)
}

/// The names of a set.
fn names(device: &str, set: u32) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, and a count for each of its bits.
    let mut info = buffer(&[GSSET_INFO, 0], 20);
    info[8..16].copy_from_slice(&(1u64 << set).to_ne_bytes());
    // SAFETY: one bit in the mask, so one count is written at most.
    unsafe { call(device, &mut info)? };
    let known = u64_at(&info, 8).unwrap_or(0) != 0;
    let count = if known { u32_at(&info, 16).unwrap_or(0) as usize } else { 0 };
    if count == 0 || count > NAMES_MAX {
        return Ok(Vec::new());
    }
    // struct ethtool_gstrings: command, set, count, names.
    let mut strings = buffer(&[GSTRINGS, set, count as u32], 12 + (2 * count + SLACK) * NAME_OCTETS);
    // SAFETY: as many names as the driver has are written: room for twice as many as it just had, and more.
    unsafe { call(device, &mut strings)? };
    let count = count.min(u32_at(&strings, 8).unwrap_or(0) as usize);
    Ok(strings[12..].chunks_exact(NAME_OCTETS).take(count).map(text).collect())
}

/// The driver's counters. Empty where it has none.
pub(super) fn statistics(device: &str) -> io::Result<Vec<(String, u64)>> {
    let names = names(device, SET_STATISTICS)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // struct ethtool_stats: command, count, values of 64 bits.
    let mut values = buffer(&[GSTATS, names.len() as u32], 8 + (2 * names.len() + SLACK) * 8);
    // SAFETY: as above, for the values.
    unsafe { call(device, &mut values)? };
    let values = values[8..].chunks_exact(8).map(|value| u64_at(value, 0).unwrap_or(0));
    Ok(names.into_iter().zip(values).collect())
}

/// A feature of a device.
struct Feature {
    name: String,
    is_changeable: bool,
    is_active: bool,
}

/// The features in the order of their bits.
fn features(device: &str) -> io::Result<Vec<Feature>> {
    let names = names(device, SET_FEATURES)?;
    let blocks = names.len().div_ceil(BLOCK_BITS);
    // struct ethtool_gfeatures: command, number of blocks, blocks of four words: available, requested,
    // active, fixed.
    let mut words = buffer(&[GFEATURES, blocks as u32], 8 + blocks * 16);
    // SAFETY: no more blocks are written than the buffer says it has.
    unsafe { call(device, &mut words)? };
    let is_set = |bit: usize, word: usize| {
        let block = u32_at(&words, 8 + bit / BLOCK_BITS * 16 + 4 * word).unwrap_or(0);
        block >> (bit % BLOCK_BITS) & 1 != 0
    };
    let feature = |(bit, name)| Feature { name, is_changeable: is_set(bit, 0), is_active: is_set(bit, 2) };
    Ok(names.into_iter().enumerate().map(feature).collect())
}

/// The names of the features that are on.
pub(super) fn active_features(device: &str) -> io::Result<Vec<String>> {
    let active = features(device)?.into_iter().filter(|feature| feature.is_active);
    Ok(active.map(|feature| feature.name).collect())
}

/// Switches all features on or off whose names are meant, and that can be switched.
pub(super) fn set_features(device: &str, is_meant: impl Fn(&str) -> bool, on: bool) -> io::Result<()> {
    let all = features(device)?;
    let blocks = all.len().div_ceil(BLOCK_BITS);
    // struct ethtool_sfeatures: command, number of blocks, blocks of two words: valid, requested.
    let mut words = vec![0; 2 + 2 * blocks];
    (words[0], words[1]) = (SFEATURES, blocks as u32);
    for (bit, feature) in all.iter().enumerate() {
        if feature.is_changeable && is_meant(&feature.name) {
            let (valid, mask) = (2 + bit / BLOCK_BITS * 2, 1 << (bit % BLOCK_BITS));
            words[valid] |= mask;
            words[valid + 1] |= if on { mask } else { 0 };
        }
    }
    let mut request = buffer(&words, 4 * words.len());
    // SAFETY: the kernel reads as many blocks as the buffer says it has, and writes nothing.
    unsafe { call(device, &mut request) }
}

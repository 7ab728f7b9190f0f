//! A capture, converted to a compact file, that is replayed over UDP faster and faster while it is read from
//! disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use dns64::names::{self, LABEL_LENGTH};
use figures::tester::Replayed;
use serde_json::Value;

use crate::place::{Placement, Target};
use crate::tools::unreadable;

/// The rate of the capture in q/s, and its clients.
const CAPTURED_QPS: u64 = 100_000;
const CLIENTS: u32 = 1000;
/// So many times as fast it is replayed.
const SPEEDS: [u64; 7] = [1, 2, 3, 4, 5, 7, 10];
/// Length of a run in seconds.
const RUN_S: u64 = 2;
/// The back-ends.
const IOS: [&str; 1] = ["xdp"];

/// Replays against the reflector in the kernel, all speeds in turn.
///
/// # Errors
/// No privileges, no room, or the Measurer says nothing that can be read.
pub fn measure(rounds: usize) -> io::Result<Vec<Replayed>> {
    let place = Placement::with_queues()?;
    let file = converted(&place)?;
    let _server = place.serve(Target::Xdp)?;
    let lanes_max = sys::cpu::available().len() as u64;
    let mut rows = Vec::new();
    for io in IOS {
        for lanes in 1..=lanes_max {
            rows.extend(SPEEDS.map(|speed| {
                let rate_qps = speed * CAPTURED_QPS;
                Replayed { io: io.into(), lanes, clients: CLIENTS.into(), rate_qps, ..Replayed::default() }
            }));
        }
    }
    for round in 1..=rounds {
        for row in &mut rows {
            replay(&place, &file, row)?;
            eprintln!("round {round}: {row:?}");
        }
    }
    Ok(rows)
}

fn replay(place: &Placement, file: &Path, row: &mut Replayed) -> io::Result<()> {
    let mut command = place.command_on_all(env!("CARGO_BIN_EXE_sextant"));
    let (server, speed) = (place.server.to_string(), row.rate_qps / CAPTURED_QPS);
    command.args(["trial", "--json", "--server", &server, "--io", &row.io, "--timeout", "1"]);
    command.args(["--threads", &row.lanes.to_string(), "--speed", &speed.to_string()]);
    command.args(["--duration", &RUN_S.to_string(), "--input"]).arg(file);
    let output = command.output()?;
    let trial: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let number = |at: &str| trial.pointer(at).and_then(Value::as_f64);
    let numbers = ["/schedule_error_ns/p999", "/scheduled", "/sent", "/valid"].map(number);
    let [Some(late_ns), Some(scheduled), Some(sent), Some(valid)] = numbers else {
        return Err(unreadable("sextant", &output));
    };
    row.late_p999_us.push(late_ns / 1e3);
    row.sent_pct.push(sent / scheduled * 100.0);
    row.answered_pct.push(valid / scheduled * 100.0);
    Ok(())
}

/// The compact file of a capture.
fn converted(place: &Placement) -> io::Result<PathBuf> {
    let (capture, file) = (place.scratch("capture.pcap"), place.scratch("capture.sxt"));
    write_capture(&capture)?;
    let output =
        Command::new(env!("CARGO_BIN_EXE_sextant")).arg("convert").args([&capture, &file]).output()?;
    std::fs::remove_file(&capture)?;
    if output.status.success() { Ok(file) } else { Err(unreadable("sextant convert", &output)) }
}

/// A capture (pcap, times in ns) of raw IPv4, long enough for the highest speed: the clients ask in turn.
fn write_capture(path: &Path) -> io::Result<()> {
    const LINK_TYPE_RAW: u32 = 101;
    let mut out = BufWriter::new(File::create(path)?);
    for number in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 0x0004_0000, LINK_TYPE_RAW] {
        out.write_all(&u32::to_le_bytes(number))?;
    }
    let queries = SPEEDS.iter().max().unwrap_or(&1) * CAPTURED_QPS * RUN_S;
    for number in 0..queries as u32 {
        let at_ns = u64::from(number) * 1_000_000_000 / CAPTURED_QPS;
        let packet = packet(number);
        let length = packet.len() as u32;
        for number in [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, length, length] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(&packet)?;
    }
    out.flush()
}

/// A query over UDP for a name of its own.
fn packet(number: u32) -> Vec<u8> {
    let mut label = [0; LABEL_LENGTH];
    names::write_label(Ipv4Addr::from_bits(0x0a00_0000 + number), &mut label);
    let id = (number as u16).to_be_bytes();
    let header = [id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, LABEL_LENGTH as u8];
    let message = [&header[..], &label, b"\x09dns64perf\x04test\0\0\x1c\0\x01"].concat();
    let client = Ipv4Addr::from_bits(0xc612_0000 + number % CLIENTS).octets();
    let mut packet = vec![0x45, 0];
    packet.extend((28 + message.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(client);
    packet.extend([192, 0, 2, 1]);
    for number in [40_000, 53, 8 + message.len() as u16, 0] {
        packet.extend(u16::to_be_bytes(number));
    }
    packet.extend(message);
    packet
}

use std::io::Cursor;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use capture::LeftOut;
use capture::compact::Writer;
use engine::pacer::{Model, Schedule};
use engine::workload::Stamp;

use super::*;

/// A query whose ID is its number.
fn message(n: u16) -> Vec<u8> {
    let [high, low] = n.to_be_bytes();
    let mut message = vec![high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend(b"\x01a\x04test\0\0\x1c\0\x01");
    message
}

/// A recording of queries one ms apart, in turn from so many clients.
fn recording(queries: u16, clients: u32) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    for n in 0..queries {
        writer.push(7_000_000_000 + u64::from(n) * 1_000_000, u32::from(n) % clients, &message(n)).unwrap();
    }
    writer.finish(LeftOut::default()).unwrap().1.into_inner()
}

fn file(octets: &[u8]) -> (tempfile::NamedTempFile, Source) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), octets).unwrap();
    let path = file.path().to_path_buf();
    (file, Source { path, speed: 1.0, duration_ns: u64::MAX, clients: None, seed: 1, strict: false })
}

/// The stamp and the ID of each query of a lane.
fn take(recording: &Recording, lanes: u64) -> Vec<Vec<(Stamp, u16)>> {
    let Recording::Stream(feeds) = recording else { panic!("recordings are streamed") };
    let mut feeds: Vec<_> = (0..lanes).map(|lane| feeds.open(lane, lanes)).collect();
    let mut taken: Vec<Vec<_>> = vec![Vec::new(); feeds.len()];
    let (mut over, started) = (0, Instant::now());
    while over < feeds.len() && started.elapsed() < Duration::from_secs(30) {
        over = 0;
        for (feed, taken) in feeds.iter_mut().zip(&mut taken) {
            if feed.ready() > 0 {
                let stamp = feed.stamp(0).unwrap();
                let query = feed.next().unwrap();
                taken.push((stamp, u16::from_be_bytes([query[0], query[1]])));
            } else if feed.ended().is_some() {
                over += 1;
            }
        }
    }
    taken
}

#[test]
fn every_lane_gets_the_queries_of_its_clients_in_order() {
    let (_file, source) = file(&recording(5000, 7));
    for lanes in [1, 2, 3] {
        let loaded = load(&source).unwrap();
        assert_eq!((loaded.told.recorded_queries, loaded.told.clients), (5000, 7));
        for _ in 0..2 {
            let taken = take(&loaded.recording, lanes);
            assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 5000);
            for (lane, queries) in (0..).zip(&taken) {
                assert!(queries.is_sorted_by_key(|(_, id)| *id));
                for (stamp, id) in queries {
                    assert_eq!(stamp.after_ns, u64::from(*id) * 1_000_000);
                    assert_eq!(Recorded::place(u32::from(*id) % 7, lanes), (lane, stamp.socket));
                }
            }
        }
    }
}

#[test]
fn speed_duration_and_clients_cut_what_is_asked() {
    let (_file, source) = file(&recording(1000, 10));
    let source = Source { speed: 2.0, duration_ns: 100_000_000, clients: Some(3), ..source };
    let loaded = load(&source).unwrap();
    let schedule = Schedule::with_model(0, 1, u64::MAX, Model::Recorded(loaded.recorded));
    // 200 of the queries are due within 100 ms, and 3 of 10 clients ask.
    assert_eq!((loaded.told.clients, schedule.queries), (3, 60));
    let taken = take(&loaded.recording, 1).remove(0);
    assert_eq!(taken.len(), 60);
    assert!(taken.iter().all(|(stamp, id)| stamp.after_ns == u64::from(*id) * 500_000));
    let others = load(&Source { seed: 2, ..source.clone() }).unwrap();
    assert_ne!(take(&others.recording, 1).remove(0), taken, "another seed draws other clients");
    let nobody = load(&Source { duration_ns: 0, ..source }).unwrap_err().to_string();
    assert!(nobody.contains("no query is due within the trial"), "{nobody}");
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let whole = recording(10, 2);
    let mut unaskable = whole.clone();
    let at = whole.windows(4).rposition(|window| window == b"test").unwrap();
    unaskable[at - 1] = 0xc0;
    for (octets, reason) in [
        (&whole[..whole.len() - 1], "the file is cut off: it ends after query 9 of 10"),
        (&unaskable[..], "query 10: the message has not exactly one question"),
        (b"www.example.com A\n", "no pcap or pcapng file"),
        (b"", "the file is empty"),
    ] {
        let (_file, source) = file(octets);
        let error = load(&source).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(source.path.to_str().unwrap()), "{error}");
    }
    let (_file, source) = file(&whole);
    let missing = Source { path: PathBuf::from("/nonexistent/capture"), ..source.clone() };
    assert!(load(&missing).unwrap_err().to_string().contains("cannot read queries from /nonexistent"));
    assert!(is_recording(&source.path).unwrap());
    let loaded = load(&source).unwrap();
    std::fs::write(&source.path, recording(11, 2)).unwrap();
    let Recording::Stream(feeds) = &loaded.recording else { panic!("recordings are streamed") };
    let (mut feed, started) = (feeds.open(0, 1), Instant::now());
    while feed.ended().is_none() && started.elapsed() < Duration::from_secs(30) {
        while feed.ready() > 0 {
            feed.next();
        }
    }
    assert!(feed.ended().unwrap().contains("changed while it was read"));
}

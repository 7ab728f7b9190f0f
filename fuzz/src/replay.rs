//! Any octets as a compact file of `sextant convert`, or as a capture, that is to be replayed: the queries of
//! the schedule come to the lanes of their clients, or there is one line of error.
//!
//! An input is an octet that chooses speed, lanes and a cut of the clients, and the file.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use engine::pacer::{Model, Schedule};
use engine::workload::question::check_request;
use engine::workload::{Feed, Recording};
use measurer::replay::{Loaded, Source, is_recording, load};
use tempfile::TempDir;

use super::input::Input;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

const DURATION_NS: u64 = 1_000_000_000;
/// The thread that reads the file takes no longer.
const PATIENCE: Duration = Duration::from_secs(8);

/// Replays the file.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.octet();
    let path: PathBuf = DIRECTORY.path().join("recording");
    fs::write(&path, input.0).expect("room in a file");
    is_recording(&path).expect("a file");
    let source = Source {
        path,
        speed: [1.0, 0.001, 1000.0, 0.3][usize::from(choice & 3)],
        duration_ns: DURATION_NS,
        clients: (choice & 4 != 0).then_some(2),
        seed: 1,
        strict: choice & 8 != 0,
    };
    match load(&source) {
        Ok(loaded) => check(&loaded, u64::from(choice >> 4 & 3) + 1),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error:?}"),
    }
}

/// Every query that was counted comes, in the order of the times, and within the trial.
fn check(loaded: &Loaded, lanes: u64) {
    let schedule = Schedule::with_model(0, 1, DURATION_NS, Model::Recorded(loaded.recorded));
    let Recording::Stream(feeds) = &loaded.recording else { panic!("recordings are streamed") };
    let sockets = loaded.recorded.sockets(lanes) / lanes;
    let feeds: Vec<_> = (0..lanes).map(|lane| feeds.open(lane, lanes)).collect();
    let taken: u64 = feeds.into_iter().map(|mut feed| take(feed.as_mut(), sockets)).sum();
    assert_eq!(taken, schedule.queries);
    assert!(loaded.told.clients <= taken && loaded.told.clients <= loaded.told.recorded_clients);
}

fn take(feed: &mut dyn Feed, sockets: u64) -> u64 {
    let (mut taken, mut last_ns, began) = (0, 0, Instant::now());
    loop {
        if feed.ready() > 0 {
            let stamp = feed.stamp(0).expect("a recorded query");
            assert!((last_ns..DURATION_NS).contains(&stamp.after_ns) && u64::from(stamp.socket) < sockets);
            assert_eq!(check_request(feed.next().expect("a query that is ready")), Ok(()));
            (taken, last_ns) = (taken + 1, stamp.after_ns);
        } else if feed.ended().is_some() {
            return taken;
        }
        assert!(began.elapsed() < PATIENCE, "the recording does not end");
    }
}

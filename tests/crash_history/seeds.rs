//! The seeds of the fuzz targets, each through the function that its target runs.

use std::path::{Path, PathBuf};

use crate::histories::{History, Step, histories, parts};
use crate::targets::dns64d::Operation;
use crate::targets::{
    answer, capture, config, control, cost, dns64d, evidence, exchange, http3_session, https_request,
    https_session, import, lane, records, replay, sessions, zone,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");
/// Set it to write the seeds that come from the histories again.
const RENEW: &str = "RENEW_SEEDS";

/// Runs a target with its seeds, of which there must be some.
fn replay_seeds(target: &str, run: fn(&[u8])) {
    let seeds = std::fs::read_dir(Path::new(ROOT).join(target)).unwrap();
    let seeds: Vec<PathBuf> = seeds.map(|entry| entry.unwrap().path()).collect();
    assert!(!seeds.is_empty(), "{target} has seeds");
    for seed in seeds {
        let octets = std::fs::read(&seed).unwrap();
        // The test's output says which one it was.
        println!("{}", seed.display());
        run(&octets);
    }
}

#[test]
fn answer_takes_its_seeds() {
    replay_seeds("answer", answer::run);
}

#[test]
fn capture_takes_its_seeds() {
    replay_seeds("capture", capture::run);
}

#[test]
fn config_takes_its_seeds() {
    replay_seeds("config", config::run);
    config::run(daemon::config::sample().as_bytes());
}

#[test]
fn control_takes_its_seeds() {
    replay_seeds("control", control::run);
}

#[test]
fn cost_takes_its_seeds() {
    replay_seeds("cost", cost::run);
}

#[test]
fn dns64d_takes_its_seeds() {
    replay_seeds("dns64d", dns64d::run);
}

#[test]
fn dns64d_takes_its_seeds_with_any_settings() {
    for history in histories() {
        for choice in 0..=u8::MAX {
            let mut seed = conversation(&history);
            seed[0] = choice;
            dns64d::run(&seed);
        }
    }
}

#[test]
fn evidence_takes_its_seeds() {
    replay_seeds("evidence", evidence::run);
}

#[test]
fn exchange_takes_its_seeds() {
    replay_seeds("exchange", exchange::run);
}

#[test]
fn https_request_takes_its_seeds() {
    replay_seeds("https_request", https_request::run);
}

#[test]
fn http3_session_takes_its_seeds() {
    replay_seeds("http3_session", http3_session::run);
}

#[test]
fn https_session_takes_its_seeds() {
    replay_seeds("https_session", https_session::run);
}

#[test]
fn import_takes_its_seeds() {
    replay_seeds("import", import::run);
}

#[test]
fn lane_takes_its_seeds() {
    replay_seeds("lane", lane::run);
}

#[test]
fn records_takes_its_seeds() {
    replay_seeds("records", records::run);
}

#[test]
fn replay_takes_its_seeds() {
    replay_seeds("replay", replay::run);
}

#[test]
fn sessions_takes_its_seeds() {
    replay_seeds("sessions", sessions::run);
}

#[test]
fn zone_takes_its_seeds() {
    replay_seeds("zone", zone::run);
}

#[test]
fn the_histories_are_among_the_seeds() {
    for history in histories() {
        keep("dns64d", history.name.to_owned(), &conversation(&history));
        let replies = history.steps.iter().filter_map(|step| match step {
            Step::Told { reply, .. } => Some(reply),
            _ => None,
        });
        for (number, reply) in replies.enumerate() {
            // Settings as they are by default, the room of 1232 octets.
            let seed = [&[0, 0x04, 0xd0], &reply[..]].concat();
            keep("records", format!("{}-{number}", history.name), &seed);
        }
    }
}

/// Compares a seed with its file, or writes it.
fn keep(target: &str, name: String, seed: &[u8]) {
    let path = Path::new(ROOT).join(target).join(name);
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, seed).unwrap();
    }
    let found = std::fs::read(&path).unwrap_or_default();
    assert!(found == seed, "{} is not what the history says; renew it with {RENEW}=1", path.display());
}

/// A history as an input of the target `dns64d`.
fn conversation(history: &History) -> Vec<u8> {
    let mut seed = vec![0];
    for step in &history.steps {
        let operation = match step {
            Step::Ask(octets) => Operation::Client { kind: 0, octets },
            Step::Told { reply, .. } => {
                let (flags, counts, records) = parts(reply);
                Operation::Reply { query: 0, flags, counts, records }
            }
            // Units of 10 ms: longer than a client waits for a fresh answer.
            Step::Silence => Operation::Wait { units: 200 },
            Step::Wait { seconds } => Operation::Wait { units: seconds * 100 },
            Step::Answer { .. } => continue,
        };
        operation.encode(&mut seed);
    }
    seed
}

//! Losses of the Measurer's own sockets, and sources it cannot have.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::responder::Responder;
use super::running::{alone, command, sextant, stderr};
use super::tried::{Measurer, options, trial};

#[test]
fn answers_that_do_not_fit_the_own_socket_void_the_trial() {
    let _alone = alone();
    let measurer = Measurer::default();
    let stopped = measurer.clone();
    let mut held = Vec::new();
    let server = Responder::start("127.0.0.1:0", move |stage, query| {
        if !(100..400).contains(&query.number) {
            return stage.send(&query.answer(), query.from);
        }
        held.push((query.answer(), query.from));
        if query.number == 399 {
            stopped.while_stopped(|| held.drain(..).for_each(|(answer, to)| stage.send(&answer, to)));
        }
    });
    let address = server.address.to_string();
    let mut arguments = options(&address, "1000", "0.5");
    arguments.extend(["--ports", "1", "--receive-buffer", "8192"]);
    let tried = measurer.run(command(&arguments));
    let dropped = tried.lost_at("own_socket_drop");
    assert!((200..300).contains(&dropped), "{}", tried.trial);
    tried.expect_losses(&[("own_socket_drop", tried.number("scheduled") - tried.number("valid"))]);
    tried.expect_void(&format!("dropped {dropped} answers at its own sockets"));
}

#[test]
fn queries_come_from_the_sources_that_were_told() {
    let _alone = alone();
    let seen: Arc<Mutex<HashSet<SocketAddr>>> = Arc::default();
    let note = Arc::clone(&seen);
    let server = Responder::start("127.0.0.1:0", move |stage, query| {
        if query.number < 1000 {
            note.lock().unwrap().insert(query.from);
        }
        stage.send(&query.answer(), query.from);
    });
    let sources =
        ["--source", "127.9.0.0/28", "--source-ports", "21000-21009", "--threads", "2", "--ports", "40"];
    let tried = trial(server.address, "1000", "1", &sources);
    assert_eq!(tried.number("valid"), 1000, "{}", tried.trial);
    let seen = seen.lock().unwrap();
    let (addresses, ports): (HashSet<_>, HashSet<_>) =
        seen.iter().map(|from| (from.ip(), from.port())).unzip();
    assert_eq!((seen.len(), addresses.len(), ports.len()), (40, 14, 10), "{seen:?}");
    assert!(ports.iter().all(|port| (21000..21010).contains(port)));
}

#[test]
fn sources_that_cannot_be_had_are_refused_with_what_to_do() {
    let _alone = alone();
    let server = Responder::start("127.0.0.1:0", |stage, query| stage.send(&query.answer(), query.from));
    let address = server.address.to_string();
    let taken = server.address.port().to_string();
    for (more, code, reason) in [
        (vec!["--source", "192.0.2.0/24"], 3, "ip route add local 192.0.2.0/24 dev lo"),
        (vec!["--source", "2001:db8::1"], 3, "another address family"),
        (vec!["--source", "127.0.0.1", "--source-ports", taken.as_str()], 3, "choose other source ports"),
        (vec!["--source-ports", "21000-21009", "--ports", "11"], 2, "11 sockets need as many sources"),
        (vec!["--io", "gso"], 3, "--allow-unsegmented"),
    ] {
        let output = sextant(&[&options(&address, "100", "0.5")[..], &more].concat());
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "'{reason}' is missing in: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    let limited = format!(
        "ulimit -n 300 && exec {} {} --ports 500",
        env!("CARGO_BIN_EXE_sextant"),
        options(&address, "100", "0.5").join(" ")
    );
    let output = Command::new("sh").args(["-c", &limited]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("ulimit -n 628"), "{}", stderr(&output));
}

#[test]
fn joined_queries_over_loopback_are_marked() {
    let _alone = alone();
    let server = Responder::start("[::1]:0", |stage, query| stage.send(&query.answer(), query.from));
    let tried = trial(server.address, "20000", "0.2", &["--io", "gso", "--allow-unsegmented"]);
    assert_eq!(tried.trial["io"], "gso (unsegmented)");
    // A server on a busy machine may be too slow; then its socket tells.
    let taken = server.received() + tried.lost_at("server_socket_drop");
    assert_eq!((tried.number("sent"), taken), (4000, 4000), "{}", tried.trial);
}

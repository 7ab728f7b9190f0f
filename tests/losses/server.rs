//! Losses at the server, and its wrong answers.

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::SockRef;

use super::responder::{Query, Responder, Stage};
use super::running::alone;
use super::tried::trial;

/// The number of queries of a trial of a second.
const QUERIES: u64 = 1000;

#[test]
fn a_server_that_skips_queries_is_silent() {
    let _alone = alone();
    let server = Responder::start("[::1]:0", |stage, query| {
        if query.number % 7 != 3 {
            stage.send(&query.answer(), query.from);
        }
    });
    let tried = trial(server.address, "1000", "1", &[]);
    let skipped = (0..QUERIES).filter(|number| number % 7 == 3).count() as u64;
    tried.expect_losses(&[("server_silent", skipped)]);
    tried.expect_fail();
    assert_eq!(server.received(), QUERIES);
}

#[test]
fn answers_after_the_timeout_are_late() {
    let _alone = alone();
    let server = Responder::start("127.0.0.1:0", |stage, query| {
        let late = u64::from(query.number) < QUERIES && query.number % 5 == 0;
        let delay = if late { Duration::from_millis(500) } else { Duration::ZERO };
        stage.send_after(delay, query.answer(), query.from);
    });
    let tried = trial(server.address, "1000", "1", &["--timeout", "0.3"]);
    tried.expect_losses(&[("late", QUERIES / 5)]);
    assert_eq!((tried.number("late"), tried.number("lost")), (QUERIES / 5, 0));
    tried.expect_fail();
}

#[test]
fn a_server_that_stops_reading_loses_at_its_socket() {
    let _alone = alone();
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    SockRef::from(&socket).set_recv_buffer_size(16_384).unwrap();
    let server = Responder::on(socket, |stage, query| {
        if query.number == 200 {
            std::thread::sleep(Duration::from_millis(300));
        }
        stage.send(&query.answer(), query.from);
    });
    let tried = trial(server.address, "1000", "1", &[]);
    let dropped = QUERIES - server.received();
    assert!(dropped > 50, "{dropped}");
    tried.expect_losses(&[("server_socket_drop", dropped)]);
    assert_eq!(tried.trial["observation"]["dut_socket_drops"], dropped);
    tried.expect_fail();
}

/// One kind of wrong answer for each last digit of the query's number; 9 is answered rightly.
struct Wrong {
    others: HashSet<SocketAddr>,
}

impl Wrong {
    fn reply(&mut self, stage: &Stage, query: &Query) {
        let right = query.answer();
        let to = query.from;
        if u64::from(query.number) >= QUERIES {
            return stage.send(&right, to);
        }
        self.others.insert(to);
        let other = self.others.iter().find(|other| **other != to);
        match query.number % 10 {
            0 => stage.send(&query.empty(2), to),
            1 => stage.send(&changed(&right, 2, |flags| flags | 0x02), to),
            2 => stage.send(&changed(&right, right.len() - 13, |octet| octet ^ 1), to),
            3 => stage.send(&query.empty(0), to),
            4 => stage.send(&right[..right.len() - 3], to),
            5 => stage.send(&changed(&right, 1, |id| id ^ 1), to),
            6 => stage.send(&changed(&right, right.len() - 40, |letter| letter ^ 1), to),
            7 => other.iter().for_each(|other| stage.send(&right, **other)),
            8 => (0..3).for_each(|_| stage.send(&right, to)),
            _ => stage.send(&right, to),
        }
    }
}

fn changed(octets: &[u8], at: usize, change: impl FnOnce(u8) -> u8) -> Vec<u8> {
    let mut octets = octets.to_vec();
    octets[at] = change(octets[at]);
    octets
}

#[test]
fn every_wrong_answer_has_its_name() {
    let _alone = alone();
    let mut wrong = Wrong { others: HashSet::new() };
    let server = Responder::start("[::1]:0", move |stage, query| wrong.reply(stage, query));
    let tried = trial(server.address, "1000", "1", &["--ports", "4"]);
    let each = QUERIES / 10;
    tried.expect_losses(&[("server_silent", 3 * each), ("wrong_answer", 5 * each)]);
    let reasons = tried.trial["invalid_reasons"].as_object().unwrap();
    let names: Vec<&str> = reasons.keys().map(|name| name.split(" (first").next().unwrap()).collect();
    assert_eq!(names, ["SERVFAIL", "malformed", "no AAAA record", "truncated (TC)", "wrong address"]);
    assert!(reasons.values().all(|count| *count == each), "{reasons:?}");
    assert_eq!((tried.number("valid"), tried.number("duplicates")), (2 * each, 2 * each));
    assert_eq!(tried.number("unexpected"), 3 * each);
    let others = serde_json::json!({ "wrong ID": each, "wrong question": each, "wrong socket": each });
    assert_eq!(tried.trial["unexpected_reasons"], others);
    tried.expect_fail();
}

#[test]
fn a_server_that_goes_away_is_not_the_testers_fault() {
    let _alone = alone();
    let (port, end) = std::sync::mpsc::channel();
    let server = Responder::start("127.0.0.1:0", move |stage, query| {
        stage.send(&query.answer(), query.from);
        if query.number == 400 {
            // The port is closed when this socket, the last one, is dropped.
            let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
            elsewhere.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            stage.socket = elsewhere;
            port.send(()).unwrap();
        }
    });
    let tried = trial(server.address, "1000", "1", &[]);
    end.try_recv().unwrap();
    assert_eq!(tried.lost_at("own_send_error"), 0, "{}", tried.trial);
    tried.expect_losses(&[("server_silent", QUERIES - tried.number("valid"))]);
    assert!((400..=402).contains(&tried.number("valid")), "{}", tried.trial);
    assert!(tried.number("icmp_errors") > 100, "{}", tried.trial);
    tried.expect_fail();
}

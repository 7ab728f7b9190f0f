//! Views: what each client network is given.

use dns64::Range;
use dns64::rule::{Mapping, PrefixChoice};
use dns64::wire::{Name, rcode};
use server_core::Settings;
use server_core::client::Client;
use server_core::settings::View;

use crate::support::{lines, query};
use crate::talk::{Talk, extended_errors, policy, settings, settings_with, udp_client};
use crate::{A, A_RECORD, AAAA, AAAA_RECORD, SOA, SYNTHESIZED};

/// A client of 10.0.0.0/8.
fn neighbour() -> Client {
    Client { address: "10.1.2.3:53".parse().unwrap(), ..udp_client() }
}

/// With a view for the clients of 10.0.0.0/8 before the one for all.
fn two_views(change: impl FnOnce(&mut View)) -> Settings {
    settings_with(|settings| {
        let mut view = View { clients: vec![Range::v4([10, 0, 0, 0].into(), 8)], ..View::default() };
        view.rule.as_mut().unwrap().prefixes = vec!["2001:db8:65::/96".parse().unwrap()];
        change(&mut view);
        settings.views.insert(0, view);
    })
}

/// The answer to AAAA for a client.
fn answer_to(talk: &mut Talk, client: Client) -> Vec<String> {
    talk.sends(client, &query(0x1234, AAAA, None));
    lines(&talk.answer())
}

/// Lets a machine learn the denial and the address, by a client of the last view.
fn learned(settings: Settings) -> Talk {
    let mut talk = Talk::with_cache(settings);
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk
}

#[test]
fn one_entry_serves_all_views() {
    let mut talk = learned(two_views(|_| {}));
    let other = "an www.example.com 30 AAAA 2001:db8:65::c000:201";
    assert_eq!(answer_to(&mut talk, neighbour()), [other]);
    talk.over();
    assert_eq!(talk.machine.stats().upstream_queries, 2);
}

#[test]
fn a_view_without_rule_gets_what_the_server_said() {
    let mut talk = learned(two_views(|view| view.rule = None));
    assert_eq!(answer_to(&mut talk, neighbour()), ["ns example.com 30 SOA 30"]);
    talk.over();
    assert_eq!(talk.machine.stats().passed_policy, 1);
}

#[test]
fn views_share_lookups_in_flight() {
    let mut talk = Talk::new(two_views(|view| view.rule = None));
    talk.client_asks(AAAA);
    talk.sends(neighbour(), &query(0x1234, AAAA, None));
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.answered(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED]);
    talk.over();
}

#[test]
fn a_view_may_be_of_a_listener() {
    let mut talk = learned(two_views(|view| (view.clients, view.listeners) = (vec![], vec![3])));
    let there = Client { listener: 3, ..udp_client() };
    let other = "an www.example.com 30 AAAA 2001:db8:65::c000:201";
    assert_eq!(answer_to(&mut talk, there), [other]);
    assert_eq!(answer_to(&mut talk, neighbour()), [SYNTHESIZED]);
    talk.over();
}

#[test]
fn a_mapped_ipv4_address_is_of_its_ipv4_network() {
    let mut talk = learned(two_views(|_| {}));
    let mapped = Client { address: "[::ffff:10.1.2.3]:53".parse().unwrap(), ..udp_client() };
    assert_eq!(answer_to(&mut talk, mapped), ["an www.example.com 30 AAAA 2001:db8:65::c000:201"]);
    talk.over();
}

#[test]
fn below_some_domains_nothing_is_synthesized() {
    let never = [Name::from_text("Example.com").unwrap()].into_iter().collect();
    let mut talk = Talk::new(settings_with(|settings| settings.views[0].never = never));
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.answered(AAAA, 0, &[SOA]);
    let elsewhere = "www.example.org AAAA";
    talk.client_asks(elsewhere);
    talk.asked_and_told(elsewhere, 0, &[]);
    talk.asked("www.example.org A");
}

#[test]
fn below_some_domains_native_addresses_count_as_absent() {
    let always: server_core::domains::Domains =
        [Name::from_text("example.com").unwrap()].into_iter().collect();
    let mut talk = Talk::new(settings_with(|settings| settings.views[0].always = always));
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[AAAA_RECORD]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &["an www.example.com 300 AAAA 2001:db8:64::c000:201"]);
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, rcode::NXDOMAIN, &[SOA]);
    talk.answered(AAAA, rcode::NXDOMAIN, &[SOA]);
    talk.over();
}

fn two_prefixes(spread: PrefixChoice) -> Settings {
    let mut settings = settings();
    policy(&mut settings).prefixes.push("2001:db8:65::/96".parse().unwrap());
    policy(&mut settings).spread = spread;
    settings
}

#[test]
fn all_prefixes_are_given() {
    let mut talk = Talk::new(two_prefixes(PrefixChoice::All));
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD]);
    talk.answered(AAAA, 0, &[SYNTHESIZED, "an www.example.com 30 AAAA 2001:db8:65::c000:201"]);
    talk.over();
}

#[test]
fn prefixes_rotate_with_each_query() {
    let mut talk = Talk::with_cache(two_prefixes(PrefixChoice::Rotated));
    let mut given = Vec::new();
    for round in 0..4 {
        talk.client_asks(AAAA);
        if round == 0 {
            talk.asked_and_told(AAAA, 0, &[SOA]);
            talk.asked_and_told(A, 0, &[A_RECORD]);
        }
        given.extend(lines(&talk.answer()));
    }
    assert_eq!(given.len(), 4, "one at a time");
    assert_ne!(given[0], given[1]);
    assert_eq!((&given[0], &given[1]), (&given[2], &given[3]));
    talk.over();
}

#[test]
fn an_ipv4_range_has_its_prefix_or_none() {
    let mut settings = settings();
    policy(&mut settings).mappings = vec![
        Mapping {
            range: Range::v4([192, 0, 2, 0].into(), 24),
            prefix: Some("2001:db8:66::/96".parse().unwrap()),
        },
        Mapping { range: Range::v4([192, 0, 2, 128].into(), 25), prefix: None },
    ];
    let mut talk = Talk::new(settings);
    talk.client_asks(AAAA);
    talk.asked_and_told(AAAA, 0, &[SOA]);
    talk.asked_and_told(A, 0, &[A_RECORD, "an www.example.com 300 A 192.0.2.129"]);
    talk.answered(AAAA, 0, &["an www.example.com 30 AAAA 2001:db8:66::c000:201"]);
    talk.over();
}

#[test]
fn what_is_synthesized_says_so() {
    for explains in [true, false] {
        let mut talk = learned(settings_with(|settings| settings.extended_errors = explains));
        talk.client_sends(&query(0x1234, AAAA, Some((1232, false))));
        let expected: &[u16] = if explains { &[29] } else { &[] };
        assert_eq!(extended_errors(&talk.answer()), expected);
        talk.client_sends(&query(0x1234, A, Some((1232, false))));
        assert!(extended_errors(&talk.answer()).is_empty());
        talk.over();
    }
}

/// A denial that is secure leads to A; a client that validates itself is left alone (RFC 6147 5.5).
#[test]
fn do_and_cd_decide_who_validates() {
    for (dnssec_ok, cd, synthesize_with_cd, synthesized) in [
        (false, false, false, true),
        (true, false, false, true),
        (false, true, false, false),
        (false, true, true, true),
        (true, true, true, false),
    ] {
        let mut settings = settings();
        policy(&mut settings).synthesize_with_cd = synthesize_with_cd;
        let mut talk = Talk::new(settings);
        let mut octets = query(0x1234, AAAA, Some((1232, dnssec_ok)));
        octets[3] |= u8::from(cd) << 4;
        talk.client_sends(&octets);
        talk.asked_and_told(AAAA, 0, &[SOA]);
        if synthesized {
            talk.asked_and_told(A, 0, &[A_RECORD]);
        }
        let expected = if synthesized { SYNTHESIZED } else { SOA };
        assert_eq!(lines(&talk.answer()), [expected, "opt 1232"], "DO {dnssec_ok} CD {cd}");
        talk.over();
    }
}

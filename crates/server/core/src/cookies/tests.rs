use dns64::rewrite::append_edns;
use dns64::wire::{CLASS_IN, Edns, Header, Name, Question, Writer, append_option, rtype};
use proptest::prelude::*;

use super::*;

fn octets<const N: usize>(hex: &str) -> [u8; N] {
    assert_eq!(hex.len(), 2 * N);
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
}

fn cookies(secret: &str) -> ServerCookies {
    ServerCookies::new(octets(secret))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const CLIENT: &str = "198.51.100.100";

#[test]
fn rfc_9018_appendix_a_1_a_new_server_cookie() {
    let (ours, client) = (cookies(SECRET), address(CLIENT));
    let asked: [u8; 8] = octets("2464c4abcf10c957");
    assert_eq!(ours.judge(client, &asked, 1_559_731_985), CookieStatus::ClientOnly(asked));
    let expected = octets("2464c4abcf10c957010000005cf79f111f8130c3eee29480");
    assert_eq!(ours.write(asked, client, 1_559_731_985), expected);
    let mapped = address("::ffff:198.51.100.100");
    assert_eq!(ours.write(asked, mapped, 1_559_731_985), expected, "the same client");
}

#[test]
fn rfc_9018_appendix_a_2_the_same_client_has_its_cookie_renewed() {
    let (ours, client) = (cookies(SECRET), address(CLIENT));
    let asked: [u8; 24] = octets("2464c4abcf10c957010000005cf79f111f8130c3eee29480");
    let client_cookie = octets("2464c4abcf10c957");
    assert_eq!(ours.judge(client, &asked, 1_559_734_385), CookieStatus::Good(client_cookie));
    let expected = octets("2464c4abcf10c957010000005cf7a871d4a564a1442aca77");
    assert_eq!(ours.write(client_cookie, client, 1_559_734_385), expected);
}

#[test]
fn rfc_9018_appendix_a_3_reserved_octets_are_hashed_as_they_came() {
    let (ours, client) = (cookies(SECRET), address("203.0.113.203"));
    let asked: [u8; 24] = octets("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5");
    let client_cookie = octets("fc93fc62807ddb86");
    assert_eq!(ours.judge(client, &asked, 0x5cf7_8f71 + 600), CookieStatus::Good(client_cookie));
    let expected = octets("fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e");
    assert_eq!(ours.write(client_cookie, client, 0x5cf7_a9ac), expected);
}

#[test]
fn rfc_9018_appendix_a_4_another_secret_and_ipv6() {
    let client = address("2001:db8:220:1:59de:d0f4:8769:82b8");
    let (old, new) =
        (cookies("dd3bdf9344b678b185a6f5cb60fca715"), cookies("445536bcd2513298075a5d379663c962"));
    let asked: [u8; 24] = octets("22681ab97d52c298010000005cf7c57926556bd0934c72f8");
    let client_cookie = octets("22681ab97d52c298");
    assert_eq!(old.judge(client, &asked, 0x5cf7_c609), CookieStatus::Good(client_cookie));
    assert_eq!(new.judge(client, &asked, 0x5cf7_c609), CookieStatus::Bad(client_cookie));
    let expected = octets("22681ab97d52c298010000005cf7c609a6bb79d16625507a");
    assert_eq!(new.write(client_cookie, client, 0x5cf7_c609), expected);
}

#[test]
fn a_cookie_is_good_for_an_hour_and_for_its_client() {
    let (ours, client, cookie) = (cookies(SECRET), address(CLIENT), [7; 8]);
    for made_s in [1_000_000, 100, u32::MAX - 100] {
        let option = ours.write(cookie, client, made_s);
        for (age_s, good) in [(-301, false), (-300, true), (0, true), (3600, true), (3601, false)] {
            let judged = ours.judge(client, &option, made_s.wrapping_add_signed(age_s));
            assert_eq!(judged == CookieStatus::Good(cookie), good, "made at {made_s}, {age_s} s ago");
        }
        assert_eq!(ours.judge(address("198.51.100.101"), &option, made_s), CookieStatus::Bad(cookie));
        let mut other = option;
        other[8] = 2;
        assert_eq!(ours.judge(client, &other, made_s), CookieStatus::Bad(cookie), "version 2");
    }
}

#[test]
fn lengths_that_no_cookie_has_are_malformed() {
    let (ours, client) = (cookies(SECRET), address(CLIENT));
    for length in 0..=64 {
        let judged = ours.judge(client, &vec![0; length], 0);
        match length {
            8 => assert_eq!(judged, CookieStatus::ClientOnly([0; 8])),
            16..=40 => assert_eq!(judged, CookieStatus::Bad([0; 8])),
            _ => assert_eq!(judged, CookieStatus::Malformed, "{length} octets"),
        }
    }
}

/// A reply with this COOKIE option.
fn reply(option: Option<&[u8]>) -> Vec<u8> {
    let question = Question { name: Name::ROOT, qtype: rtype::A, qclass: CLASS_IN };
    let mut out = vec![0; 512];
    let octets = Writer::new(&mut out, 1, Header::QR, &question).unwrap().finish();
    let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };
    let mut octets = append_edns(&mut out, octets, &edns);
    if let Some(option) = option {
        octets = append_option(&mut out, octets, option_code::COOKIE, option);
    }
    out.truncate(octets);
    out
}

fn accepts(known: &mut UpstreamCookies, option: Option<&[u8]>) -> bool {
    known.accepts(0, &Message::parse(&reply(option)).unwrap())
}

fn written(known: &UpstreamCookies, upstream: usize) -> Vec<u8> {
    let mut out = [0; OPTION_OCTETS_MAX];
    let octets = known.write(upstream, &mut out);
    out[..octets].to_vec()
}

#[test]
fn every_upstream_server_has_a_client_cookie_of_its_own() {
    let known = UpstreamCookies::new(2, [1; 32]);
    let (first, second) = (written(&known, 0), written(&known, 1));
    assert_eq!((first.len(), second.len()), (8, 8));
    assert_ne!(first, second);
    assert_ne!(first, written(&UpstreamCookies::new(2, [2; 32]), 0), "the seed counts");
}

#[test]
fn a_server_without_cookies_is_believed_until_it_sends_one() {
    let mut known = UpstreamCookies::new(2, [1; 32]);
    let ours = written(&known, 0);
    assert!(accepts(&mut known, None));
    assert!(accepts(&mut known, Some(&ours)), "an option sent back");
    assert!(accepts(&mut known, None), "and that has taught us nothing");
    let with_server_cookie = [&ours[..], &[9; 16]].concat();
    assert!(accepts(&mut known, Some(&with_server_cookie)));
    assert_eq!(written(&known, 0), with_server_cookie);
    assert_eq!(written(&known, 1).len(), 8, "another server");
    assert!(!accepts(&mut known, None));
    assert!(!accepts(&mut known, Some(&ours)));
    let renewed = [&ours[..], &[8; 32]].concat();
    assert!(accepts(&mut known, Some(&renewed)));
    assert_eq!(written(&known, 0), renewed);
}

#[test]
fn forged_and_malformed_cookies_are_not_accepted() {
    let mut known = UpstreamCookies::new(1, [1; 32]);
    let ours = written(&known, 0);
    let forged = [&[0; 8][..], &[9; 16]].concat();
    assert!(!accepts(&mut known, Some(&forged)));
    for length in [1, 7, 33] {
        assert!(!accepts(&mut known, Some(&[&ours[..], &vec![9; length]].concat())), "{length} octets");
    }
    assert!(!accepts(&mut known, Some(&ours[..7])) && !accepts(&mut known, Some(&[])));
    assert_eq!(written(&known, 0), ours, "nothing learnt");
}

#[test]
fn a_reply_by_a_stream_tells_whether_the_server_has_cookies() {
    let mut known = UpstreamCookies::new(1, [1; 32]);
    let with_server_cookie = [&written(&known, 0)[..], &[9; 8]].concat();
    known.learn(0, &Message::parse(&reply(Some(&with_server_cookie))).unwrap());
    assert!(!accepts(&mut known, None));
    known.learn(0, &Message::parse(&reply(None)).unwrap());
    assert!(accepts(&mut known, None));
    assert_eq!(written(&known, 0).len(), 8);
}

proptest! {
    #[test]
    fn no_option_is_taken_for_ours(option in prop::collection::vec(any::<u8>(), 0..50), unix_s: u32) {
        let judged = cookies(SECRET).judge(address(CLIENT), &option, unix_s);
        prop_assert!(!matches!(judged, CookieStatus::Good(_)));
        let mut known = UpstreamCookies::new(1, [1; 32]);
        prop_assert!(!accepts(&mut known, Some(&option)));
    }

    #[test]
    fn a_changed_bit_is_seen(bit in 0usize..192, unix_s: u32) {
        let (ours, client) = (cookies(SECRET), address(CLIENT));
        let mut option = ours.write([7; 8], client, unix_s);
        option[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!matches!(ours.judge(client, &option, unix_s), CookieStatus::Good(_)));
    }
}

use dns64::wire::{CLASS_IN, Header, Message, Name, Question, Section, Writer, rcode, rtype};

use super::*;

mod lifetimes;
mod model;

const S: u64 = 1_000_000_000;
const SEED: [u8; 32] = [7; 32];

fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

fn question(text: &str, qtype: u16) -> Question {
    Question { name: name(text), qtype, qclass: CLASS_IN }
}

fn key(text: &str, qtype: u16) -> Key {
    Key::new(&question(text, qtype), false, false, 0)
}

/// A reply with these records of (section, owner, type, TTL, RDATA).
fn reply(asked: &Question, rcode: u8, records: &[(Section, &str, u16, u32, &[u8])]) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let flags = Header::QR | Header::RA | u16::from(rcode);
    let mut writer = Writer::new(&mut buffer, 1, flags, asked).unwrap();
    for (section, owner, rtype, ttl, rdata) in records {
        writer.record(*section, &name(owner), *rtype, CLASS_IN, *ttl, rdata).unwrap();
    }
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

fn address_reply(owner: &str, ttl_s: u32, address: u8) -> Vec<u8> {
    reply(&question(owner, rtype::A), 0, &[(Section::Answer, owner, rtype::A, ttl_s, &[address; 4])])
}

/// The RDATA of an SOA record whose names are the root.
fn soa(minimum_s: u32) -> Vec<u8> {
    [&[0u8, 0][..], &[0; 16], &minimum_s.to_be_bytes()].concat()
}

fn nxdomain(owner: &str, qtype: u16) -> Vec<u8> {
    let records = [(Section::Authority, "test", rtype::SOA, 100, &soa(100)[..])];
    let mut denial = reply(&question(owner, qtype), rcode::NXDOMAIN, &records);
    denial[3] |= Header::AD as u8;
    denial
}

fn insert(cache: &Cache, key: &Key, octets: &[u8], ttl_s: u32, now_ns: u64) {
    cache.insert(key, &Message::parse(octets).unwrap(), ttl_s, now_ns);
}

fn ttls(octets: &[u8]) -> Vec<u32> {
    Message::parse(octets).unwrap().records().map(|record| record.unwrap().ttl).collect()
}

const FRESH: Found = Found { ttl_left_s: 0, stale_s: 0, ageing: false, copied: true, ticks_ns: 0 };

/// What was found, but for when it ticks.
fn found(found: Option<Found>) -> Option<Found> {
    found.map(|found| Found { ticks_ns: 0, ..found })
}

#[test]
fn a_reply_is_found_by_every_spelling_of_its_name_and_by_nothing_else() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let octets = address_reply("www.Example.test", 60, 1);
    insert(&cache, &key("www.Example.test", rtype::A), &octets, 60, 0);
    let known = cache.get(&key("WWW.example.TEST", rtype::A), 0, &mut out);
    assert_eq!(found(known), Some(Found { ttl_left_s: 60, ..FRESH }));
    assert_eq!(out, octets);
    let asked = question("www.example.test", rtype::A);
    for other in [
        Key::new(&asked, true, false, 0),
        Key::new(&asked, false, true, 0),
        Key::new(&asked, false, false, 1),
        Key::new(&Question { qclass: 3, ..asked }, false, false, 0),
        key("www.example.test", rtype::AAAA),
        key("example.test", rtype::A),
    ] {
        assert_eq!(cache.get(&other, 0, &mut out), None, "{other:?}");
    }
    assert_eq!((cache.counts().hits, cache.counts().misses), (1, 6));
}

#[test]
fn ttls_lose_the_age_and_end_at_zero() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let asked = question("a.test", rtype::A);
    let mut octets = vec![0; 512];
    let mut writer = Writer::new(&mut octets, 1, Header::QR, &asked).unwrap();
    for (section, ttl) in [(Section::Answer, 60), (Section::Authority, 300), (Section::Additional, u32::MAX)]
    {
        writer.record(section, &asked.name, rtype::A, CLASS_IN, ttl, &[1; 4]).unwrap();
    }
    let edns = dns64::wire::Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true };
    writer.edns(&edns, &[]).unwrap();
    let length = writer.finish();
    insert(&cache, &key("a.test", rtype::A), &octets[..length], 60, 10 * S);
    for (now_ns, known, expected) in [
        (10 * S, Found { ttl_left_s: 60, ..FRESH }, [60, 300, 0]),
        (11 * S - 1, Found { ttl_left_s: 60, ..FRESH }, [60, 300, 0]),
        (11 * S, Found { ttl_left_s: 59, ..FRESH }, [59, 299, 0]),
        (9 * S, Found { ttl_left_s: 60, ..FRESH }, [60, 300, 0]),
        (70 * S, Found { stale_s: 0, ..FRESH }, [0, 240, 0]),
        (75 * S, Found { stale_s: 5, ..FRESH }, [0, 235, 0]),
        (75_000 * S, Found { stale_s: 74_930, ..FRESH }, [0, 0, 0]),
    ] {
        let got = cache.get(&key("a.test", rtype::A), now_ns, &mut out);
        assert_eq!(found(got), Some(known), "{now_ns}");
        // It says the same until then, and no longer.
        let ticks_ns = got.unwrap().ticks_ns;
        assert!(ticks_ns > now_ns && ticks_ns <= now_ns.max(10 * S) + S, "{now_ns}");
        assert_eq!(ticks_ns % S, 0);
        assert_eq!(ttls(&out), [&expected[..], &[0x8000]].concat(), "the OPT record has no TTL");
    }
    assert_eq!((cache.counts().hits, cache.counts().stale_hits), (4, 3));
}

#[test]
fn a_life_that_was_cut_cuts_the_ttls() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    insert(&cache, &key("a.test", rtype::A), &address_reply("a.test", 1_000_000, 1), 86_400, 0);
    cache.get(&key("a.test", rtype::A), 400 * S, &mut out).unwrap();
    assert_eq!(ttls(&out), [86_000]);
}

#[test]
fn the_end_is_announced_once_until_renewed() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let [long, short] = ["long.test", "short.test"].map(|text| key(text, rtype::A));
    insert(&cache, &long, &address_reply("long.test", 100, 1), 100, 0);
    insert(&cache, &short, &address_reply("short.test", 9, 1), 9, 0);
    let mut ageing = |key, now_s: u64| cache.get(key, now_s * S, &mut out).unwrap().ageing;
    assert!(!ageing(&long, 89));
    assert!(ageing(&long, 90) && !ageing(&long, 91) && !ageing(&long, 101));
    assert!(!ageing(&short, 8), "too short a life to be renewed in time");
    insert(&cache, &long, &address_reply("long.test", 100, 2), 100, 200 * S);
    assert!(!ageing(&long, 200) && ageing(&long, 295));
}

#[test]
fn failures_double_until_five_minutes_and_a_success_forgets_them() {
    let cache = Cache::new(1 << 20, SEED);
    let key = key("a.test", rtype::AAAA);
    let mut now_ns = 0;
    for expected_s in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        cache.insert_failure(&key, 1, 22, now_ns);
        assert_eq!(cache.failure(&key, now_ns), Some(Failure { cause: 22, left_s: expected_s }));
        cache.insert_failure(&key, 1, 23, now_ns);
        assert_eq!(cache.failure(&key, now_ns).unwrap().cause, 22, "in force");
        now_ns += u64::from(expected_s) * S;
        assert_eq!(cache.failure(&key, now_ns), None, "over");
    }
    assert_eq!(cache.counts().failures, 1);
    cache.insert_failure(&key, 5, 22, now_ns + 300 * S);
    assert_eq!(cache.failure(&key, now_ns + 300 * S).unwrap().left_s, 5, "a new series");
    insert(&cache, &key, &nxdomain("a.test", rtype::AAAA), 10, now_ns);
    assert_eq!(cache.failure(&key, now_ns + 300 * S), None);
    assert_eq!(cache.counts().failures, 0);
}

#[test]
fn a_denied_name_denies_what_is_below_and_all_types() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let below = key("x.y.no.test", rtype::A);
    assert_eq!(cache.nxdomain_above(&below, 0, usize::MAX, &mut out), None);
    insert(&cache, &key("no.test", rtype::AAAA), &nxdomain("no.test", rtype::AAAA), 100, 0);
    let above = cache.nxdomain_above(&below, 30 * S, usize::MAX, &mut out);
    assert_eq!(found(above), Some(Found { ttl_left_s: 70, ..FRESH }));
    assert_eq!(ttls(&out), [70]);
    assert!(cache.nxdomain_above(&key("No.test", rtype::A), 0, usize::MAX, &mut out).is_some());
    for other in ["test", "ano.test", "x.test"] {
        assert_eq!(cache.nxdomain_above(&key(other, rtype::A), 0, usize::MAX, &mut out), None, "{other}");
    }
    let with_dnssec = Key::new(&question("x.no.test", rtype::A), true, false, 0);
    assert_eq!(cache.nxdomain_above(&with_dnssec, 0, usize::MAX, &mut out), None, "its proofs are not there");
    assert_eq!(cache.nxdomain_above(&below, 100 * S, usize::MAX, &mut out), None, "expired");
    assert_eq!((cache.counts().nxdomains, cache.counts().nxdomain_hits), (1, 2));
    insert(&cache, &key("no.test", rtype::A), &address_reply("no.test", 60, 1), 60, S);
    assert_eq!(cache.nxdomain_above(&below, S, usize::MAX, &mut out), None, "it exists now");
    assert_eq!(cache.counts().nxdomains, 0);
}

#[test]
fn a_denial_that_is_not_secure_denies_nothing_else() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let mut denial = nxdomain("bank.test", 777);
    denial[3] &= !(Header::AD as u8);
    insert(&cache, &key("bank.test", 777), &denial, 60, 0);
    for words in ["bank.test", "www.bank.test"] {
        assert_eq!(cache.nxdomain_above(&key(words, rtype::A), 0, usize::MAX, &mut out), None, "{words}");
    }
}

/// A name has up to 127 above it: not each of them is looked for.
#[test]
fn the_denials_above_a_name_of_many_labels_are_looked_for_in_few_steps() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let deep = key(&"a.".repeat(127), rtype::A);
    for labels in 1..=127 {
        let owner = "b.".repeat(labels);
        insert(&cache, &key(&owner, rtype::A), &nxdomain(&owner, rtype::A), 60, 0);
    }
    let steps = steps::of(|| assert_eq!(cache.nxdomain_above(&deep, 0, usize::MAX, &mut out), None));
    assert!((1..1000).contains(&steps), "{steps}");
}

#[test]
fn the_end_of_a_chain_that_does_not_exist_says_nothing_about_the_start() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let asked = question("alias.test", rtype::A);
    let records = [
        (Section::Answer, "alias.test", rtype::CNAME, 60, &[1, b'x', 0][..]),
        (Section::Authority, "test", rtype::SOA, 60, &soa(60)),
    ];
    insert(&cache, &key("alias.test", rtype::A), &reply(&asked, rcode::NXDOMAIN, &records), 60, 0);
    assert_eq!(cache.nxdomain_above(&key("b.alias.test", rtype::A), 0, usize::MAX, &mut out), None);
}

#[test]
fn flushing_forgets_what_it_names() {
    let names = ["test", "a.test", "b.a.test", "ba.test"];
    let filled = || {
        let cache = Cache::new(1 << 20, SEED);
        for text in names {
            insert(&cache, &key(text, rtype::A), &address_reply(text, 60, 1), 60, 0);
            cache.insert_failure(&key(text, rtype::AAAA), 10, 1, 0);
        }
        cache
    };
    for (what, removed, left) in [
        (Flush::All, 8, &[][..]),
        (Flush::Name(name("A.test")), 2, &["test", "b.a.test", "ba.test"]),
        (Flush::Below(name("A.test")), 4, &["test", "ba.test"]),
        (Flush::Below(Name::ROOT), 8, &[]),
        (Flush::Name(name("none.test")), 0, &names),
        (Flush::Failures, 4, &names),
    ] {
        let cache = filled();
        assert_eq!(cache.flush(&what), removed, "{what:?}");
        let found = names.iter().filter(|text| cache.get(&key(text, rtype::A), 0, &mut Vec::new()).is_some());
        assert_eq!(found.copied().collect::<Vec<_>>(), left, "{what:?}");
        assert_eq!(cache.counts().entries, left.len() as u64);
        assert_eq!(cache.flush(&Flush::All), 8 - removed);
    }
}

#[test]
fn memory_is_bounded_and_what_is_asked_for_stays() {
    let cache = Cache::new(256 << 10, SEED);
    let mut out = Vec::new();
    let popular = key("popular.test", rtype::A);
    insert(&cache, &popular, &address_reply("popular.test", 3600, 1), 3600, 0);
    for n in 0..20_000 {
        let text = format!("n{n}.test");
        insert(&cache, &key(&text, rtype::A), &address_reply(&text, 3600, 2), 3600, 0);
        if n % 100 == 0 {
            assert!(cache.get(&popular, 0, &mut out).is_some(), "after {n}");
        }
    }
    let counts = cache.counts();
    assert!(counts.octets <= counts.octets_max && counts.octets_max < 256 << 10, "{counts:?}");
    assert!(counts.entries > 2000 && counts.entries + counts.evicted == counts.inserted, "{counts:?}");
    assert!(counts.carried > 0);
}

#[test]
fn a_full_bucket_of_the_index_gives_up_its_oldest_entry() {
    // Failures are the shortest entries: more of them fit into the ring than the index has slots for in
    // places.
    let cache = Cache::new(64 << 10, SEED);
    let keys: Vec<Key> = (0..5000).map(|n| key(&n.to_string(), rtype::A)).collect();
    for key in &keys {
        cache.insert_failure(key, 300, 22, 0);
    }
    let counts = cache.counts();
    let found: Vec<bool> = keys.iter().map(|key| cache.failure(key, 0).is_some()).collect();
    assert_eq!(found.iter().filter(|found| **found).count() as u64, counts.failures);
    assert_eq!(counts.failures + counts.evicted, 5000);
    assert!(counts.failures > 800 && found[4900..].iter().all(|found| *found), "{counts:?}");
}

#[test]
fn a_cache_of_no_octets_keeps_nothing() {
    let cache = Cache::new(0, SEED);
    let mut out = Vec::new();
    let key = key("a.test", rtype::A);
    insert(&cache, &key, &address_reply("a.test", 60, 1), 60, 0);
    cache.insert_failure(&key, 1, 1, 0);
    assert_eq!(cache.get(&key, 0, &mut out), None);
    assert_eq!(cache.failure(&key, 0), None);
    assert_eq!(cache.flush(&Flush::All), 0);
    assert_eq!(cache.counts(), CacheCounts::default());
}

#[test]
fn tiny_caches_and_long_replies_do_no_harm() {
    let mut out = Vec::new();
    let long: Vec<u8> = reply(
        &question("a.test", rtype::TXT),
        0,
        &[(Section::Answer, "a.test", rtype::TXT, 60, &[b'x'; 60_000])],
    );
    for octets in (1..3000).step_by(7).chain([1 << 16, 1 << 19, 1 << 20, 1 << 25]) {
        let cache = Cache::new(octets, SEED);
        insert(&cache, &key("a.test", rtype::TXT), &address_reply("a.test", 60, 1), 60, 0);
        insert(&cache, &key("a.test", rtype::TXT), &long, 60, 0);
        cache.insert_failure(&key("a.test", rtype::A), 1, 1, 0);
        let found = cache.get(&key("a.test", rtype::TXT), 0, &mut out);
        assert_eq!(found.is_some(), octets >= 1 << 19, "{octets}");
    }
}

#[test]
fn malformed_replies_are_not_kept_and_nothing_after_the_last_record_is() {
    let (cache, mut out) = (Cache::new(1 << 20, SEED), Vec::new());
    let key = key("a.test", rtype::A);
    let octets = address_reply("a.test", 60, 1);
    insert(&cache, &key, &octets[..octets.len() - 1], 60, 0);
    assert_eq!(cache.get(&key, 0, &mut out), None);
    insert(&cache, &key, &[&octets[..], b"and more"].concat(), 60, 0);
    cache.get(&key, 0, &mut out).unwrap();
    assert_eq!(out, octets);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test asks from several threads")]
fn threads_share_it() {
    let cache = Cache::new(1 << 20, SEED);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let cache = &cache;
            scope.spawn(move || {
                let mut out = Vec::new();
                for round in 0..2000 {
                    let text = format!("n{}.test", round % 50);
                    let key = key(&text, rtype::A);
                    if round % 3 == 0 {
                        insert(cache, &key, &address_reply(&text, 60, thread), 60, 0);
                    } else if cache.get(&key, 0, &mut out).is_some() {
                        assert_eq!(Message::parse(&out).unwrap().question().name, name(&text));
                    }
                }
            });
        }
    });
    assert_eq!(cache.counts().entries, 50);
}

//! The cache beside a map without bounds, and with any octets.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// One step of the comparison with the model.
#[derive(Clone, Debug)]
enum Act {
    Insert { name: u8, ttl_s: u32, octets: u16 },
    Get { name: u8 },
    Fail { name: u8 },
    Flush { name: u8 },
    Wait { s: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let names = 0..40u8;
    prop_oneof![
        6 => (names.clone(), 1..100u32, prop_oneof![9 => 4..64u16, 1 => 64..6000u16])
            .prop_map(|(name, ttl_s, octets)| Act::Insert { name, ttl_s, octets }),
        6 => names.clone().prop_map(|name| Act::Get { name }),
        1 => names.clone().prop_map(|name| Act::Fail { name }),
        1 => names.prop_map(|name| Act::Flush { name }),
        2 => (0..60u64).prop_map(|s| Act::Wait { s }),
    ]
}

/// Does `acts` on a cache and on a map without bounds; returns how many look-ups the map alone could answer.
fn compare(octets: usize, acts: &[Act]) -> Result<u32, TestCaseError> {
    let (cache, mut model, mut out) = (Cache::new(octets, SEED), HashMap::new(), Vec::new());
    let (mut now_ns, mut missed) = (0, 0);
    for act in acts {
        let text = |n: &u8| format!("n{n}.test");
        match act {
            Act::Insert { name, ttl_s, octets } => {
                let rdata = vec![*name; usize::from(*octets)];
                let asked = question(&text(name), rtype::TXT);
                let records = [(Section::Answer, &text(name)[..], rtype::TXT, *ttl_s, &rdata[..])];
                insert(
                    &cache,
                    &Key::new(&asked, false, false, 0),
                    &reply(&asked, 0, &records),
                    *ttl_s,
                    now_ns,
                );
                model.insert(*name, (rdata, *ttl_s, now_ns));
            }
            Act::Get { name } => {
                let found = cache.get(&key(&text(name), rtype::TXT), now_ns, &mut out);
                let expected = model.get(name);
                prop_assert!(found.is_none() || expected.is_some(), "{name} was flushed");
                let (Some(found), Some((rdata, ttl_s, born_ns))) = (found, expected) else {
                    missed += u32::from(expected.is_some());
                    continue;
                };
                let age_s = ((now_ns - born_ns) / S) as u32;
                prop_assert_eq!(found.ttl_left_s, ttl_s.saturating_sub(age_s));
                prop_assert_eq!(found.stale_s, age_s.saturating_sub(*ttl_s));
                let message = Message::parse(&out).unwrap();
                let record = message.answers().next().unwrap();
                prop_assert_eq!(record.ttl, found.ttl_left_s);
                prop_assert_eq!(record.rdata, &rdata[..]);
            }
            Act::Fail { name } => cache.insert_failure(&key(&text(name), rtype::TXT), 1, 1, now_ns),
            Act::Flush { name: flushed } => {
                cache.flush(&Flush::Name(name(&text(flushed))));
                model.remove(flushed);
            }
            Act::Wait { s } => now_ns += s * S,
        }
        let counts = cache.counts();
        prop_assert!(counts.octets <= counts.octets_max);
    }
    check_counts(&cache, now_ns)?;
    Ok(missed)
}

/// The counts are those of what can be found.
fn check_counts(cache: &Cache, now_ns: u64) -> Result<(), TestCaseError> {
    let counts = cache.counts();
    let keys: Vec<Key> = (0..40).map(|n| key(&format!("n{n}.test"), rtype::TXT)).collect();
    let found = keys.iter().filter(|key| cache.get(key, now_ns, &mut Vec::new()).is_some()).count();
    prop_assert_eq!(counts.entries, found as u64);
    let in_force = keys.iter().filter(|key| cache.failure(key, now_ns).is_some()).count();
    prop_assert!(counts.failures >= in_force as u64);
    prop_assert_eq!(cache.flush(&Flush::Failures) as u64, counts.failures);
    prop_assert_eq!(cache.flush(&Flush::All) as u64, counts.entries);
    Ok(())
}

proptest! {
    #[test]
    fn a_large_cache_is_a_map(acts in prop::collection::vec(act(), 0..300)) {
        prop_assert_eq!(compare(4 << 20, &acts)?, 0);
    }

    #[test]
    fn a_small_cache_forgets_but_never_errs(octets in 200..40_000usize, acts in prop::collection::vec(act(), 0..400)) {
        compare(octets, &acts)?;
    }

    #[test]
    fn any_octets_may_be_kept(tail in prop::collection::vec(any::<u8>(), 0..200), head in any::<[u8; 10]>()) {
        let [flags_high, flags_low, counts @ ..] = head;
        let header = [0, 1, flags_high, flags_low, 0, 1, 0, counts[0] % 4, 0, counts[1] % 4, 0, counts[2] % 4];
        let octets = [&header[..], &[1, b'a', 0, 0, 1, 0, 1], &tail].concat();
        let message = Message::parse(&octets).unwrap();
        let (cache, key, mut out) = (Cache::new(1 << 18, SEED), Key::new(&message.question(), false, false, 0), Vec::new());
        let life_s = lifetime_s(&crate::settings::Caching::default(), &message);
        cache.insert(&key, &message, life_s.unwrap_or(5), 0);
        if cache.get(&key, 9 * S, &mut out).is_some() {
            prop_assert_eq!(out.len() <= octets.len(), true);
            prop_assert!(Message::parse(&out).unwrap().records().all(|record| record.is_ok()));
        }
        prop_assert!(life_s.is_none() || !out.is_empty());
    }
}

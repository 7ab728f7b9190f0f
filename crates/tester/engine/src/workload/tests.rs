use super::*;
use dns64::wire::Message;

pub(crate) fn workload(first_name: u64) -> Workload {
    Workload::new(WorkloadSpec {
        names: "10.0.0.0/8".parse().unwrap(),
        first_name,
        suffix: Name::from_text("dns64perf.test").unwrap(),
        prefix: "2001:db8:64::/96".parse().unwrap(),
        native: Some((20, "2001:db8:aaaa::/96".parse().unwrap())),
        edns_octets: Some(1232),
        variation: Variation::default(),
    })
    .unwrap()
}

#[test]
fn a_query_carries_its_number() {
    for first_name in [0, 1000, (1 << 24) - 1] {
        let workload = workload(first_name);
        let mut buffer = [0; 512];
        for n in [0, 1, 65_536, (1 << 24) - 1] {
            let length = workload.write(n, 0xabcd, &mut buffer);
            assert_eq!(workload.number_of(&buffer[..length]), Some(n));
            let message = Message::parse(&buffer[..length]).unwrap();
            assert_eq!(message.header.id, 0xabcd);
            assert_eq!(message.question_end(), workload.question_end());
            assert_eq!(message.edns().unwrap().unwrap().payload_octets, 1232);
        }
    }
}

#[test]
fn foreign_questions_have_no_number() {
    let workload = workload(0);
    let mut buffer = [0; 512];
    let length = workload.write(5, 1, &mut buffer);
    for at in [4, 12, 13, 16, 28, 40] {
        let mut changed = buffer;
        changed[at] ^= 0x41;
        assert_eq!(workload.number_of(&changed[..length]), None, "octet {at}");
    }
    assert_eq!(workload.number_of(&buffer[..20]), None);
    let mut upper = buffer;
    upper[29..38].make_ascii_uppercase();
    assert_eq!(workload.number_of(&upper[..length]), Some(5), "case does not matter");
}

#[test]
fn a_suffix_too_long_is_refused() {
    let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(60));
    let spec = WorkloadSpec { suffix: Name::from_text(&long).unwrap(), ..workload(0).spec };
    assert_eq!(Workload::new(spec).unwrap_err(), Unaskable::SuffixTooLong);
}

fn varied(variation: Variation) -> Workload {
    Workload::new(WorkloadSpec { variation, ..workload(5000).spec }).unwrap()
}

/// Name and type of query `n`.
fn question(workload: &Workload, n: u64) -> (String, u16) {
    let mut buffer = [0; QUERY_OCTETS_MAX];
    let length = workload.write(n, 7, &mut buffer);
    let question = Message::parse(&buffer[..length]).unwrap().question();
    (question.name.to_string(), question.qtype)
}

#[test]
fn agents_never_ask_the_same_name() {
    let mut seen = std::collections::HashSet::new();
    for index in 0..3 {
        let workload = varied(Variation { agent: Agent { index, agents: 3 }, ..Variation::default() });
        for n in 0..1000 {
            assert!(seen.insert(question(&workload, n).0));
            let mut buffer = [0; QUERY_OCTETS_MAX];
            let length = workload.write(n, 7, &mut buffer);
            assert_eq!(workload.number_of(&buffer[..length]), Some(n));
            assert!(workload.repeats(n, &buffer[..length]) && !workload.repeats(n + 1, &buffer[..length]));
        }
        assert_eq!(workload.names_needed(1000), 3000);
    }
}

#[test]
fn the_next_trial_asks_nothing_again() {
    let after = |choice, queries| {
        let agent = Agent { index: 0, agents: 2 };
        varied(Variation { choice, agent, ..Variation::default() }).first_name_after(queries)
    };
    assert_eq!(after(Choice::Each, 1000), 7000);
    assert_eq!(after(Choice::Each, 1 << 23), 5000, "all names were asked");
    assert_eq!(after(Choice::Cached { share_pct: 50, hot_names: 3 }, 1000), 7003);
    assert_eq!(after(Choice::RandomLabels, 1 << 23), 5000 + (1 << 24), "the range does not bound them");
}

#[test]
fn cached_names_are_those_that_were_warmed() {
    let choice = Choice::Cached { share_pct: 40, hot_names: 50 };
    let types = "a=1,aaaa=1".parse().unwrap();
    let workload = varied(Variation { choice, types, ..Variation::default() });
    let (warm_up, queries) = workload.warm_up().unwrap();
    let warm: std::collections::HashSet<_> = (0..queries).map(|n| question(&warm_up, n)).collect();
    assert_eq!(warm.len(), 100, "each name with each type");
    let asked: Vec<_> = (0..10_000).map(|n| question(&workload, n)).collect();
    let cached = asked.iter().filter(|asked| warm.contains(*asked)).count();
    assert!(cached.abs_diff(4000) <= 20, "{cached}");
    let fresh: Vec<_> = asked.iter().filter(|asked| !warm.contains(*asked)).collect();
    let distinct: std::collections::HashSet<_> = fresh.iter().collect();
    assert_eq!(fresh.len(), distinct.len(), "all others are different");
    assert!(!workload.is_by_name() && workload.names_needed(100) == 150);
    assert!(varied(Variation::default()).warm_up().is_none());
}

#[test]
fn every_question_leads_to_its_answer() {
    let types = "a=1,aaaa=1,mx=1".parse().unwrap();
    for choice in [Choice::Each, Choice::Zipf { exponent: 1.0 }] {
        let workload = varied(Variation { choice, types, ..Variation::default() });
        for n in 0..100 {
            let mut buffer = [0; QUERY_OCTETS_MAX];
            let length = workload.write(n, 7, &mut buffer);
            let (_, qtype) = question(&workload, n);
            let end = question::end(&buffer[..length]).unwrap();
            let expected = match workload.expectation(n, &buffer[..length], end) {
                Expectation::Aaaa(address) if address == workload.expected(n) => rtype::AAAA,
                Expectation::A(_) => rtype::A,
                _ => rtype::MX,
            };
            assert_eq!(qtype, expected);
        }
    }
}

#[test]
fn popular_names_are_asked_more_often_and_anew_in_each_trial() {
    let choice = Choice::Zipf { exponent: 1.2 };
    let workload = varied(Variation { choice: choice.clone(), ..Variation::default() });
    let first = (0..1000).filter(|n| question(&workload, *n).0.starts_with("010-000-000-000.")).count();
    let second = (0..1000).filter(|n| question(&workload, *n).0.starts_with("010-000-000-001.")).count();
    assert!(first > 120 && first > second && second > 40, "{first} {second}");
    let variation = Variation { choice, ..Variation::default() };
    let later = Workload::new(WorkloadSpec { first_name: 6000, variation, ..workload.spec }).unwrap();
    assert_ne!(
        (0..20).map(|n| question(&later, n).0).collect::<Vec<_>>()[..],
        (0..20)
            .map(|n| question(
                &varied(Variation { choice: Choice::Zipf { exponent: 1.2 }, ..Variation::default() }),
                n
            )
            .0)
            .collect::<Vec<_>>()[..]
    );
}

#[test]
fn random_labels_are_below_the_suffix() {
    let choice = Choice::RandomLabels;
    let workload = varied(Variation { choice, seed: 3, ..Variation::default() });
    let names: std::collections::HashSet<_> = (0..1000).map(|n| question(&workload, n).0).collect();
    assert!(
        names.len() == 1000
            && names.iter().all(|name| name.ends_with(".dns64perf.test.") && name.len() == 29)
    );
}

fn generated(texts: &[&str]) -> Choice {
    let templates = texts.iter().map(|text| text.parse().unwrap()).collect();
    Choice::Generated(Arc::new(Generator::new(templates, 3).unwrap()))
}

#[test]
fn generated_questions_have_their_own_names_and_types() {
    let choice = generated(&["{walk:1-3}.a.test TYPE65", "{walk:1-30}.b.test"]);
    let types = "a=1,aaaa=1".parse().unwrap();
    let variation = Variation { choice, types, agent: Agent { index: 1, agents: 2 }, ..Variation::default() };
    let workload = varied(variation.clone());
    let asked: Vec<_> = (0..1000).map(|n| question(&workload, n)).collect();
    assert!(asked.iter().all(|(name, qtype)| name.ends_with(".a.test.") == (*qtype == 65)));
    assert!([1, 28, 65].iter().all(|wanted| asked.iter().any(|(_, qtype)| qtype == wanted)));
    // The other Measurer asks what lies between.
    let agent = Agent { index: 0, agents: 2 };
    let other = varied(Variation { agent, ..variation.clone() });
    let alone = varied(Variation { agent: Agent::default(), ..variation });
    for n in 0..1000 {
        let half = [&other, &workload][n as usize % 2];
        assert_eq!(question(&alone, n), question(half, n / 2));
    }
    let mut buffer = [0; QUERY_OCTETS_MAX];
    let length = workload.write(5, 7, &mut buffer);
    assert_eq!(workload.expectation(5, &buffer[..length], length - 11), Expectation::Response);
    assert!(!workload.is_by_name() && workload.number_of(&buffer[..length]).is_none());
    assert_eq!((workload.names_needed(1 << 40), workload.first_name_after(1000)), (0, 7000));
    assert_eq!(workload.write(5, 7, &mut [0; 30]), 0, "no room");
}

#[test]
fn the_longest_generated_query_has_room() {
    let long = "a".repeat(63);
    let choice = generated(&["a.test", &format!("{long}.{long}.{long}.{{random:61}}")]);
    let padded = |octets| {
        let options = QueryOptions { padding_octets: Some(octets), ..QueryOptions::default() };
        let variation = Variation { choice: choice.clone(), options, ..Variation::default() };
        Workload::new(WorkloadSpec { variation, ..workload(0).spec }).unwrap()
    };
    assert_eq!(padded(1).query_octets(), 12 + 255 + 4 + 11 + 4);
    let lengths = |octets: u16| [0, 1].map(|n| padded(octets).write(n, 7, &mut [0; QUERY_OCTETS_MAX]));
    assert_eq!(lengths(256), [256, 512]);
    let more = |options: usize| {
        let others = vec![format!("2:{}", "00".repeat(100)).parse().unwrap(); options];
        let options = QueryOptions { others, ..QueryOptions::default() };
        let variation = Variation { choice: choice.clone(), options, ..Variation::default() };
        Workload::new(WorkloadSpec { variation, ..workload(0).spec }).map(|_| ())
    };
    assert_eq!((more(2), more(3)), (Ok(()), Err(Unaskable::QueryTooLong)));
}

#[test]
fn recorded_queries_are_sent_as_they_stand() {
    let mut arena = Arena::default();
    arena.push(b"\x01a\x00\x00\x10\x00\x01");
    arena.push(b"\x04long\x00\x00\x01\x00\x01");
    let recording = Recording::Whole { arena: Arc::new(arena), order: None };
    let choice = Choice::Recorded { recording, whole_messages: false };
    let options = QueryOptions { padding_octets: Some(128), ..QueryOptions::default() };
    let workload = varied(Variation { choice, options, ..Variation::default() });
    let name_of = |n| question(&workload, n);
    assert_eq!((name_of(0), name_of(3)), (("a.".into(), 16), ("long.".into(), 1)));
    assert_eq!(workload.write(1, 7, &mut [0; QUERY_OCTETS_MAX]), 128);
    assert_eq!(workload.write(1, 7, &mut [0; 20]), 0, "no room");
}

//! Known generators, and what is to be said of them.

use super::*;
use crate::random::{Sequence, below};

const QUERIES: usize = 20_000;
/// 1 ms apart.
const STEP_NS: u64 = 1_000_000;

/// Queries for different names with the IDs and ports that `draw` gives for the n-th.
fn queries(mut draw: impl FnMut(usize) -> (u16, u16)) -> Vec<Seen> {
    let query = |n: usize| {
        let (id, port) = draw(n);
        Seen {
            at_ns: n as u64 * STEP_NS,
            name: n as u64 / 2,
            client: 1,
            upper_case: 0,
            port,
            id,
            qtype: if n.is_multiple_of(2) { rtype::AAAA } else { rtype::A },
            tcp: false,
            letters: 13,
        }
    };
    (0..QUERIES).map(query).collect()
}

fn analysis(draw: impl FnMut(usize) -> (u16, u16)) -> Analysis {
    analyse(&queries(draw), QUERIES as u64, Some(QUERIES as u64 / 2))
}

fn random(seed: u64) -> impl FnMut() -> u16 {
    let mut sequence = Sequence::new(seed, 0);
    move || sequence.bits() as u16
}

/// One of the ports from 32,768 on.
fn port_of(random: u16, ports: u64) -> u16 {
    32_768 + below(u64::from(random) << 48, ports) as u16
}

fn weaknesses(analysis: &Analysis) -> Vec<&str> {
    analysis.findings.iter().filter(|finding| finding.weak).map(|finding| &finding.text[..]).collect()
}

#[test]
fn random_ids_and_ports_have_no_weakness() {
    for seed in 0..20 {
        let (mut id, mut port) = (random(seed), random(seed + 1000));
        let found = analysis(|_| (id(), port_of(port(), 28_000)));
        assert_eq!(weaknesses(&found), Vec::<&str>::new(), "seed {seed}");
        assert!((found.ids.pool / 65_536.0 - 1.0).abs() < 0.1, "{}", found.ids.pool);
        assert!((found.ports.pool / 28_000.0 - 1.0).abs() < 0.1, "{}", found.ports.pool);
        assert!(found.ids.shannon_bits > 13.9 && found.ids.min_entropy_bits > 9.0);
        assert_eq!((found.queries_per_client_query, found.queries_per_name), (Some(2.0), 2.0));
        assert_eq!((found.a, found.aaaa, found.names, found.clients), (10_000, 10_000, 10_000, 1));
        assert!((found.rate_qps - 1000.0).abs() < 0.1);
        // sqrt(pi / 2 * 2^16 * 28,000) = 53,700 queries, at 1000 q/s.
        assert!((found.spoofing.collision_s / 53.7 - 1.0).abs() < 0.1, "{}", found.spoofing.collision_s);
        assert!((found.spoofing.even_chance_s / 1.272e6 - 1.0).abs() < 0.2);
    }
}

#[test]
fn a_counter_is_foretold() {
    let mut port = random(1);
    let found = analysis(|n| (n as u16, port_of(port(), 28_000)));
    assert!(weaknesses(&found)[0].contains("step is +1 in 100.0 %"), "{:?}", found.findings);
    assert_eq!((found.ids.steps.one_pct, found.spoofing.ids), (100.0, 1.0));
    assert!(found.ids.tests.iter().any(|test| test.name == "serial correlation" && test.p_value < 1e-9));
    let found = analysis(|n| (0u16.wrapping_sub((7 * n) as u16), port_of(port(), 28_000)));
    assert_eq!((found.ids.steps.common, found.spoofing.ids), (-7, 1.0));
}

#[test]
fn a_counter_for_each_socket_is_foretold() {
    let (mut port, mut counters) = (random(1), [0u16, 9000, 30_000, 45_000]);
    let found = analysis(|_| {
        let socket = usize::from(port() >> 14);
        counters[socket] += 1;
        (counters[socket], 40_000 + socket as u16)
    });
    assert!(found.ids.steps.by_port && found.ids.steps.one_pct == 100.0, "{:?}", found.ids.steps);
    assert!(weaknesses(&found)[0].contains("queries of one port"), "{:?}", found.findings);
    assert!(weaknesses(&found)[1].contains("leave from 4 ports"), "{:?}", found.findings);
}

#[test]
fn a_linear_congruence_is_foretold() {
    let (mut port, mut state) = (random(1), 1u16);
    let found = analysis(|_| {
        state = state.wrapping_mul(25_173).wrapping_add(13_849);
        (state, port_of(port(), 28_000))
    });
    assert_eq!(found.ids.congruence_pct, 100.0);
    assert!(weaknesses(&found)[0].contains("linear congruence"), "{:?}", found.findings);
    assert_eq!(found.spoofing.ids, 1.0);
}

#[test]
fn a_permutation_is_said_to_keep_ids_unique() {
    let (mut ids, mut draw) = ((0..=u16::MAX).collect::<Vec<_>>(), Sequence::new(3, 0));
    for at in (1..ids.len()).rev() {
        ids.swap(at, below(draw.bits(), at as u64 + 1) as usize);
    }
    let mut port = random(1);
    let found = analysis(|n| (ids[n], port_of(port(), 28_000)));
    assert_eq!(weaknesses(&found), Vec::<&str>::new());
    assert!(found.findings.iter().any(|finding| finding.text.contains("come from a permutation")));
    assert!(found.ids.pool_is_larger);
}

/// Two halves of the IDs by turns, the first half of a permutation of each: TOTD 1.5.3.
#[test]
fn alternating_pools_are_found() {
    let (mut draw, mut port) = (random(4), random(1));
    let found = analysis(|n| {
        let half = if n / 0x4000 % 2 == 0 { 0 } else { 0x8000 };
        (half | draw() >> 1, port_of(port(), 28_000))
    });
    let weak = weaknesses(&found).join("; ");
    assert!(
        weak.contains("serial correlation") && weak.contains("runs") && weak.contains("upper bits"),
        "{weak}"
    );
}

#[test]
fn few_ports_are_counted() {
    let (mut id, mut port) = (random(1), random(2));
    let found = analysis(|_| (id(), 5353));
    assert_eq!(found.spoofing.ports, 1.0);
    assert!(weaknesses(&found)[0].contains("all queries leave from port 5353"));
    assert!(found.ports.tests.is_empty(), "equal values have no order");
    let found = analysis(|_| (id(), port_of(port(), 16)));
    assert_eq!(found.ports.distinct, 16);
    assert!((found.spoofing.ports - 16.0).abs() < 0.5, "{:?}", found.spoofing);
    let found = analysis(|n| (id(), 32_768 + (n % 28_000) as u16));
    assert!(weaknesses(&found)[0].contains("ports follow each other: the step is +1"));
}

#[test]
fn a_few_queries_are_no_ground_for_a_judgement() {
    for count in [0, 1, 2, 3, 199] {
        let mut id = random(1);
        let few = &queries(|_| (id(), 1))[..count];
        let found = analyse(few, count as u64, None);
        assert_eq!((found.findings.len(), found.findings[0].weak), (1, false));
        assert!([found.spoofing.collision_s, found.rate_qps, found.ids.pool].iter().all(|x| x.is_finite()));
        assert_is_json(&found);
    }
}

/// Infinite numbers and the like have no place in JSON.
fn assert_is_json(found: &Analysis) {
    let text = serde_json::to_string(found).unwrap();
    let read: Analysis = serde_json::from_str(&text).unwrap();
    assert_eq!((read.kept, &read.findings), (found.kept, &found.findings));
}

#[test]
fn repetitions_are_told_apart() {
    let mut id = random(1);
    let mut list = queries(|_| (id(), 1000));
    let repeat = |query: Seen, after_ns: u64, id: u16| Seen { at_ns: query.at_ns + after_ns, id, ..query };
    let last_ns = list.last().map_or(0, |query| query.at_ns);
    let first = Seen { at_ns: last_ns + STEP_NS, name: u64::MAX, ..list[0] };
    list.extend([
        first,
        repeat(first, 50_000_000, first.id),
        repeat(first, 60_000_000, !first.id),
        repeat(first, 5_000_000_000, first.id ^ 1),
        repeat(first, 30_000_000_000, first.id ^ 2),
    ]);
    let count = list.len() as u64;
    let Analysis { outstanding, .. } = analyse(&list, count, None);
    assert_eq!((outstanding.retransmissions, outstanding.retries, outstanding.same_question), (1, 2, 1));
    assert!(outstanding.most.abs_diff(101) <= 2, "{}", outstanding.most);
}

#[test]
fn shared_identifiers_are_counted_beside_those_of_chance() {
    let (mut id, mut shared) = (random(1), 0);
    let found = analysis(|n| {
        if n % 10 == 0 {
            shared = id();
        }
        (if n % 10 < 2 { shared } else { id() }, 1000)
    });
    assert!(found.outstanding.same_identifiers >= 2000);
    assert!(
        weaknesses(&found).iter().any(|text| text.contains("shared port and ID")),
        "{:?}",
        found.findings
    );
    let found = analysis(|_| (id(), 1000));
    let Outstanding { same_identifiers, same_identifiers_by_chance, .. } = found.outstanding;
    // 20,000 queries, each with 100 others under way, of 65,536 IDs: 30 by chance.
    assert!((same_identifiers_by_chance - 30.5).abs() < 3.0, "{same_identifiers_by_chance}");
    assert!((same_identifiers as f64 - 30.5).abs() < 17.0, "{same_identifiers}");
}

#[test]
fn the_case_of_names_is_noticed() {
    let mut id = random(1);
    let mut list = queries(|_| (id(), 1000));
    for (n, query) in list.iter_mut().enumerate() {
        query.upper_case = n as u32 | 1;
    }
    let found = analyse(&list, QUERIES as u64, None);
    assert_eq!((found.upper_case_pct, found.letters_per_name), (100.0, 13.0));
    assert!(found.findings.iter().any(|finding| finding.text.contains("up to 13 bits")));
}

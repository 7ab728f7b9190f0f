//! The tables.

use super::{Attacker, Client, Forger, Identified, Identifiers, NEAR_MS, NEAR_PCT, Open, Record, Together};
use crate::document::wrapped;
use crate::goals::{Goal, Reached, section};
use crate::sample::table;

/// So many packets are to be forged without a hit.
const FORGED_PACKETS: u64 = 100_000_000;
const MET: &str = "100 million forged packets that met an open query over UDP, and no hit";
/// By the model a hit needs 2^16 packets for each port on average. The mean of that many hits may differ from
/// it by four standard errors.
const ERRORS: f64 = 4.0;

/// The rendered block of `docs/performance/attacks.md`: a section for each part that was measured, and the
/// goals.
pub fn block(record: &Record) -> String {
    let mut out = String::new();
    let mut goals = Vec::new();
    if let Some(part) = &record.together {
        out += &together(part);
        goals.extend(goals_together(part));
    }
    if let Some(part) = &record.forger {
        out += &forger(part);
        goals.extend(goals_of_forger(part));
    }
    if let Some(part) = &record.identifiers {
        out += &identifiers(part);
        goals.push(goal_of_identifiers(part));
    }
    if goals.is_empty() {
        return "Nothing was measured yet.\n".to_owned();
    }
    out + &section(&goals)
}

fn together(part: &Together) -> String {
    let client = |when: &str, client: &Client| {
        let Client { sent, valid, failed, false_addresses, median_ms, p99_ms, near_pct, late_p999_ms } =
            client;
        vec![
            when.to_owned(),
            sent.to_string(),
            valid.to_string(),
            failed.to_string(),
            false_addresses.to_string(),
            format!("{median_ms:.2}"),
            format!("{p99_ms:.2}"),
            format!("{near_pct:.2}"),
            late_p999_ms.map_or_else(|| "-".to_owned(), |late_ms| format!("{late_ms:.2}")),
        ]
    };
    let soon = format!("answered within {NEAR_MS:.0} ms of the quiet median, %");
    let head = [
        "",
        "queries",
        "right answers",
        "errors",
        "false addresses",
        "median, ms",
        "99th percentile, ms",
        &soon,
        "its own sending late, 99.9th percentile, ms",
    ];
    let clients = table(&head, &[client("quiet", &part.quiet), client("attacked", &part.attacked)]);
    let attacker = |attacker: &Attacker| {
        let Attacker { what, unit, count, per_s, least_per_s } = attacker;
        let least = if *least_per_s > 0.0 { format!("{least_per_s:.1}") } else { "-".to_owned() };
        vec![what.clone(), unit.clone(), count.to_string(), format!("{per_s:.1}"), least]
    };
    let attackers: Vec<_> = part.attackers.iter().map(attacker).collect();
    let counter = |(name, count): (&String, &u64)| vec![format!("`{name}`"), count.to_string()];
    let counters: Vec<_> = part.counters.iter().map(counter).collect();
    format!(
        "\n## All attacks together\n\n{}\n{clients}\n{}\n{}\n{}",
        wrapped(&format!(
            "{}. The client asks {} q/s, {} % of them for cached names, for {:.0} s.",
            part.origin.in_words(),
            part.rate_qps,
            part.cached_pct,
            part.duration_s
        )),
        table(&["attacker", "counted", "in all", "each second", "at least, each second"], &attackers),
        wrapped(&format!(
            "Memory of dns64d: {:.1} MiB before, {:.1} MiB at most, {:.0} MiB allowed. Exit code {}.",
            part.quiet_mib, part.peak_mib, part.bound_mib, part.exit_code
        )),
        table(&["counter of dns64d", ""], &counters),
    )
}

fn goals_together(part: &Together) -> [Goal; 5] {
    let near = part.attacked.near_pct;
    let seconds = part.duration_s;
    let slow: Vec<&str> = part.too_slow().map(|attacker| attacker.what.as_str()).collect();
    let are_fast = slow.is_empty() && !part.attackers.is_empty();
    let named = if slow.is_empty() { String::new() } else { format!("; below it: {}", slow.join("; ")) };
    [
        Goal::new(
            &format!(
                "all attacks together for 10 minutes: at least {NEAR_PCT:.0} % of the client's queries \
                 answered within {NEAR_MS:.0} ms of the quiet median"
            ),
            format!("{near:.2} %, for {seconds:.0} s"),
            Reached::if_true(near >= NEAR_PCT && seconds >= 600.0 && are_fast),
        ),
        Goal::new(
            "every attacker attacks at its least rate",
            format!("{} of {}{named}", part.attackers.len() - slow.len(), part.attackers.len()),
            Reached::if_true(are_fast),
        ),
        Goal::new(
            "memory within its bound",
            format!("{:.1} of {:.0} MiB", part.peak_mib, part.bound_mib),
            Reached::if_true(part.peak_mib <= part.bound_mib),
        ),
        Goal::new(
            "no forged answer taken",
            format!("{} taken, {} false addresses", part.forged_taken, part.attacked.false_addresses),
            Reached::if_true(part.forged_taken == 0 && part.attacked.false_addresses == 0),
        ),
        Goal::new(
            "dns64d lives, and ends in order",
            format!("exit code {}", part.exit_code),
            Reached::if_true(part.exit_code == 0),
        ),
    ]
}

fn forger(part: &Forger) -> String {
    let Forger { packets, duration_s, fixed, .. } = part;
    let rate = *packets as f64 / duration_s.max(1e-9);
    let each = fixed.packets as f64 / fixed.hits.max(1) as f64;
    let rows = [
        (
            "dns64d, port and ID known to the forger",
            part.betrayed.to_string(),
            part.betrayed_hits.to_string(),
        ),
        ("a client with fixed ports, model", fixed.packets.to_string(), fixed.hits.to_string()),
        ("dns64d", packets.to_string(), part.hits.to_string()),
    ];
    let open = part
        .open
        .map(|open| ("dns64d with many upstream servers", open.packets.to_string(), open.hits.to_string()));
    let rows: Vec<_> = rows
        .into_iter()
        .chain(open)
        .map(|(whom, packets, hits)| vec![whom.to_owned(), packets, hits])
        .collect();
    format!(
        "\n## The forger\n\n{}\n{}\n{}{}",
        wrapped(&format!("{}. Names are not spelled at random (0x20).", part.origin.in_words())),
        table(&["against", "forged packets", "hits"], &rows),
        wrapped(&format!(
            "dns64d: {rate:.0} packets a second for {duration_s:.0} s, {} questions, {} answered with the \
             truth, {} queries over UDP, {} over TCP, {} near misses{}. The model has {} ports: {each:.0} \
             packets for a hit, {} by the arithmetic.",
            part.questions,
            part.answered,
            part.over_udp,
            part.over_tcp,
            part.near_misses,
            part.met.map(|met| format!(", {met} packets met an open query")).unwrap_or_default(),
            fixed.ports,
            fixed.ports << 16
        )),
        part.open.map(|open| open_queries(&open)).unwrap_or_default()
    )
}

/// What is to be said of the case in which a query is always open.
fn open_queries(open: &Open) -> String {
    let rate = open.packets as f64 / open.duration_s.max(1e-9);
    format!(
        "\n{}",
        wrapped(&format!(
            "With {} upstream servers: {rate:.0} packets a second for {:.0} s, {} questions, {} queries over \
             UDP. {} packets met an open query. {} near misses, {:.0} by the arithmetic: one packet in {} \
             meets the port.",
            open.servers,
            open.duration_s,
            open.questions,
            open.over_udp,
            open.met,
            open.near_misses,
            open.expected_near_misses(),
            open.ports
        ))
    )
}

impl Open {
    /// As many near misses as there would be on average if all packets that met an open query came to a port
    /// drawn at random.
    fn expected_near_misses(&self) -> f64 {
        self.met as f64 / self.ports.max(1) as f64
    }
}

fn goals_of_forger(part: &Forger) -> [Goal; 3] {
    let Forger { packets, hits, fixed, .. } = part;
    let expected = (fixed.ports << 16) as f64;
    let found = fixed.hits.max(1) as f64;
    let off = (fixed.packets as f64 / found / expected - 1.0).abs();
    let works = fixed.hits > 0
        && off <= ERRORS / found.sqrt()
        && part.betrayed > 0
        && part.betrayed_hits == part.betrayed;
    [
        Goal::new(
            "100 million forged packets and no hit",
            format!("{packets} packets, {hits} hits"),
            Reached::if_true(*hits == 0 && *packets >= FORGED_PACKETS),
        ),
        match part.open {
            Some(open) => Goal::new(
                MET,
                format!("{} packets, {} hits", open.met, open.hits),
                Reached::if_true(open.hits == 0 && open.met >= FORGED_PACKETS),
            ),
            None => Goal::not_measured(MET),
        },
        Goal::new(
            "the forger works: it hits where it knows port and ID, and at fixed ports as the arithmetic says",
            format!(
                "{} of {}; {:+.0} %",
                part.betrayed_hits,
                part.betrayed,
                100.0 * (fixed.packets as f64 / found / expected - 1.0)
            ),
            Reached::if_true(works),
        ),
    ]
}

fn identifiers(part: &Identifiers) -> String {
    let head = [
        "server",
        "queries over UDP",
        "different IDs",
        "different ports",
        "IDs that hide the next",
        "ports that hide the next",
        "packets for an even chance, log2",
        "weaknesses",
    ];
    let row = |server: &Identified| {
        let weak = if server.weak.is_empty() { "none found".to_owned() } else { server.weak.join("; ") };
        vec![
            format!("{} {}", server.server, server.version),
            server.queries.decimals(0),
            server.ids.decimals(0),
            server.ports.decimals(0),
            server.ids_hidden.decimals(0),
            server.ports_hidden.decimals(0),
            server.even_chance_bits.decimals(1),
            weak,
        ]
    };
    format!(
        "\n## IDs and ports\n\n{}\n{}",
        wrapped(&format!(
            "{}. The client asks {} q/s for {:.0} s in each repetition. The judgement is that of \
             `sextant auth --observe`. Median (lowest-highest).",
            part.origin.in_words(),
            part.rate_qps,
            part.duration_s
        )),
        table(&head, &part.servers.iter().map(row).collect::<Vec<_>>())
    )
}

fn goal_of_identifiers(part: &Identifiers) -> Goal {
    const GOAL: &str = "IDs and ports judged no worse than those of Unbound";
    let of = |name: &str| part.servers.iter().find(|server| server.server == name);
    let (Some(ours), Some(theirs)) = (of("dns64d"), of("unbound")) else { return Goal::not_measured(GOAL) };
    let bits = |server: &Identified| server.even_chance_bits.median();
    // What is estimated from equal values differs by chance: half a bit is nothing.
    let is_reached = ours.weak.len() <= theirs.weak.len() && bits(ours) >= bits(theirs) - 0.5;
    let text = format!(
        "2^{:.1} and 2^{:.1} packets for an even chance, {} and {} weaknesses",
        bits(ours),
        bits(theirs),
        ours.weak.len(),
        theirs.weak.len()
    );
    Goal::new(GOAL, text, Reached::if_true(is_reached))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attacks::Fixed;

    fn reached(goals: &[Goal]) -> Vec<Reached> {
        goals.iter().map(|goal| goal.reached).collect()
    }

    #[test]
    fn a_forger_that_never_hits_proves_nothing() {
        let fixed = Fixed { ports: 4, hits: 100, packets: 100 << 18 };
        let mut part =
            Forger { packets: FORGED_PACKETS, betrayed: 20, betrayed_hits: 20, fixed, ..Forger::default() };
        let of = |part: &Forger| reached(&goals_of_forger(part));
        assert_eq!(of(&part), [Reached::Yes, Reached::Open, Reached::Yes]);
        part.fixed.packets *= 2;
        part.open = Some(Open { met: FORGED_PACKETS, ..Open::default() });
        assert_eq!(of(&part), [Reached::Yes, Reached::Yes, Reached::No]);
        part.open = Some(Open { met: FORGED_PACKETS - 1, packets: 2 * FORGED_PACKETS, ..Open::default() });
        part = Forger { hits: 1, betrayed_hits: 19, fixed, ..part };
        assert_eq!(of(&part), [Reached::No; 3]);
    }

    fn attacked(per_s: f64) -> Together {
        let attacked = Client { sent: 100, valid: 95, near_pct: 95.0, ..Client::default() };
        let attackers = vec![Attacker { per_s, least_per_s: 10.0, ..Attacker::default() }];
        Together { attacked, attackers, duration_s: 600.0, bound_mib: 1.0, ..Together::default() }
    }

    #[test]
    fn attackers_that_rest_prove_nothing() {
        let holds = |part| Record { together: Some(part), ..Record::default() }.holds();
        assert!(holds(attacked(10.0)) && !holds(attacked(9.0)));
        let mut slow = attacked(10.0);
        slow.attacked.near_pct = 89.0;
        assert!(!holds(slow));
        let [time, rate, ..] = goals_together(&attacked(9.0));
        assert_eq!((time.reached, rate.reached), (Reached::No, Reached::No));
    }

    #[test]
    fn a_short_run_does_not_reach_the_goal_of_ten_minutes() {
        let mut part = attacked(10.0);
        assert_eq!(reached(&goals_together(&part)), [Reached::Yes; 5]);
        part.duration_s = 20.0;
        part.attacked.false_addresses = 1;
        part.peak_mib = 2.0;
        part.exit_code = 1;
        part.attackers[0].per_s = 1.0;
        assert_eq!(reached(&goals_together(&part)), [Reached::No; 5]);
    }
}

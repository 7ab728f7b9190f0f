//! A manifest as the record's list of facts.

use record::Fact;

use super::Manifest;

/// The facts of a machine in the order to be shown; `after` is a manifest taken after the measurement.
///
/// What is unknown both before and after is left out.
pub fn facts(before: &Manifest, after: Option<&Manifest>) -> Vec<Fact> {
    let later = after.map(list);
    let mut facts = Vec::new();
    for (position, (group, name, value)) in list(before).into_iter().enumerate() {
        let later = later.as_ref().and_then(|list| list.get(position)).map(|(_, _, later)| later.clone());
        let after = later.filter(|later| *later != value);
        if value.is_empty() && after.as_ref().is_none_or(String::is_empty) {
            continue;
        }
        facts.push(Fact { group: group.to_owned(), name: name.to_owned(), before: value, after });
    }
    facts
}

/// Always the same facts at the same positions; unknown ones are empty.
fn list(manifest: &Manifest) -> Vec<(&'static str, &'static str, String)> {
    [processor(manifest), system(manifest), network(manifest), load(manifest)].concat()
}

type Row = (&'static str, &'static str, String);

fn processor(manifest: &Manifest) -> Vec<Row> {
    let processor = &manifest.processor;
    let turbo = processor.turbo.map(|on| if on { "on" } else { "off" });
    let mitigations: Vec<_> =
        processor.mitigations.iter().map(|(name, how)| format!("{name}: {how}")).collect();
    [
        ("model", shown(processor.model.as_ref())),
        ("online", processor.online.to_string()),
        ("usable", ranges(&processor.usable)),
        ("threads per core", shown(processor.threads_per_core)),
        ("sockets", shown(processor.sockets)),
        ("NUMA nodes", shown(processor.numa_nodes)),
        ("governor", processor.governors.join(", ")),
        ("frequency driver", shown(processor.frequency_driver.as_ref())),
        (
            "highest frequency",
            processor.frequency_max_khz.map_or_else(String::new, |khz| format!("{} MHz", khz / 1000)),
        ),
        ("turbo", shown(turbo)),
        ("mitigations", mitigations.join("; ")),
        ("not mitigated", processor.vulnerable.join(", ")),
    ]
    .map(|(name, value)| ("Processor", name, value))
    .to_vec()
}

fn system(manifest: &Manifest) -> Vec<Row> {
    [
        ("operating system", shown(manifest.operating_system.as_ref())),
        ("kernel", manifest.kernel_release.clone()),
        ("kernel build", manifest.kernel_version.clone()),
        ("kernel command line", manifest.kernel_command_line.clone()),
        ("hypervisor", shown(manifest.hypervisor.as_ref())),
        ("container", if manifest.container { "yes" } else { "no" }.to_owned()),
        ("clock source", shown(manifest.clock_source.as_ref())),
        ("kernel warnings", manifest.kernel_warnings.join("; ")),
        ("memory", mebibytes(manifest.memory.total_octets)),
    ]
    .map(|(name, value)| ("System", name, value))
    .to_vec()
}

fn network(manifest: &Manifest) -> Vec<Row> {
    let network = &manifest.network;
    let joined = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let used = network.conntrack_entries.unwrap_or(0);
    let table = |max| format!("loaded, {used} of {max} entries used");
    let devices: Vec<_> =
        manifest.devices.iter().map(|device| format!("{}: {}", device.name, device.in_words())).collect();
    let conntrack = network.conntrack_max_entries.map_or_else(|| "not loaded".to_owned(), table);
    [
        ("net.core.rmem_max", shown(network.rmem_max_octets)),
        ("net.core.rmem_default", shown(network.rmem_default_octets)),
        ("net.core.wmem_max", shown(network.wmem_max_octets)),
        ("may force buffers", if network.may_force_buffers { "yes" } else { "no" }.to_owned()),
        ("net.core.netdev_max_backlog", shown(network.netdev_max_backlog_packets)),
        ("net.core.netdev_budget", shown(network.netdev_budget_packets)),
        ("net.ipv4.udp_mem", network.udp_mem_pages.map_or_else(String::new, |pages| joined(&pages))),
        ("net.ipv4.ip_local_port_range", network.port_range.map_or_else(String::new, |range| joined(&range))),
        ("connection tracking", conntrack),
        ("backlog drops since boot", shown(network.backlog_drops)),
        ("devices", devices.join("; ")),
    ]
    .map(|(name, value)| ("Network", name, value))
    .to_vec()
}

fn load(manifest: &Manifest) -> Vec<Row> {
    let load = manifest.load;
    let averages = manifest
        .load_average
        .map_or_else(String::new, |[one, five, fifteen]| format!("{one} {five} {fifteen}"));
    [
        ("load average", averages),
        ("busy", format!("{:.0} % of a processor", load.busy_pct)),
        ("steal", format!("{:.1} % of a processor", load.steal_pct)),
        ("memory available", mebibytes(manifest.memory.available_octets)),
        ("swap in use", mebibytes(manifest.memory.swap_used_octets)),
    ]
    .map(|(name, value)| ("Load", name, value))
    .to_vec()
}

/// Ascending numbers as `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(shown).collect::<Vec<_>>().join(",")
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn mebibytes(octets: Option<u64>) -> String {
    octets.map_or_else(String::new, |octets| format!("{} MiB", octets >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn unknown_facts_are_left_out_and_changes_are_shown() {
        let before = Manifest { clock_source: Some("tsc".into()), ..Manifest::default() };
        let mut after = before.clone();
        after.clock_source = Some("hpet".into());
        after.processor.turbo = Some(true);
        let facts = facts(&before, Some(&after));
        let find = |name: &str| facts.iter().find(|fact| fact.name == name);
        assert_eq!(
            find("clock source").map(|fact| (fact.before.as_str(), fact.after.as_deref())),
            Some(("tsc", Some("hpet")))
        );
        assert_eq!(find("turbo").and_then(|fact| fact.after.as_deref()), Some("on"));
        assert_eq!(find("model"), None);
        assert_eq!(find("container").map(|fact| fact.after.clone()), Some(None));
    }
}

//! Finds the limits of an environment in the measurements of a ladder, with evidence, cost and remedy.

use super::{BURST, LadderRun, PathDevice, Rung};
use crate::limits::WORKER_BUSY;
use crate::number::{count, percent, plural, real};
use crate::preflight::{Fault, Finding, Severity};

/// A reflector that takes longer than this for itself, for each query and in us, is no measure of the
/// machine.
const OWN_US_MAX: f64 = 5.0;
/// One of several workers that does more than this share of the work does it alone.
const ALONE_SHARE: f64 = 0.9;
/// More ports that answer so many times as many queries make a difference.
const MORE_TIMES: f64 = 1.2;
/// Bursts may lose this share of their queries, in percent: pauses of a virtual machine do.
const BURST_LOSS_PCT: f64 = 1.0;

/// What the kernel counts for a query in a receive buffer, in octets: the packet's memory, not its length.
const QUERY_OCTETS: u64 = 800;

/// What a climb shows, the limit first.
pub fn judge(climb: &LadderRun) -> Vec<Finding> {
    let rules: [fn(&LadderRun) -> Option<Finding>; 6] =
        [limit, reflector, workers, port_spread, socket_buffers, backlog];
    let mut findings: Vec<Finding> = rules.iter().filter_map(|rule| rule(climb)).collect();
    findings.extend(climb.devices.iter().map(receive_queues));
    findings.extend(climb.rungs.iter().filter_map(void));
    findings
}

impl Rung {
    /// The share of its busiest worker in what all do; `None` where it is not known or there is one worker.
    fn busiest_share(&self) -> Option<f64> {
        let seen = self.trial.observation.as_ref()?;
        let all_pct = seen.dut_cpu_pct.filter(|pct| *pct > 0.0)?;
        self.workers.filter(|&workers| workers > 1)?;
        Some((seen.dut_hottest_thread_pct? / all_pct).min(1.0))
    }

    fn busiest_pct(&self) -> Option<f64> {
        self.trial.observation.as_ref()?.dut_hottest_thread_pct
    }
}

impl LadderRun {
    fn closed(&self) -> impl Iterator<Item = &Rung> {
        self.rungs.iter().filter(|rung| !rung.bursts)
    }

    /// The measurement with the Tester as it is told to be, and all workers.
    pub(super) fn as_told(&self) -> Option<&Rung> {
        let own_ports = self.rungs.first()?.ports;
        self.closed().filter(|rung| rung.ports == own_ports).last()
    }

    pub(super) fn fastest(&self) -> Option<&Rung> {
        self.closed().max_by(|a, b| a.rate_qps.total_cmp(&b.rate_qps))
    }
}

fn rate(rung: &Rung) -> String {
    format!("{} q/s", count(rung.rate_qps as u64))
}

/// What the environment carries, and who was at his limit then.
fn limit(climb: &LadderRun) -> Option<Finding> {
    let fastest = climb.fastest()?;
    let who = match fastest.busiest_pct() {
        Some(pct) if pct >= WORKER_BUSY.value => {
            format!("a worker of it was busy for {} of a processor's time", percent(pct))
        }
        Some(pct) => format!(
            "its busiest worker was busy for {} alone: the Tester or the way between limits",
            percent(pct)
        ),
        None => "its process is not known (--pid), so who limits is not either".to_owned(),
    };
    let evidence =
        format!("{} at most from who answers ({}, {}); {who}", rate(fastest), fastest.name, ports(fastest));
    Some(Finding::new("environment", evidence, None))
}

fn ports(rung: &Rung) -> String {
    plural(rung.ports, "source port", "source ports")
}

/// A reflector that computes is no measure of the rest.
fn reflector(climb: &LadderRun) -> Option<Finding> {
    let rung = climb.fastest()?;
    let own_us = rung.own_us_per_query?;
    let all_us = rung.trial.observation.as_ref()?.dut_cpu_us_per_query?;
    let evidence =
        format!("{} us for each query, {} us of it its own", real(all_us, 1), real(own_us.min(all_us), 1));
    let slow = own_us > OWN_US_MAX && own_us * 2.0 > all_us;
    let cost =
        "who answers sets the rate, not the machine: compare servers with a reflector that does nothing";
    let remedy = "ask 'sextant echo' without --work, in a release build";
    let fault = slow.then(|| Fault::new(Severity::Warning, cost, remedy));
    Some(Finding::new("reflector", evidence, fault))
}

/// Whether more workers answer more.
fn workers(climb: &LadderRun) -> Option<Finding> {
    let (one, all) = (climb.rungs.first()?, climb.as_told()?);
    let (few, many) = (one.workers?, all.workers?);
    if few == many {
        return None;
    }
    let times = all.rate_qps / one.rate_qps.max(1.0);
    let processors = plural(climb.server_cpus.len(), "processor", "processors");
    let evidence = format!("{}, and x {} with {many} workers on {processors}", rate(one), real(times, 2));
    let could = climb.server_cpus.len() > 1 && one.busiest_pct().is_some_and(|pct| pct >= WORKER_BUSY.value);
    let cost = "what all workers share limits: a server with more threads would look no faster";
    let remedy = "give the Tester more (--threads, --io gso), then look at the receive queues and their hash";
    let fault = (could && times < MORE_TIMES).then(|| Fault::new(Severity::Warning, cost, remedy));
    Some(Finding::new("workers", evidence, fault))
}

/// Whether clients reach all workers.
fn port_spread(climb: &LadderRun) -> Option<Finding> {
    let told = climb.as_told()?;
    let cost = "the other workers have nothing to do: the server looks as slow as with one thread";
    let more = "use more --ports";
    if let Some(share) = told.busiest_share() {
        let workers = told.workers.unwrap_or_default();
        let evidence = format!(
            "{} over {workers} workers, of which the busiest does {} of the work",
            ports(told),
            percent(share * 100.0)
        );
        let remedy = match told.ports {
            1 => more,
            _ => "spread datagrams by their ports: SO_REUSEPORT, ethtool -N DEVICE rx-flow-hash udp6 sdfn",
        };
        let fault = (share > ALONE_SHARE).then(|| Fault::new(Severity::Warning, cost, remedy));
        return Some(Finding::new("port spread", evidence, fault));
    }
    let most = climb.closed().max_by_key(|rung| rung.ports).filter(|rung| rung.ports > told.ports)?;
    let times = most.rate_qps / told.rate_qps.max(1.0);
    let evidence =
        format!("{} from {}, and x {} from {}", rate(told), ports(told), real(times, 2), ports(most));
    let fault = (times > MORE_TIMES).then(|| Fault::new(Severity::Warning, cost, more));
    Some(Finding::new("port spread", evidence, fault))
}

/// Whether a burst fits into the sockets of who answers.
fn socket_buffers(climb: &LadderRun) -> Option<Finding> {
    let bursts = climb.rungs.iter().find(|rung| rung.bursts)?;
    let sent = bursts.trial.sent.max(1);
    let at_socket = bursts.trial.observation.as_ref().and_then(|seen| seen.dut_socket_drops);
    let (lost, place) = match at_socket {
        Some(drops) => (drops, "dropped at its sockets"),
        None => (bursts.trial.lost, "lost, where is not known (--pid)"),
    };
    let lost_pct = lost as f64 * 100.0 / sent as f64;
    let mut evidence = format!("{} at {}: {} {place}", bursts.name, rate(bursts), percent(lost_pct));
    let holds = climb.server_buffer_octets.map(|octets| octets / QUERY_OCTETS);
    if let Some(queries) = holds {
        evidence += &format!("; the smallest of them holds about {} queries", count(queries));
    }
    let small = holds.is_some_and(|queries| queries < BURST.into());
    let cost = "queries that come together are lost, and the server is blamed";
    let remedy = "give its sockets larger receive buffers: its own option, and net.core.rmem_max";
    let fault = (small || lost_pct > BURST_LOSS_PCT).then(|| Fault::new(Severity::Warning, cost, remedy));
    Some(Finding::new("socket buffers", evidence, fault))
}

/// Packets that the kernel had no room for, before any socket.
fn backlog(climb: &LadderRun) -> Option<Finding> {
    let seen = climb.rungs.iter().filter_map(|rung| rung.trial.observation.as_ref());
    let drops: u64 = seen.filter_map(|seen| seen.softnet_drops).reduce(u64::saturating_add)?;
    let cost = "they are lost before any socket, and no server counts them";
    let command = "sysctl -w net.core.netdev_max_backlog=10000";
    let fault = (drops > 0).then(|| Fault::mended_by(command, cost));
    Some(Finding::new("kernel backlog", format!("{} packets did not fit", count(drops)), fault))
}

/// As many queues as threads, so that each processor takes in its own.
fn receive_queues(on_the_way: &PathDevice) -> Finding {
    let PathDevice { whose, threads, device } = on_the_way;
    let queues = device.rx_queues.unwrap_or(1);
    let name = &device.name;
    let evidence = format!(
        "{name} ({}) has {} for {}",
        device.driver,
        plural(queues, "receive queue", "receive queues"),
        plural(*threads, "thread", "threads")
    );
    let cost = "fewer processors take packets in than threads answer them";
    let channels = if device.is_hardware() { format!("combined {threads}") } else { format!("rx {threads}") };
    let remedy = format!("where it is: ethtool -L {name} {channels}");
    let fault = (queues < *threads).then(|| Fault::new(Severity::Warning, cost, remedy));
    Finding::new(format!("{whose}'s queues"), evidence, fault)
}

/// A measurement that the Tester spoilt.
fn void(rung: &Rung) -> Option<Finding> {
    let why = rung.trial.void.clone()?;
    let remedy = "mend what is found above, then measure again";
    let fault = Fault::new(Severity::Warning, "it says nothing of who answers", remedy);
    Some(Finding::new(format!("{}: void", rung.name), why, Some(fault)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::NetworkDevice;
    use crate::{Observation, Trial};

    fn rung(name: &str, workers: usize, ports: usize, rate_qps: f64, busy_pct: [f64; 2]) -> Rung {
        let [all, busiest] = busy_pct;
        let observation = Observation {
            dut_cpu_pct: Some(all),
            dut_hottest_thread_pct: Some(busiest),
            dut_cpu_us_per_query: Some(all * 1e4 / rate_qps),
            dut_socket_drops: Some(0),
            softnet_drops: Some(0),
            ..Observation::default()
        };
        Rung {
            name: name.into(),
            workers: Some(workers),
            ports,
            rate_qps,
            own_us_per_query: Some(0.3),
            trial: Trial { sent: 1000, observation: Some(observation), ..Trial::default() },
            ..Rung::default()
        }
    }

    fn seen(rung: &mut Rung) -> &mut Observation {
        rung.trial.observation.get_or_insert_default()
    }

    fn queues(queues: usize) -> PathDevice {
        let device = NetworkDevice {
            name: "tester0".into(),
            driver: "veth".into(),
            rx_queues: Some(queues),
            ..NetworkDevice::default()
        };
        PathDevice { whose: "server".into(), threads: 2, device }
    }

    fn fit() -> LadderRun {
        LadderRun {
            server_cpus: vec![0, 1],
            rungs: vec![
                rung("1 worker", 1, 16, 400e3, [99.0, 99.0]),
                rung("2 workers", 2, 16, 780e3, [190.0, 98.0]),
                rung("1 port", 2, 1, 400e3, [99.0, 99.0]),
                Rung { bursts: true, ..rung("bursts of 256", 2, 16, 150e3, [40.0, 22.0]) },
            ],
            devices: vec![queues(2)],
            server_buffer_octets: Some(425_984),
        }
    }

    fn faults(climb: &LadderRun) -> Vec<String> {
        let findings = judge(climb).into_iter().filter(|finding| finding.severity > Severity::Ok);
        findings
            .map(|finding| {
                assert!(!finding.cost.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
                finding.what
            })
            .collect()
    }

    #[test]
    fn a_fit_environment_has_no_fault_and_says_what_it_carries() {
        assert_eq!(faults(&fit()), [""; 0]);
        let first = judge(&fit()).remove(0);
        assert!(first.evidence.starts_with("780,000 q/s at most"), "{}", first.evidence);
        assert!(first.evidence.contains("98.00 % of a processor"), "{}", first.evidence);
        assert!(judge(&LadderRun::default()).is_empty());
    }

    type Change = fn(&mut LadderRun);

    #[test]
    fn each_fault_is_found_alone() {
        let cases: [(&str, Change); 7] = [
            ("reflector", |climb| {
                for rung in &mut climb.rungs {
                    rung.own_us_per_query = Some(40.0);
                    seen(rung).dut_cpu_us_per_query = Some(43.0);
                }
            }),
            ("workers", |climb| climb.rungs[1].rate_qps = 420e3),
            ("port spread", |climb| seen(&mut climb.rungs[1]).dut_hottest_thread_pct = Some(188.0)),
            ("socket buffers", |climb| seen(&mut climb.rungs[3]).dut_socket_drops = Some(300)),
            ("socket buffers", |climb| climb.server_buffer_octets = Some(4608)),
            ("kernel backlog", |climb| seen(&mut climb.rungs[2]).softnet_drops = Some(5)),
            ("server's queues", |climb| climb.devices = vec![queues(1)]),
        ];
        for (what, change) in cases {
            let mut climb = fit();
            change(&mut climb);
            assert_eq!(faults(&climb), [what]);
        }
    }

    #[test]
    fn without_the_process_ports_and_losses_still_tell() {
        let mut climb = fit();
        climb.server_cpus.clear();
        climb.rungs.remove(0);
        for rung in &mut climb.rungs {
            (rung.trial.observation, rung.workers, rung.own_us_per_query) = (None, None, None);
        }
        assert_eq!(faults(&climb), [""; 0]);
        climb.rungs[0].ports = 1;
        climb.rungs[1].ports = 16;
        climb.rungs[1].rate_qps = 1000e3;
        climb.rungs[2].trial.lost = 200;
        assert_eq!(faults(&climb), ["port spread", "socket buffers"]);
        climb.rungs[2].trial.void = Some("late".into());
        assert_eq!(faults(&climb).len(), 3);
    }
}

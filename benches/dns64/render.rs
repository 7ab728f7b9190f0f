//! The tables.

use crate::book::{Book, Cell, Figure, HITS, LOADS_PCT, MISSES, SHARES_PCT};
use crate::options::Options;
use crate::place::Placement;
use crate::table::{Sample, table};
use crate::text;
use lab::peers::{self, Server};

/// The server that the others are compared with.
const OURS: &str = "dns64d";

/// All of them, with the conditions.
pub fn all(place: &Placement, options: &Options, book: &Book) -> String {
    let tables = Tables { servers: &options.servers, book };
    let mut out =
        format!("{}\n\n## Rates, one core\n\n{}", conditions(place, options, book), tables.rates(1));
    if options.two_cores {
        let shared = if place.shares(2) { ", one of them shared with the Tester" } else { "" };
        out += &format!("\n## Rates, two cores{shared}\n\n{}", tables.rates(2));
    }
    out += &format!("\n## Processor time, one core\n\n{}", tables.costs());
    out += &format!("\n## Latency, one core, names that are not cached\n\n{}", tables.latencies());
    out += &format!("\n## Start and memory, one core\n\n{}", tables.sizes());
    out += &format!("\n## Cached names and names with AAAA records, one core\n\n{}", tables.cells());
    out
}

/// The machine, the programs and the trials, in one paragraph.
fn conditions(place: &Placement, options: &Options, book: &Book) -> String {
    let version = |peer: &&Server| peers::version(peer).unwrap_or_else(|error| error.to_string());
    let servers: Vec<String> =
        options.servers.iter().map(|peer| format!("{} {}", peer.name, version(peer))).collect();
    let mut text = format!(
        "{}; {}; {}. Median (lowest-highest) of {} rounds; trials of {} s (search), {} s (latency), {} s (closed loop).",
        text::machine(),
        place.in_words(),
        servers.join(", "),
        options.rounds,
        options.search.as_secs_f64(),
        options.latency.as_secs_f64(),
        options.cell.as_secs_f64(),
    );
    if !options.missing.is_empty() {
        text += &format!(" SKIPPED: {}.", options.missing.join("; "));
    }
    let failures: Vec<String> = book.failures().collect();
    if !failures.is_empty() {
        text += &format!(" FAILED: {}.", failures.join("; "));
    }
    text
}

struct Tables<'a> {
    servers: &'a [&'static Server],
    book: &'a Book,
}

impl Tables<'_> {
    fn rates(&self, cores: usize) -> String {
        let figures = [Figure::Rate(cores), Figure::Most(cores, MISSES), Figure::Most(cores, HITS)];
        let head = [
            "server",
            "RFC 8219 rate, 1000 q/s",
            "dns64d's",
            "misses, closed loop, 1000 q/s",
            "dns64d's",
            "hits, closed loop, 1000 q/s",
            "dns64d's",
            "steal, %",
        ];
        self.table(&head, &figures, Sample::thousands)
    }

    fn costs(&self) -> String {
        let figures = [
            Figure::CpuAt(50),
            Figure::Cpu(1, MISSES),
            Figure::Core(1, MISSES),
            Figure::Cpu(1, HITS),
            Figure::Core(1, HITS),
        ];
        let head = [
            "server",
            "a miss at 50 % of its rate, µs",
            "dns64d's",
            "a miss, closed loop, µs",
            "dns64d's",
            "a miss, its processor, µs",
            "dns64d's",
            "a hit, closed loop, µs",
            "dns64d's",
            "a hit, its processor, µs",
            "dns64d's",
            "steal, %",
        ];
        self.table(&head, &figures, |sample| sample.decimals(2))
    }

    fn sizes(&self) -> String {
        let figures = [Figure::Start, Figure::MemoryEmpty, Figure::MemoryFull];
        let head = [
            "server",
            "start, s",
            "dns64d's",
            "memory before the first query, MiB",
            "dns64d's",
            "memory after the run, MiB",
            "dns64d's",
            "steal, %",
        ];
        self.table(&head, &figures, |sample| sample.decimals(2))
    }

    /// A row for each server: figures, each with the quotient by dns64d's, and the steal during them.
    fn table(&self, head: &[&str], figures: &[Figure], show: impl Fn(&Sample) -> String) -> String {
        let row = |server: &&Server| {
            let mut cells = vec![server.name.to_owned()];
            for &figure in figures {
                cells.push(show(&self.book.values(server.name, figure)));
                cells.push(self.ratio(server.name, figure));
            }
            cells.push(self.book.steal(server.name, figures).decimals(1));
            cells
        };
        table(head, &self.servers.iter().map(row).collect::<Vec<_>>())
    }

    /// A server's median as a multiple of dns64d's.
    fn ratio(&self, server: &str, figure: Figure) -> String {
        let (theirs, ours) = (self.book.values(server, figure), self.book.values(OURS, figure));
        if theirs.is_empty() || ours.median() <= 0.0 {
            return "-".into();
        }
        format!("x {:.2}", theirs.median() / ours.median())
    }

    fn latencies(&self) -> String {
        let head = [
            "server",
            "load, % of its rate",
            "1000 q/s",
            "p50, µs",
            "dns64d's",
            "p99, µs",
            "dns64d's",
            "p99.9, µs",
            "dns64d's",
            "steal, %",
        ];
        let mut rows = Vec::new();
        for server in self.servers.iter().map(|server| server.name) {
            for load_pct in LOADS_PCT {
                let figures = [0, 1, 2].map(|at| Figure::Latency(load_pct, at));
                let rate = self.book.values(server, Figure::LatencyRate(load_pct)).thousands();
                let mut cells = vec![server.to_owned(), load_pct.to_string(), rate];
                for figure in figures {
                    cells.push(self.book.values(server, figure).decimals(0));
                    cells.push(self.ratio(server, figure));
                }
                cells.push(self.book.steal(server, &figures).decimals(1));
                rows.push(cells);
            }
        }
        table(&head, &rows)
    }

    /// Cached share by AAAA share: answers per second and µs for each.
    fn cells(&self) -> String {
        let mut head = vec!["server".to_owned(), "cached, %".to_owned()];
        for aaaa_pct in SHARES_PCT {
            head.push(format!("{aaaa_pct} % with AAAA, 1000 q/s"));
            head.push("dns64d's".into());
            head.push("µs each".into());
        }
        head.push("steal, %".into());
        let mut rows = Vec::new();
        for server in self.servers.iter().map(|server| server.name) {
            for cached_pct in SHARES_PCT {
                let (mut cells, mut figures) = (vec![server.to_owned(), cached_pct.to_string()], Vec::new());
                for aaaa_pct in SHARES_PCT {
                    let cell = Cell { cached_pct, aaaa_pct };
                    let most = Figure::Most(1, cell);
                    cells.push(self.book.values(server, most).thousands());
                    cells.push(self.ratio(server, most));
                    cells.push(self.book.values(server, Figure::Cpu(1, cell)).decimals(1));
                    figures.push(most);
                }
                cells.push(self.book.steal(server, &figures).decimals(1));
                rows.push(cells);
            }
        }
        table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    }
}

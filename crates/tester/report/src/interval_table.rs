//! The interval in place of a rate, as a table for papers.

use record::Results;
use record::number::{count, short};

use super::interval::interval;
use super::table::{Cell, Column, Table, table};
use super::words::dut_name;

/// The interval for papers.
pub(crate) fn interval_table(results: &Results) -> Option<Table> {
    let found = interval(results)?;
    let pct = |value: Option<f64>| Cell::maybe(value, |pct| short(pct.round())).in_unit("%");
    let row = vec![
        Cell::text(&dut_name(results)),
        Cell::count(found.at_least_qps),
        Cell::maybe(found.below_qps.map(|qps| qps as f64), |qps| count(qps as u64)),
        Cell::count(found.trials),
        Cell::count(found.void),
        pct(found.steal_pct),
        pct(found.other_programs_pct),
    ];
    let columns = [
        Column("Server", false),
        Column("At least, q/s", true),
        Column("Below, q/s", true),
        Column("Trials", true),
        Column("Void", true),
        Column("Hypervisor, %", true),
        Column("Other programs, %", true),
    ];
    Some(table("The interval of the rate", &columns, vec![row]).named("interval"))
}

//! The Measurer in the kernel: a generator and a sink as XDP programs, and a reflector to try them on.
//!
//! The generator is run by `BPF_PROG_TEST_RUN` on frames of the kernel's own, one thread for each processor.
//! The generator reads the clock for every frame and drops the frame until the next query is due. The sink,
//! on the same device, finds the query of each answer by the name, and computes from the number of the query
//! when it was due, so that the sink keeps only two bits for each query. Answers that are not plainly right
//! or wrong are judged in user space, by the same rules as any other answer.

mod accounts;
mod counters;
mod doubts;
mod generator;
mod parameters;
mod refusal;
mod run;

pub use parameters::check;
pub use refusal::Refusal;
pub use run::run;

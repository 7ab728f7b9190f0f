//! The threads of the AuthDNS and their processors.

use std::fmt;

use authdns::Io;
use record::number::plural;

use super::tester::Tester;

/// What is asked of the AuthDNS's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthThreads {
    /// How many, 0 for the Measurer's first one; by default what the processors allow.
    pub count: Option<usize>,
    /// Their processors, at least one thread on each; by default those that the Measurer leaves.
    pub cpus: Vec<usize>,
}

impl AuthThreads {
    /// The number of the AuthDNS's own threads, if it has any.
    pub fn number(&self) -> usize {
        self.count.unwrap_or(1).max(self.cpus.len()).max(1)
    }

    /// Whether several threads or their processors are asked for, neither of which a program in the kernel
    /// has.
    pub fn are_chosen(&self) -> bool {
        self.count > Some(1) || !self.cpus.is_empty()
    }

    /// The processors of the AuthDNS's own threads; empty where it has none.
    pub fn processors(&self, tester: &Tester, io: Io, hosted: bool) -> Vec<usize> {
        if hosted || io == Io::Kernel {
            return Vec::new();
        }
        let left = || sys::cpu::available().into_iter().filter(|cpu| !tester.cpus.contains(cpu)).collect();
        if self.cpus.is_empty() { left() } else { self.cpus.clone() }
    }
}

impl fmt::Display for AuthThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plural(self.number(), "thread", "threads"))?;
        if self.cpus.is_empty() { Ok(()) } else { write!(f, " on processors {:?}", self.cpus) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_thread_on_each_processor() {
        let threads = |count, cpus: &[usize]| AuthThreads { count, cpus: cpus.to_vec() };
        let numbers =
            [threads(None, &[]), threads(Some(0), &[]), threads(Some(2), &[3]), threads(None, &[3, 4])]
                .map(|threads| (threads.number(), threads.are_chosen()));
        assert_eq!(numbers, [(1, false), (1, false), (2, true), (2, true)]);
        assert!(!threads(Some(1), &[]).are_chosen());
        assert_eq!(threads(Some(2), &[3]).to_string(), "2 threads on processors [3]");
    }
}

//! Loading an embedded object with its parameters.

use std::error::Error;

use aya::maps::{Map, MapData, PerCpuArray};
use aya::programs::{ProgramFd, Xdp};
use aya::{Ebpf, EbpfLoader};

use super::{BpfError, available, features};

/// A loaded object: its programs and maps live as long as this.
#[derive(Debug)]
pub struct Object {
    name: &'static str,
    ebpf: Ebpf,
}

/// The longest reason that is shown: the verifier can write books.
const REASON_MAX_CHARS: usize = 600;

impl Object {
    /// Loads an object with `globals` (read-only variables, in the program's layout) and the sizes of maps.
    ///
    /// # Errors
    /// XDP is not available, or the kernel does not take the maps.
    pub fn load(
        name: &'static str,
        octets: &[u8],
        globals: &[(&str, &[u8])],
        sizes: &[(&str, u32)],
    ) -> Result<Self, BpfError> {
        available().map_err(BpfError::Capabilities)?;
        let mut loader = EbpfLoader::new();
        for (variable, value) in globals {
            loader.override_global(variable, *value, true);
        }
        for (map, entries) in sizes {
            loader.map_max_entries(map, *entries);
        }
        let ebpf = loader.load(octets).map_err(|error| refused(name, &error))?;
        Ok(Self { name, ebpf })
    }

    /// Loads one of its programs into the kernel, to be attached or run without a device.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn program_fd(&mut self, program: &str) -> Result<ProgramFd, BpfError> {
        let name = self.name;
        let found = self.ebpf.program_mut(program).ok_or_else(|| absent(name, program))?;
        let found: &mut Xdp = found.try_into().map_err(|error| refused(name, &error))?;
        found.load().map_err(|error| refused(name, &error))?;
        let descriptor = found.fd().map_err(|error| refused(name, &error))?;
        descriptor
            .try_clone()
            .map_err(|error| BpfError::Io { operation: "keeping a program's descriptor", error })
    }

    /// The error of a part of this object that the kernel or the loader did not take.
    pub fn refused(&self, error: &dyn Error) -> BpfError {
        refused(self.name, error)
    }

    /// Takes a map out, to use it by its kind.
    pub fn take_map(&mut self, map: &str) -> Result<Map, BpfError> {
        self.ebpf.take_map(map).ok_or_else(|| absent(self.name, map))
    }

    /// Takes out counters of which every processor has its own.
    pub fn counters<const N: usize>(&mut self, map: &str) -> Result<Counters<N>, BpfError> {
        let name = self.name;
        PerCpuArray::try_from(self.take_map(map)?).map(Counters).map_err(|error| refused(name, &error))
    }
}

fn absent(name: &'static str, part: &str) -> BpfError {
    BpfError::Refused { name, lacking: Vec::new(), reason: format!("it has no '{part}'") }
}

/// What the kernel lacks, and the whole chain of causes in one line of bounded length.
pub(super) fn refused(name: &'static str, error: &dyn Error) -> BpfError {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
        cause = deeper.source();
    }
    let reason: String = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = match reason.char_indices().nth(REASON_MAX_CHARS) {
        // The verifier's complaint is the last thing that it writes.
        Some(_) => {
            let skip = reason.chars().count() - REASON_MAX_CHARS;
            format!("... {}", reason.chars().skip(skip).collect::<String>())
        }
        None => reason,
    };
    BpfError::Refused { name, lacking: features::lacking(), reason }
}

/// Counters that each processor counts for itself.
pub struct Counters<const N: usize>(PerCpuArray<MapData, u64>);

impl<const N: usize> Counters<N> {
    /// Their sums over all processors.
    pub fn read(&self) -> [u64; N] {
        // Every index is below the size of the map, for which the kernel knows no error.
        std::array::from_fn(|index| self.0.get(&(index as u32), 0).map_or(0, |values| values.iter().sum()))
    }
}

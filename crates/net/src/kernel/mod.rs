//! The Measurer in the kernel: a generator and a sink as XDP programs, and a reflector to try them on.

mod reflector;

pub use reflector::{Reflector, ReflectorCounters};

//! Any text as dns64d's configuration: it becomes settings that a machine can be made of, or one line of
//! error.

use std::sync::Arc;

use daemon::Config;
use server_core::Machine;
use server_core::machine::Shared;
use server_core::settings::IN_FLIGHT_MAX;

/// Reads the text.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Config::parse(text, "fuzz.toml") {
        Ok(config) => check(config),
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz.toml") && !line.contains('\n'), "{line:?}");
        }
    }
}

fn check(config: Config) {
    let settings = config.settings;
    assert!(!config.listen.is_empty() && !settings.views.is_empty());
    assert_eq!(config.upstreams.len(), settings.upstreams.len());
    assert!(settings.groups.iter().all(|group| !group.is_empty()), "each task has a server");
    assert!(settings.groups.iter().flatten().all(|&upstream| upstream < settings.upstreams.len()));
    let listeners = settings.views.iter().flat_map(|view| &view.listeners);
    assert!(listeners.into_iter().all(|&listener| listener < config.listen.len()));
    assert!((1..=IN_FLIGHT_MAX).contains(&settings.in_flight));
    assert!(settings.udp_payload_octets >= 512);
    let asking = settings.asking;
    assert!((1..=3).contains(&asking.tries) && asking.ports > 0 && asking.timeout_ns > 0);
    for warning in &config.warnings {
        assert!(!warning.contains('\n'), "{warning:?}");
    }
    let shared = Shared::new(&settings, 0, [0; 32]);
    let machine = Machine::new(Arc::new(settings), shared, [0; 32]);
    assert_eq!(machine.poll_timeout(), None);
}

use proptest::prelude::*;

use super::*;
use crate::Protocol;

const LIMITS: Limits = Limits {
    connections: 4,
    connections_per_network: 3,
    connections_per_address: 2,
    pipelined: 8,
    idle: Duration::from_secs(10),
    message_timeout: Duration::from_secs(5),
};

/// A pool, and its connections in the order in which they came.
#[derive(Default)]
struct Room {
    pool: Pool,
    usages: Vec<Arc<Usage>>,
}

impl Room {
    /// A client comes at the time of its number. Returns the number of the connection that goes.
    fn enter(&mut self, limits: &Limits, client: &str) -> Result<Option<usize>, Full> {
        let number = self.usages.len();
        let usage = Usage::new(Protocol::Tcp, limits, number as u64);
        self.usages.push(usage.clone());
        let gone = self.pool.enter(limits, number as u64, client.parse().unwrap(), usage)?;
        Ok(gone.map(|gone| self.usages.iter().position(|usage| Arc::ptr_eq(usage, &gone)).unwrap()))
    }

    /// Gives a connection a query that is not answered.
    fn occupy(&self, number: usize) {
        self.usages[number].pipeline.try_acquire().unwrap().forget();
    }
}

#[test]
fn an_address_displaces_its_own_idle_connections() {
    let mut room = Room::default();
    assert_eq!(room.enter(&LIMITS, "192.0.2.1"), Ok(None));
    assert_eq!(room.enter(&LIMITS, "192.0.2.1"), Ok(None));
    assert_eq!(room.enter(&LIMITS, "::ffff:192.0.2.1"), Ok(Some(0)));
    room.usages[1].touch(99);
    assert_eq!(room.enter(&LIMITS, "192.0.2.1"), Ok(Some(2)), "the first was used later");
    room.occupy(1);
    room.occupy(3);
    assert_eq!(room.enter(&LIMITS, "192.0.2.1"), Err(Full), "both have queries in progress");
}

#[test]
fn one_host_does_not_close_out_its_network() {
    let mut room = Room::default();
    for host in ["192.0.2.2", "192.0.2.1", "192.0.2.1"] {
        assert_eq!(room.enter(&LIMITS, host), Ok(None));
    }
    (0..3).for_each(|number| room.occupy(number));
    assert_eq!(room.enter(&LIMITS, "192.0.2.3"), Ok(Some(1)), "the host with two gives one");
    room.occupy(3);
    assert_eq!(room.enter(&LIMITS, "192.0.2.4"), Err(Full), "it would hold no less than the others");
    let limits = Limits { connections_per_address: 3, connections: 9, ..LIMITS };
    let mut room = Room::default();
    for _ in 0..3 {
        assert_eq!(room.enter(&limits, "192.0.2.1"), Ok(None));
    }
    (0..3).for_each(|number| room.occupy(number));
    assert_eq!(room.enter(&limits, "192.0.2.3"), Ok(Some(0)), "three queries make no claim to all places");
}

#[test]
fn one_network_does_not_close_out_the_others() {
    let mut room = Room::default();
    assert_eq!(room.enter(&LIMITS, "198.51.100.1"), Ok(None));
    for host in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        assert_eq!(room.enter(&LIMITS, host), Ok(None));
    }
    (0..4).for_each(|number| room.occupy(number));
    assert_eq!(room.enter(&LIMITS, "203.0.113.1"), Ok(Some(1)), "the network with three gives one");
    room.occupy(4);
    assert_eq!(room.enter(&LIMITS, "203.0.113.1"), Err(Full), "all networks hold two at most");
}

#[test]
fn of_equal_networks_the_longest_idle_connection_goes() {
    let mut room = Room::default();
    for host in 1..=4 {
        assert_eq!(room.enter(&LIMITS, &format!("10.0.{host}.1")), Ok(None));
    }
    room.usages[0].touch(10);
    room.occupy(1);
    assert_eq!(room.enter(&LIMITS, "10.0.9.1"), Ok(Some(2)));
}

#[test]
fn whoever_has_gone_makes_room() {
    let mut room = Room::default();
    let limits = Limits { connections: 1, ..LIMITS };
    assert_eq!(room.enter(&limits, "192.0.2.1"), Ok(None));
    assert!(room.pool.leave(0).is_some() && room.pool.leave(0).is_none());
    assert_eq!(room.enter(&limits, "192.0.2.1"), Ok(None));
    assert_eq!((room.pool.networks.len(), room.pool.ranks.len()), (1, 1));
    let none = Limits { connections: 0, ..LIMITS };
    assert_eq!(Room::default().enter(&none, "192.0.2.1"), Err(Full));
}

#[test]
fn half_of_what_a_client_can_have_is_a_crowd() {
    let mut room = Room::default();
    let crowded = |room: &Room, client: &str| room.pool.is_crowded(&LIMITS, client.parse().unwrap());
    assert!(!crowded(&room, "192.0.2.1"));
    room.enter(&LIMITS, "192.0.2.1").unwrap();
    assert!(crowded(&room, "192.0.2.1") && !crowded(&room, "192.0.2.2"));
    room.enter(&LIMITS, "192.0.2.2").unwrap();
    assert!(crowded(&room, "198.51.100.1"));
}

#[test]
fn addresses_and_networks_are_cut_where_they_should_be() {
    let address = |text: &str| address_of(text.parse().unwrap()).to_string();
    let network = |text: &str| network_of(text.parse().unwrap()).to_string();
    assert_eq!((address("192.0.2.77"), network("192.0.2.77")), ("192.0.2.77".into(), "192.0.2.0".into()));
    assert_eq!(network("::ffff:192.0.2.77"), "192.0.2.0");
    let v6 = "2001:db8:1:22ff:3::1";
    assert_eq!((address(v6), network(v6)), ("2001:db8:1:22ff::".into(), "2001:db8:1:2200::".into()));
}

#[test]
fn a_full_pool_has_a_tenth_of_the_patience() {
    let limits = Limits { connections: 100, idle: Duration::from_secs(10), ..LIMITS };
    let ms = |connections| pressed_idle(&limits, connections).map(|idle| idle.as_millis());
    assert_eq!((ms(0), ms(50)), (None, None));
    assert_eq!((ms(51), ms(75), ms(90)), (Some(9800), Some(5000), Some(2000)));
    assert_eq!((ms(99), ms(100), ms(200)), (Some(1000), Some(1000), Some(1000)));
}

#[test]
fn under_pressure_the_idle_go_earlier() {
    let mut room = Room::default();
    for host in 1..=4 {
        room.enter(&LIMITS, &format!("10.0.{host}.1")).unwrap();
    }
    room.occupy(0);
    room.usages[1].touch(600);
    assert!(room.pool.leave_idle(&LIMITS, 1_000_001).is_empty(), "a second is left to each");
    let gone = room.pool.leave_idle(&LIMITS, 1_000_003);
    assert_eq!(gone.len(), 2);
    assert!(room.pool.leave_idle(&LIMITS, 5_000_000).is_empty(), "half of the places are free again");
}

proptest! {
    /// Whatever happens, the limits hold, and a client that holds less than another gets in.
    #[test]
    fn the_limits_hold_and_nobody_is_closed_out(
        steps in prop::collection::vec((0u8..4, 0u8..3, any::<bool>(), any::<bool>()), 1..120),
    ) {
        let mut room = Room::default();
        for (network, host, occupies, leaves) in steps {
            let client: IpAddr = format!("10.0.{network}.{host}").parse().unwrap();
            let held = room.pool.held(address_of(client), network_of(client));
            let most = room.pool.ranks.last().map_or(0, |&(count, ..)| count);
            let entered = room.enter(&LIMITS, &client.to_string());
            if held.by_network + 1 < most && held.by_address < LIMITS.connections_per_address {
                prop_assert!(entered.is_ok());
            }
            let number = room.usages.len() - 1;
            if occupies {
                room.occupy(number);
            }
            if leaves {
                room.pool.leave(number as u64 / 2);
            }
            let pool = &room.pool;
            prop_assert!(pool.places.len() <= LIMITS.connections);
            for (address, network) in &pool.networks {
                prop_assert!(!network.places.is_empty());
                prop_assert!(network.places.len() <= LIMITS.connections_per_network);
                let rank = (network.places.len(), Reverse(network.changed), *address);
                prop_assert!(pool.ranks.contains(&rank));
            }
            prop_assert_eq!(pool.ranks.len(), pool.networks.len());
            let of_networks = pool.networks.values().map(|network| network.places.len());
            prop_assert_eq!(of_networks.sum::<usize>(), pool.places.len());
        }
    }
}

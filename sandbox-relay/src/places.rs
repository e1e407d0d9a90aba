//! Places for connections: how many there may be at once, in all and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of connections that each address has; addresses without one are absent.
type Taken = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The places of a server.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_of_address: usize,
    taken: Taken,
}

/// One connection's place. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    address: IpAddr,
    taken: Taken,
}

impl Places {
    /// Makes `most` places, of which one address may take `most_of_address`.
    pub(crate) fn new(most: usize, most_of_address: usize) -> Self {
        Self { most, most_of_address, taken: Taken::default() }
    }

    /// Takes a place; `None`: all are taken, or all that the address may have.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Place> {
        let address = network(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = taken.get(&address).copied().unwrap_or(0);
        if of_address >= self.most_of_address || taken.values().sum::<usize>() >= self.most {
            return None;
        }
        taken.insert(address, of_address + 1);
        Some(Place { address, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_address) = taken.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// Returns the part of an address that counts as one peer: an IPv4 address, or the first 64 bits of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_for_each_network_and_in_all() {
        let places = Places::new(3, 2);
        let take = |address: &str| places.take(address.parse().unwrap());
        let first = take("2001:db8::1").unwrap();
        let _second = take("2001:db8::2").unwrap();
        assert!(take("2001:db8::3").is_none(), "the same network");
        let _third = take("192.0.2.1").unwrap();
        assert!(take("192.0.2.2").is_none(), "all places are taken");
        drop(first);
        assert!(take("::ffff:192.0.2.1").is_some(), "a place that is given back is free");
        assert_eq!(places.taken.lock().unwrap().len(), 2);
    }
}

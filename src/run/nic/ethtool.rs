//! Driver, channels and features of an interface, by ethtool's ioctl: it is in every kernel and asks nothing of its
//! configuration.

use std::io;
use std::os::fd::AsFd;

use socket2::{Domain, Socket, Type};

/// Commands and sizes of `linux/ethtool.h`.
mod uapi {
    pub(super) const GDRVINFO: u32 = 0x03;
    pub(super) const GSTRINGS: u32 = 0x1b;
    pub(super) const GSSET_INFO: u32 = 0x37;
    pub(super) const GFEATURES: u32 = 0x3a;
    pub(super) const SFEATURES: u32 = 0x3b;
    pub(super) const GCHANNELS: u32 = 0x3c;
    pub(super) const SS_FEATURES: u32 = 4;
    pub(super) const GSTRING_LEN: usize = 32;
    pub(super) const DRVINFO_LEN: usize = 196;
    pub(super) const CHANNELS_LEN: usize = 36;
}

/// A request's memory, as bytes in the machine's order.
struct Request(Vec<u64>);

impl Request {
    fn new(command: u32, len: usize) -> Self {
        let mut request = Request(vec![0; len.div_ceil(8)]);
        request.set(0, command);
        request
    }

    /// The 32-bit word at a byte offset that is a multiple of four.
    fn get(&self, at: usize) -> u32 {
        let bytes = self.0[at / 8].to_ne_bytes();
        u32::from_ne_bytes(bytes[at % 8..at % 8 + 4].try_into().expect("four bytes"))
    }

    fn set(&mut self, at: usize, value: u32) {
        let mut bytes = self.0[at / 8].to_ne_bytes();
        bytes[at % 8..at % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        self.0[at / 8] = u64::from_ne_bytes(bytes);
    }

    fn text(&self, at: usize, len: usize) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|w| w.to_ne_bytes()).skip(at).take(len).collect();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn send(&mut self, interface: &str) -> io::Result<()> {
        // Any socket of this namespace does, and needs no address.
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        crate::sys::ethtool(socket.as_fd(), interface, &mut self.0)
    }
}

/// The driver's name.
pub(super) fn driver(interface: &str) -> Option<String> {
    let mut request = Request::new(uapi::GDRVINFO, uapi::DRVINFO_LEN);
    request.send(interface).ok()?;
    Some(request.text(4, 32)).filter(|name| !name.is_empty())
}

/// RX and TX queues in use; `None` where the driver does not say.
pub(super) fn channels(interface: &str) -> Option<(u32, u32)> {
    let mut request = Request::new(uapi::GCHANNELS, uapi::CHANNELS_LEN);
    request.send(interface).ok()?;
    let (rx, tx, combined) = (request.get(20), request.get(24), request.get(32));
    Some((rx + combined, tx + combined)).filter(|(rx, tx)| *rx > 0 && *tx > 0)
}

/// A feature's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    /// In force.
    pub(super) active: bool,
    /// Wanted by the administrator: what has to be put back.
    pub(super) wanted: bool,
    /// Can be changed.
    pub(super) changeable: bool,
}

/// The features an interface has, by the kernel's names, and where each is in the kernel's bit sets.
pub(in crate::run) struct Features {
    names: Vec<String>,
    states: Vec<Feature>,
}

/// Reads all features.
pub(in crate::run) fn features(interface: &str) -> io::Result<Features> {
    let mut info = Request::new(uapi::GSSET_INFO, 24);
    // A 64-bit mask of the string sets asked for, then one length for each.
    info.0[1] = 1 << uapi::SS_FEATURES;
    info.send(interface)?;
    let count = if info.0[1] == 0 { 0 } else { info.get(16) as usize };

    let mut strings = Request::new(uapi::GSTRINGS, 12 + count * uapi::GSTRING_LEN);
    strings.set(4, uapi::SS_FEATURES);
    strings.set(8, count as u32);
    strings.send(interface)?;
    let names = (0..count).map(|i| strings.text(12 + i * uapi::GSTRING_LEN, uapi::GSTRING_LEN)).collect();

    let blocks = count.div_ceil(32);
    let mut bits = Request::new(uapi::GFEATURES, 8 + blocks * 16);
    bits.set(4, blocks as u32);
    bits.send(interface)?;
    let states = (0..count).map(|i| {
        let block = 8 + i / 32 * 16;
        let bit = |word: usize| bits.get(block + 4 * word) >> (i % 32) & 1 == 1;
        let (available, requested, active, never_changed) = (bit(0), bit(1), bit(2), bit(3));
        Feature { active, wanted: requested, changeable: available && !never_changed }
    });
    Ok(Features { states: states.collect(), names })
}

impl Features {
    /// A feature's state; `None` if this kernel has none of that name.
    pub(super) fn state(&self, name: &str) -> Option<Feature> {
        self.names.iter().position(|n| n == name).map(|i| self.states[i])
    }

    /// Those that are on, or are wanted on, of those whose names are like this.
    #[cfg(feature = "xdp")]
    pub(in crate::run) fn on(&self, like: impl Fn(&str) -> bool) -> Vec<&str> {
        let named = self.names.iter().zip(&self.states);
        named.filter(|(n, s)| like(n) && s.changeable && (s.active || s.wanted)).map(|(n, _)| n.as_str()).collect()
    }

    /// Asks for features to be switched; those that this kernel does not know are left out.
    pub(in crate::run) fn set(&self, interface: &str, wanted: &[(&str, bool)]) -> io::Result<()> {
        let blocks = self.names.len().div_ceil(32);
        let mut request = Request::new(uapi::SFEATURES, 8 + blocks * 8);
        request.set(4, blocks as u32);
        for (name, on) in wanted {
            let Some(i) = self.names.iter().position(|n| n == name) else { continue };
            let (valid, requested) = (8 + i / 32 * 8, 8 + i / 32 * 8 + 4);
            request.set(valid, request.get(valid) | 1 << (i % 32));
            request.set(requested, request.get(requested) | u32::from(*on) << (i % 32));
        }
        request.send(interface)
    }
}

/// Those of the named features that are on.
pub(super) fn on_of(interface: &str, names: &[&str]) -> io::Result<Vec<String>> {
    let features = features(interface)?;
    let on = names.iter().filter(|name| features.state(name).is_some_and(|f| f.active));
    Ok(on.map(|name| name.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_request_lie_where_the_kernel_looks_for_them() {
        let mut request = Request::new(0x3a, 24);
        request.set(4, 7);
        request.set(20, 9);
        let bytes: Vec<u8> = request.0.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!([0, 4, 8, 12, 16, 20].map(word), [0x3a, 7, 0, 0, 0, 9]);
        assert_eq!((request.get(0), request.get(4), request.get(20)), (0x3a, 7, 9));
    }

    #[test]
    fn loopback_has_features_and_some_of_them_cannot_be_changed() {
        let features = features("lo").expect("loopback answers ethtool");
        let fixed = features.state("loopback").expect("a feature every kernel has");
        assert!(fixed.active && !fixed.changeable, "{fixed:?}");
        assert_eq!(features.state("no-such-feature"), None);
    }
}

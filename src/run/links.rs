//! Tells the sending sides whether their links take frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::nic::{carries, is_gone};

/// `RTMGRP_LINK`: anything that happens to any interface.
const LINK_EVENTS: u32 = 1;

/// Watches two interfaces.
#[derive(Debug)]
pub struct Links {
    events: OwnedFd,
    watched: [(u32, Arc<AtomicBool>); 2],
}

impl Links {
    /// Watches the interfaces with these indices, and keeps `up` right from now on.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn watch(nics: [u32; 2], up: [Arc<AtomicBool>; 2]) -> io::Result<Links> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol is protocol 0, NETLINK_ROUTE.
        let events = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&events, &SocketAddrNetlink::new(0, LINK_EVENTS))?;
        let [a, b] = nics;
        let [up_a, up_b] = up;
        let links = Links { events, watched: [(a, up_a), (b, up_b)] };
        links.look();
        Ok(links)
    }

    /// Readable when [`Links::update`] should be called.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Takes note of what happened. Gives the state of both links if one changed.
    pub fn update(&self) -> Option<[bool; 2]> {
        // What exactly happened does not matter: both are asked for their state.
        let mut message = [0u8; 4096];
        while recv(&self.events, &mut message, RecvFlags::DONTWAIT).is_ok() {}
        self.look()
    }

    fn look(&self) -> Option<[bool; 2]> {
        let mut changed = false;
        let state = [0, 1].map(|i| {
            let (nic, up) = &self.watched[i];
            let running = carries(*nic);
            changed |= up.swap(running, Ordering::Relaxed) != running;
            running
        });
        changed.then_some(state)
    }

    /// The first of the two interfaces that is not in this namespace any more: removed, or taken elsewhere.
    pub fn gone(&self) -> Option<usize> {
        self.watched.iter().position(|(nic, _)| is_gone(*nic))
    }

    /// Whether each link is up.
    pub fn state(&self) -> [bool; 2] {
        [0, 1].map(|i| self.watched[i].1.load(Ordering::Relaxed))
    }
}

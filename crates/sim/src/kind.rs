//! The kinds of clients: what metadata servers have to get along with.

use crate::linux_like::LinuxLike;
use fsclient::{Client, ClientConfig, Reply, Request};
use node::Node;
use std::time::Duration;
use stdx::Rng;

/// The buffer of a client that keeps nothing, in bytes: a block or two.
const SMALL_BUFFER: u64 = 8 << 10;

/// A kind of client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ours, as it is mounted by default.
    Ours,
    /// Ours, but it forgets what nobody uses, writes back at once, and waits for the server with every
    /// change of a name.
    KeepsNothing,
    /// It treats metadata servers as Linux's client does.
    LinuxLike,
}

impl Kind {
    /// Draws the kinds of a cluster's clients; half of them are ours.
    pub fn draw(rng: &mut Rng, clients: u32) -> Vec<Self> {
        const ALL: [Kind; 6] =
            [Kind::Ours, Kind::Ours, Kind::Ours, Kind::KeepsNothing, Kind::LinuxLike, Kind::LinuxLike];
        (0..clients).map(|_| *rng.pick(&ALL)).collect()
    }

    /// The kind in a cluster with several ranks: who behaves as Linux's client works with one.
    pub fn of_ranks(self) -> Self {
        if self == Self::LinuxLike { Self::Ours } else { self }
    }

    /// Makes a client of this kind.
    pub(crate) fn client(
        self,
        mut config: ClientConfig,
        rng: Rng,
    ) -> Box<dyn Node<Request = Request, Reply = Reply>> {
        match self {
            Self::Ours => Box::new(Client::new(config, rng)),
            Self::KeepsNothing => {
                let options = &mut config.options;
                (options.idle_inodes, options.dirty_bytes) = (0, SMALL_BUFFER);
                (options.asynchronous, options.gather) = (false, Duration::ZERO);
                Box::new(Client::new(config, rng))
            }
            Self::LinuxLike => Box::new(LinuxLike::new(Client::new(config, rng))),
        }
    }
}

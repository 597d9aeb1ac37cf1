//! The dashboard's state, which all requests share.

use crate::cached::Cached;
use crate::facts::Facts;
use crate::files::{self, Files};
use crate::login::{Keys, Limit, Users};
use crate::monitors::Monitors;
use crate::tables::Tables;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The time for which users are not asked for again: a user that was removed is let in so much longer.
const USERS_TTL: Duration = Duration::from_secs(3);
/// Actions at a time.
const ACTIONS: usize = 4;

/// What all requests share.
pub(crate) struct App {
    /// The cluster.
    pub monitors: Arc<dyn Monitors>,
    /// What it says.
    pub facts: Arc<Cached<Facts>>,
    /// What metadata servers say, which are asked only for this.
    pub files: Cached<Files>,
    /// The users.
    pub users: Cached<Users>,
    /// Sessions.
    pub keys: Keys,
    /// Wrong passwords.
    pub limit: Limit,
    /// One password is checked at a time.
    pub hashing: Arc<Semaphore>,
    /// Bounds the actions that wait for the monitors.
    pub acting: Semaphore,
    /// What changed when.
    pub tables: Mutex<Tables>,
    /// True with TLS.
    pub is_secure: bool,
}

impl App {
    /// A dashboard of the cluster; `is_secure` with TLS.
    pub fn new(
        monitors: Arc<dyn Monitors>,
        facts: Arc<Cached<Facts>>,
        is_secure: bool,
    ) -> Result<Self, ring::error::Unspecified> {
        let (asked, of_files) = (Arc::clone(&monitors), Arc::clone(&monitors));
        Ok(Self {
            files: Cached::new(files::TTL, move |_| Files::read(&*of_files)),
            users: Cached::new(USERS_TTL, move |_| Users::read(&*asked)),
            monitors,
            facts,
            keys: Keys::new()?,
            limit: Limit::default(),
            hashing: Arc::new(Semaphore::new(1)),
            acting: Semaphore::new(ACTIONS),
            tables: Mutex::default(),
            is_secure,
        })
    }
}

//! The accepting end of the handshake, at a monitor or at a service.

use crate::{AuthStep, ConMode, Method, MonAuthenticator, ServiceAuthenticator};
use stdx::{Now, Rng};

/// The accepting end of any role.
#[derive(Debug)]
pub enum Authenticator {
    /// At a monitor.
    Mon(MonAuthenticator),
    /// At an OSD or MDS.
    Service(ServiceAuthenticator),
}

impl Authenticator {
    /// The payload of AUTH_REQUEST, once the mode was chosen.
    pub fn request(
        &mut self,
        method: Method,
        mode: ConMode,
        payload: &[u8],
        now: Now,
        rng: &mut Rng,
    ) -> AuthStep {
        match self {
            Self::Mon(a) => a.request(method, mode, payload, now, rng),
            Self::Service(a) => a.request(method, mode, payload, now, rng),
        }
    }

    /// The payload of AUTH_REQUEST_MORE.
    pub fn more(&mut self, payload: &[u8], now: Now, rng: &mut Rng) -> AuthStep {
        match self {
            Self::Mon(a) => a.more(payload, now, rng),
            Self::Service(a) => a.more(payload, now, rng),
        }
    }
}

//! Log-in: users, the signed cookie of a session, and a limit on wrong passwords.

mod limit;
mod session;
mod users;

pub(crate) use limit::Limit;
pub(crate) use session::{COOKIE, Keys, Session};
pub(crate) use users::{Role, User, Users};

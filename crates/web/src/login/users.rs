//! The dashboard's users, as the monitors store them.

use crate::monitors::{Monitors, Refused};
use crate::value::{fields, rows, text};
use ring::digest;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The key that Ceph's dashboard uses too.
const KEY: &str = "mgr/dashboard/accessdb_v2";
/// What is checked for a name that nobody has: it must not answer sooner than others.
const NOBODY: &str =
    "$pbkdf2-sha512$i=210000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What a user may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// Looks.
    ReadOnly,
    /// Acts.
    Administrator,
}

impl Role {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Administrator => "administrator",
        }
    }
}

/// A user who may log in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    /// Name.
    pub name: String,
    /// The most that the user may do.
    pub role: Role,
    /// The stored form of the password.
    password: String,
}

impl User {
    /// A mark of the present password: a session with another one has ended.
    pub fn mark(&self) -> [u8; 8] {
        let hash = digest::digest(&digest::SHA256, self.password.as_bytes());
        let mut mark = [0; 8];
        mark.copy_from_slice(&hash.as_ref()[..8]);
        mark
    }
}

/// All users who may log in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Users(BTreeMap<String, User>);

impl Users {
    /// Asks the monitors for the users.
    pub fn read(monitors: &dyn Monitors) -> Result<Self, Refused> {
        match monitors.command(&json!({ "prefix": "config-key get", "key": KEY })) {
            Ok(stored) => Ok(Self::parse(&serde_json::from_slice(&stored).unwrap_or_default())),
            // Nobody was made yet.
            Err(Refused { code: -2, .. }) => Ok(Self::default()),
            Err(refused) => Err(refused),
        }
    }

    fn parse(stored: &Value) -> Self {
        let one = |(name, user): (&String, &Value)| {
            let roles: Vec<&str> = rows(&user["roles"]).iter().map(text).collect();
            let role =
                [Role::Administrator, Role::ReadOnly].into_iter().find(|r| roles.contains(&r.name()))?;
            let enabled = user["enabled"].as_bool().unwrap_or(true);
            let password = text(&user["password"]).to_owned();
            enabled.then(|| (name.clone(), User { name: name.clone(), role, password }))
        };
        Self(fields(&stored["users"]).filter_map(one).collect())
    }

    /// True if nobody can log in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A user by name.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.0.get(name)
    }

    /// The user with this name and password. Takes as long if there is none: some 0.1 s of processor time.
    pub fn check(&self, name: &str, password: &str) -> Option<User> {
        let user = self.get(name);
        let stored = user.map_or(NOBODY, |user| &user.password);
        let fits = auth::is_password(stored, password);
        user.filter(|_| fits).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_without_a_role_or_disabled_can_not_log_in() {
        let mut rng = stdx::Rng::from_seed(1);
        let password = auth::hash_password("secret word", &mut rng);
        let stored = password.as_str();
        let user = |roles: &[&str], on: bool| json!({ "roles": roles, "enabled": on, "password": stored });
        let users = Users::parse(&json!({ "users": {
            "kim": user(&["read-only", "administrator"], true), "jo": user(&["read-only"], true),
            "al": user(&[], true), "bo": user(&["administrator"], false),
        }}));
        let role = |name: &str| users.check(name, "secret word").map(|user| user.role);
        assert_eq!((role("kim"), role("jo")), (Some(Role::Administrator), Some(Role::ReadOnly)));
        assert_eq!((role("al"), role("bo"), role("nobody")), (None, None, None));
        assert_eq!(users.check("kim", "secret worD"), None);
        assert!(Users::parse(&Value::Null).is_empty());
    }
}

//! Names of the keys by which hosts join a cluster: `client.join.EXPIRY.RANDOM`. The name says until when the
//! key counts, in seconds since 1970, so that no key of this kind is ever stored without its end; the leading
//! monitor removes those whose time is over.

use stdx::Rng;
use wire::{EntityName, EntityType};

const PREFIX: &str = "join.";

/// A new name, for a key that counts until `expires`.
pub fn join_name(expires: u64, rng: &mut Rng) -> EntityName {
    EntityName::new(EntityType::CLIENT, format!("{PREFIX}{expires}.{:08x}", rng.u32()))
}

/// The time until when a key of this name counts; `None` for keys of other kinds.
pub fn join_expiry(name: &EntityName) -> Option<u64> {
    let rest = name.id.strip_prefix(PREFIX).filter(|_| name.ty == EntityType::CLIENT)?;
    let (expires, random) = rest.split_once('.')?;
    let is_hex = random.len() == 8 && random.bytes().all(|b| b.is_ascii_hexdigit());
    expires.parse().ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_made_here_expire() {
        let name = join_name(1_764_421_234, &mut Rng::from_seed(1));
        assert_eq!(join_expiry(&name), Some(1_764_421_234));
        for other in [
            "client.admin",
            "client.join.5",
            "client.join.x.00000000",
            "client.join.5.mine",
            "osd.join.5.00000000",
        ] {
            let name = EntityName::parse(other).expect("a name");
            assert_eq!(join_expiry(&name), None, "{other}");
        }
    }
}

//! The identity of a voter.

stdx::ids! {
    /// A store that may vote: drawn when the store is made, never reused.
    pub struct VoterId(u64) = "{:016x}";
}

//! How a pool keeps its objects: the questions whose answers differ between replicated and erasure-coded
//! pools.
//!
//! A [`Backend`] knows neither the PG nor the OSD. It is asked with all that it needs to know, and what it
//! answers its caller carries out: updates in `pg/replicate.rs`, reads in `pg/client/load.rs`, recovery in
//! `pg/recovery/mod.rs`, scrub in `pg/scrub/compare.rs`.

mod replicated;

use super::member::Member;
use super::scrub::finding::{Believed, Shards};
use std::fmt::Debug;
use store::{ObjectKey, Read, Transaction};

pub use replicated::Replicated;

/// What a pool's way to keep objects decides.
pub trait Backend: Debug {
    /// The transactions by which `members` apply an update. Each member is in one share, and those that apply
    /// the same transaction are in the same, because a share is encoded once.
    fn plan(&self, update: Transaction, members: Vec<Member>) -> Vec<Share>;

    /// The members whose stores answer `read` for the one that carries out a request, with what each of them
    /// is asked.
    fn read(&self, us: Member, read: Read) -> Vec<(Member, Read)>;

    /// The transfer that restores an object at `lacking`, as the primary `us` decides, where `holders` have
    /// it whole. `None` if they are too few.
    fn rebuild(&self, us: Member, lacking: Member, holders: &[Member]) -> Option<Transfer>;

    /// Compares what members have of one object, and says which of them are right.
    fn verify<'a>(&self, us: Member, key: &ObjectKey, shards: &Shards<'a>) -> Believed<'a>;
}

/// Members that apply the same transaction.
#[derive(Debug)]
pub struct Share {
    /// They, in order.
    pub members: Vec<Member>,
    /// What they apply.
    pub txn: Transaction,
}

/// How an object gets to a member that lacks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// The primary, which lacks it itself, asks this member for it.
    Pull(Member),
    /// The primary sends it to this member.
    Push(Member),
}

//! Puts a copy of a PG into the store of a stopped OSD: in as many transactions as it takes, under a mark
//! with which the OSD does not start. A new attempt removes the remains of an earlier one.

use super::pg_file::{Head, Item, Object, Pairs, PgReader};
use super::store_local::Local;
use anyhow::{Context, Result, anyhow, bail};
use maps::Epoch;
use osd::offline;
use std::io::Read;
use store::{ObjectKey, TxnOp};

/// The approximate size of a transaction, in bytes: a store with a small log takes not much more.
const AT_ONCE: usize = 64 << 10;

/// An import that was admitted: the copy is of this cluster, and the OSD knows all its maps.
pub(super) struct Import {
    /// The origin of the copy.
    pub head: Head,
    /// True if the OSD has a whole copy already.
    pub is_there: bool,
    records: Pairs,
}

/// Steps of the next transaction, and their size in bytes.
#[derive(Default)]
struct Steps {
    ops: Vec<TxnOp>,
    bytes: usize,
}

impl Import {
    /// Reads the head of the copy and checks that it may be imported. Changes nothing.
    pub(super) fn begin<R: Read>(local: &mut Local, input: &mut PgReader<R>) -> Result<Self> {
        let (Some(Item::Head(head)), Some(Item::Records(mut records))) = (input.next()?, input.next()?)
        else {
            bail!("it does not begin as an export");
        };
        let owner = local.owner()?;
        let (pgid, to) = (head.pgid, format!("osd.{}", owner.osd));
        if owner.fsid != head.fsid {
            bail!("it is of cluster {}, {to} of {}", head.fsid, owner.fsid);
        }
        let found = local.omap(&offline::records_of(pgid))?;
        let is_begun = found.as_ref().is_some_and(|records| offline::is_importing(records));
        if found.is_some() && !is_begun {
            return Ok(Self { head, is_there: true, records });
        }
        if owner.newest < head.epoch {
            bail!(
                "{to} knows maps up to {} and the export those up to {}: start {to} once, \
                 stop it, and try again",
                owner.newest,
                head.epoch
            );
        }
        if local.pg_num(pgid, owner.newest)? != head.pg_num {
            let had = head.pg_num;
            bail!("the pool of PG {pgid} had {had} PGs when it was exported, and has another number now");
        }
        let range = offline::range_of(pgid, head.pg_num);
        if let Some(key) = local.list(range.0, range.1, 1)?.first().filter(|_| !is_begun) {
            let name = String::from_utf8_lossy(&key.name).into_owned();
            bail!("{to} has no PG {pgid} but objects of it, `{name}` is the first: nothing was changed");
        }
        if owner.oldest > head.epoch {
            bail!(
                "{to} knows maps from {} on, the export ends with {}: it is too old",
                owner.oldest,
                head.epoch
            );
        }
        let epochs = head.epoch.0..=owner.newest.0;
        let maps = epochs.map(|epoch| local.map(Epoch(epoch))).collect::<Result<Vec<_>>>()?;
        offline::carry_on(pgid, &mut records, &maps).map_err(|why| anyhow!("PG {pgid}: {why}"))?;
        Ok(Self { head, is_there: false, records })
    }

    /// Imports the copy. Returns the number of objects. A failed import is removed again, unless this program
    /// dies or the store fails.
    pub(super) fn run<R: Read>(self, local: &mut Local, input: &mut PgReader<R>) -> Result<u64> {
        let (pgid, newest) = (self.head.pgid, local.owner()?.newest);
        self.fill(local, input).or_else(|why| {
            let mut clean = || {
                local.clear(pgid, newest)?;
                local.commit(vec![offline::forgotten(pgid)])
            };
            clean()
                .with_context(|| format!("PG {pgid} is only partly there (`nacre store remove`): {why:#}"))?;
            Err(why.context("nothing of it is left"))
        })
    }

    pub(super) fn fill<R: Read>(self, local: &mut Local, input: &mut PgReader<R>) -> Result<u64> {
        let pgid = self.head.pgid;
        local.commit(vec![TxnOp::Remove(offline::records_of(pgid)), offline::importing(pgid)])?;
        let newest = local.owner()?.newest;
        local.clear(pgid, newest)?;
        let (mut steps, mut object, mut objects) = (Steps::default(), None, 0);
        let (first, behind) = offline::range_of(pgid, self.head.pg_num);
        while let Some(item) = input.next()? {
            if let Item::Object(object) = &item
                && (object.key < first || object.key >= behind)
            {
                bail!("`{}` is no object of PG {pgid}", String::from_utf8_lossy(&object.key.name));
            }
            objects += u64::from(matches!(item, Item::Object(_)));
            for (op, bytes) in steps_of(item, &mut object)? {
                steps.ops.push(op);
                // A step by itself takes some space in the log.
                steps.bytes += bytes + 100;
                if steps.bytes >= AT_ONCE {
                    local.submit(std::mem::take(&mut steps).ops)?;
                }
            }
        }
        local.commit(steps.ops)?;
        for ops in offline::imported(pgid, &self.records, AT_ONCE) {
            local.commit(ops)?;
        }
        Ok(objects)
    }
}

/// The steps for a record of the file, with their size; `object` is the one that the record belongs to.
fn steps_of(item: Item, object: &mut Option<ObjectKey>) -> Result<Vec<(TxnOp, usize)>> {
    let order = || anyhow!("records are not in order");
    let mut out = Vec::new();
    match item {
        Item::Object(Object { key, size, attrs, header }) => {
            out.push((TxnOp::Touch(key.clone()), 0));
            out.push((TxnOp::Truncate(key.clone(), size), 0));
            out.extend(offline::index_of(&key, &attrs).map(|entry| (entry, key.name.len())));
            for (name, value) in attrs {
                let bytes = name.len() + value.len();
                out.push((TxnOp::SetAttr(key.clone(), name, value), bytes));
            }
            if !header.is_empty() {
                let bytes = header.len();
                out.push((TxnOp::OmapSetHeader(key.clone(), header), bytes));
            }
            *object = Some(key);
        }
        Item::Data(offset, data) => {
            let (key, bytes) = (object.clone().ok_or_else(order)?, data.len());
            out.push((TxnOp::Write(key, offset, data.into()), bytes));
        }
        Item::Omap(pairs) => {
            let key = object.clone().ok_or_else(order)?;
            let mut rest = &pairs[..];
            while !rest.is_empty() {
                let mut bytes = 0;
                let few = rest.iter().take_while(|(key, value)| {
                    bytes += key.len() + value.len();
                    bytes <= AT_ONCE
                });
                let (now, later) = rest.split_at(few.count().max(1));
                out.push((TxnOp::OmapSet(key.clone(), now.to_vec()), bytes));
                rest = later;
            }
        }
        Item::End(_) => {}
        Item::Head(_) | Item::Records(_) => return Err(order()),
    }
    Ok(out)
}

//! A store on a disk, driven by its caller.

use anyhow::{Context, Result, bail};
use node::{DiskOp, DiskOpId, DiskResult};
use runtime::{DiskBackend, FileDisk};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use stdx::Rng;
use store::{Config, MkfsInfo, Read, ReadClass, ReadId, ReadReply, Refusal, Store, StoreOut, Transaction};

/// A store, its disk, and the results so far.
pub(crate) struct Driven {
    pub(crate) store: Store,
    disk: FileDisk,
    tx: Sender<(DiskOpId, DiskResult)>,
    done: Receiver<(DiskOpId, DiskResult)>,
    opened: bool,
    /// The store has stopped.
    failed: bool,
    /// The last transaction that is durable.
    pub(crate) committed: u64,
    /// Answers to reads, in the order in which they came.
    pub(crate) answers: VecDeque<(ReadId, ReadReply)>,
    /// Bytes written to the disk.
    pub(crate) written: u64,
}

impl Driven {
    /// Opens the store, or makes one on a blank device if `mkfs` describes it.
    pub(crate) fn open(disk: FileDisk, config: Config, rng: Rng, mkfs: Option<MkfsInfo>) -> Result<Self> {
        let (tx, done) = channel();
        let store = Store::new(config, disk.info(), rng);
        let (answers, committed, written) = (VecDeque::new(), 0, 0);
        let (opened, failed) = (false, false);
        let mut driven = Self { store, disk, tx, done, opened, failed, committed, answers, written };
        let mut out = Vec::new();
        driven.store.open(mkfs, &mut out);
        driven.take(out)?;
        while !driven.opened {
            driven.step()?;
        }
        // Frees the memory that reading the log took; an OSD's event loop does that each second.
        runtime::give_back();
        Ok(driven)
    }

    fn take(&mut self, outs: Vec<StoreOut>) -> Result<()> {
        for out in outs {
            match out {
                StoreOut::Disk(id, op) => {
                    if let DiskOp::Write { data, .. } = &op {
                        self.written += data.len() as u64;
                    }
                    let tx = self.tx.clone();
                    // Nobody waits for completions after the last one.
                    self.disk.start(op, Box::new(move |result| drop(tx.send((id, result)))));
                }
                StoreOut::Opened => self.opened = true,
                StoreOut::Committed(id) => self.committed = id.0,
                StoreOut::Read(id, reply) => self.answers.push_back((id, reply?)),
                StoreOut::Failed(error) => {
                    self.failed = true;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Waits for one completion and takes it.
    pub(crate) fn step(&mut self) -> Result<()> {
        if self.failed {
            // No completion would ever come.
            bail!("the store has failed before");
        }
        let (id, result) = match self.done.try_recv() {
            Ok(ended) => ended,
            Err(_) => {
                if self.end_batch()? {
                    return Ok(());
                }
                self.disk.wait();
                self.done.recv().context("the disk is gone")?
            }
        };
        let mut out = Vec::new();
        self.store.disk_done(id, result, &mut out);
        self.take(out)
    }

    /// Does everything that needs no waiting. Returns true if a request was answered.
    fn end_batch(&mut self) -> Result<bool> {
        let before = (self.committed, self.answers.len());
        loop {
            let mut out = Vec::new();
            self.store.batch_ended(&mut out);
            if out.is_empty() {
                return Ok(before != (self.committed, self.answers.len()));
            }
            self.take(out)?;
            self.disk.submit();
        }
    }

    /// Asks for a read; its answer joins [`Self::answers`].
    pub(crate) fn ask(&mut self, read: Read) -> Result<ReadId> {
        self.ask_as(ReadClass::Client, read)
    }

    /// The same for a class other than clients.
    pub(crate) fn ask_as(&mut self, class: ReadClass, read: Read) -> Result<ReadId> {
        let mut out = Vec::new();
        let id = self.store.read_as(class, read, &mut out);
        self.take(out)?;
        Ok(id)
    }

    /// Submits a transaction. Returns its number, or the refusal of the store.
    pub(crate) fn submit(&mut self, txn: Transaction) -> Result<Result<u64, Refusal>> {
        if let Err(refusal) = self.store.fits(&txn) {
            return Ok(Err(refusal));
        }
        let mut out = Vec::new();
        let id = self.store.submit(txn, &mut out);
        self.take(out)?;
        Ok(Ok(id.0))
    }

    /// Waits until at most `left` of the transactions up to `id` are not durable.
    pub(crate) fn wait(&mut self, id: u64, left: u64) -> Result<()> {
        while self.committed + left < id {
            self.step()?;
        }
        Ok(())
    }

    /// Shuts the store down.
    pub(crate) fn close(&mut self) -> Result<()> {
        while !self.store.is_clean() {
            let mut out = Vec::new();
            self.store.request_checkpoint(&mut out);
            self.take(out)?;
            if !self.store.is_clean() {
                self.step()?;
            }
        }
        Ok(())
    }
}

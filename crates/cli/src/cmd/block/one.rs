//! A cluster with its pools, and one image that is opened for one operation.

use super::args::BlockArgs;
use crate::block::{Driver, ImageSpec, News, Pools};
use crate::cluster::PATIENCE;
use anyhow::{Context, Result};
use block::{Access, Opened, Operation, Place, Reply, Request, Spec};
use client::Cluster;
use indicatif::ProgressBar;
use std::sync::mpsc::Receiver;

/// A cluster, and its pools.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) pools: Pools,
}

impl World {
    pub(super) fn connect(args: &BlockArgs) -> Result<Self> {
        let cluster = Cluster::connect(&args.client.options()?, PATIENCE)?;
        let pools = Pools::read(&cluster)?;
        Ok(Self { cluster, pools })
    }

    pub(super) fn place(&self, image: &ImageSpec) -> Result<Place> {
        self.pools.place(&image.pool, &image.namespace)
    }

    /// Opens an image.
    pub(super) fn open(&self, image: &ImageSpec, access: Access) -> Result<(Driver, Opened, Receiver<News>)> {
        let spec = Spec {
            place: self.place(image)?,
            name: image.image.clone(),
            snap: image.snap.clone(),
            access,
            rng: runtime::rng(),
        };
        let (driver, news) = Driver::open(&self.cluster, spec);
        loop {
            match news.recv().context("the cluster's client has stopped")? {
                News::Opened(opened) => {
                    let opened = (*opened).with_context(|| format!("cannot open {image}"))?;
                    return Ok((driver, opened, news));
                }
                News::Event(text) => complain!("nacre: {text}"),
                News::Resized(_) | News::Lost(_) | News::Progress(..) | News::Unused(_) => {}
            }
        }
    }

    /// Carries out one operation on an image.
    pub(super) fn maintain(&self, image: &ImageSpec, operation: Operation) -> Result<Reply> {
        let access = if operation == Operation::Remove { Access::Remove } else { Access::Write };
        self.maintain_with(image, operation, access, &ProgressBar::hidden())
    }

    /// The same, which shows how far it is.
    pub(super) fn maintain_with(
        &self,
        image: &ImageSpec,
        operation: Operation,
        access: Access,
        bar: &ProgressBar,
    ) -> Result<Reply> {
        let (driver, _, news) = self.open(image, access)?;
        let bar = bar.clone();
        std::thread::spawn(move || {
            for told in news {
                match told {
                    // Who waits for the lock wants to know whom for.
                    News::Event(text) if text.contains("is held by") => complain!("nacre: {text}"),
                    News::Progress(done, total) => {
                        bar.set_length(total);
                        bar.set_position(done);
                    }
                    _ => {}
                }
            }
        });
        let reply = driver.call(Request::Maintain(operation));
        let closed = driver.call(Request::Close);
        let reply = reply?;
        closed?;
        Ok(reply)
    }

    pub(super) fn shut_down(self) -> Result<()> {
        Ok(self.cluster.shut_down()?)
    }
}

//! What each role is told when it is made.

use super::Daemon;
use anyhow::{Result, bail};
use node::Never;
use runtime::{DiskPool, EventLoop, Handle, Notice};
use std::sync::mpsc::Sender;

impl Daemon {
    pub(super) fn start_mon(
        &self,
        _pool: &DiskPool,
        _on: &EventLoop,
        _notices: Sender<Notice>,
    ) -> Result<Handle<Never, Never>> {
        bail!("this role is not part of this build yet")
    }
    pub(super) fn start_osd(
        &self,
        _pool: &DiskPool,
        _on: &EventLoop,
        _notices: Sender<Notice>,
    ) -> Result<Handle<Never, Never>> {
        bail!("this role is not part of this build yet")
    }
    pub(super) fn start_mds(
        &self,
        _on: &EventLoop,
        _notices: Sender<Notice>,
    ) -> Result<Handle<Never, Never>> {
        bail!("this role is not part of this build yet")
    }
}

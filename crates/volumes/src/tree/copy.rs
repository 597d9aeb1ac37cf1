//! Copying a file's content.

use super::{Io, Node, Tree, libc_flags};
use client::{FsRequest, SetAttr};
use wire::Errno;

impl Tree {
    /// Copies a file's content to the name `name` of `dir`, which may exist; `go_on` is asked between parts.
    pub fn copy_file(
        &self,
        from: &Node,
        dir: &Node,
        name: &[u8],
        go_on: &mut dyn FnMut() -> Io<()>,
    ) -> Io<Node> {
        let (to, to_fh) = match self.create_in(dir, name, 0o600) {
            Err(Errno::EEXIST) => {
                let to = self.child(dir, name)?;
                let fh = self.open(&to, libc_flags::WRONLY)?;
                (to, fh)
            }
            made => made?,
        };
        let from_fh = self.open(from, libc_flags::RDONLY)?;
        let mut copy = || {
            self.set(&to, SetAttr { size: Some(0), ..SetAttr::default() })?;
            let mut offset = 0;
            loop {
                go_on()?;
                let data = self.read_at(from_fh, offset)?;
                if data.is_empty() {
                    break;
                }
                let len = data.len() as u64;
                // Holes stay holes.
                if data.parts().iter().any(|part| part.iter().any(|byte| *byte != 0)) {
                    self.write_at(to_fh, offset, data.settled())?;
                }
                offset += len;
            }
            self.set(&to, SetAttr { size: Some(offset), ..SetAttr::default() })?;
            self.call(FsRequest::Fsync { fh: to_fh, data_only: true }).map(drop)
        };
        let copied = copy();
        self.release(from_fh)?;
        self.release(to_fh)?;
        copied.map(|()| to)
    }
}

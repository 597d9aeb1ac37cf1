//! The arguments of `nacre block`.

use crate::block::ImageSpec;
use crate::cluster::ClientArgs;
use crate::cmd::terminal::{Format, size};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct BlockArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,
    /// The form of the output.
    #[arg(long, short = 'f', value_enum, default_value_t, global = true)]
    pub(super) format: Format,
    /// The directory of records about mapped images [default: /run/nacre/block for root].
    #[arg(long, global = true)]
    pub(super) run_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: BlockCommand,
}

#[derive(Subcommand)]
pub(super) enum BlockCommand {
    /// Make an image: POOL[/NAMESPACE]/IMAGE.
    Create(CreateArgs),
    /// List the images of a pool, or what is mapped on this host.
    Ls {
        /// POOL[/NAMESPACE].
        #[arg(required_unless_present = "mapped")]
        pool: Option<String>,
        /// List what is mapped on this host.
        #[arg(long, conflicts_with = "pool")]
        mapped: bool,
    },
    /// Describe an image.
    Info {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
    },
    /// Serve an image or a snapshot as a disk, by NBD.
    Map(MapArgs),
    /// End what `map` serves, after everything written is safe.
    Unmap {
        /// The image as `ls --mapped` shows it, its socket, or ADDRESS:PORT.
        what: String,
    },
    /// Take, list, remove or go back to snapshots.
    Snap {
        #[command(subcommand)]
        command: SnapCommand,
    },
    /// Make an image that shares the data of a snapshot until they change.
    Clone(CloneArgs),
    /// Change the size of an image.
    Resize {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
        /// The new size, such as 20G.
        #[arg(long, value_parser = size)]
        size: u64,
        /// Permit a smaller size, which loses data.
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Copy everything that a clone shares into it, and make it independent of its parent.
    ///
    /// If the image is mapped, the process that serves it does this, and goes on serving it. Interrupted, the
    /// command can be repeated: what was copied is not copied again.
    Flatten {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
        /// The parent may have gone, as its snapshot can be removed once an interrupted flatten has copied
        /// everything. What was never copied then reads as zeros.
        #[arg(long)]
        parent_is_gone: bool,
    },
    /// Remove an image.
    Rm {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
    },
}

/// What a new image is like.
#[derive(Args)]
pub(super) struct NewArgs {
    /// The size of its objects, a power of two.
    #[arg(long, value_parser = size)]
    pub(super) object_size: Option<u64>,
    /// Its features, by name.
    #[arg(long, value_delimiter = ',')]
    pub(super) features: Option<Vec<String>>,
    /// The pool of its data, if not that of the image.
    #[arg(long)]
    pub(super) data_pool: Option<String>,
    /// Bytes that go to one object before the next.
    #[arg(long, value_parser = size, requires = "stripe_count")]
    pub(super) stripe_unit: Option<u64>,
    /// Objects that take turns.
    #[arg(long, requires = "stripe_unit")]
    pub(super) stripe_count: Option<u64>,
}

#[derive(Args)]
pub(super) struct CreateArgs {
    #[arg(value_parser = ImageSpec::parse)]
    pub(super) image: ImageSpec,
    /// The size, such as 20G.
    #[arg(long, value_parser = size)]
    pub(super) size: u64,
    #[command(flatten)]
    pub(super) new: NewArgs,
}

#[derive(Args)]
pub(super) struct CloneArgs {
    /// The snapshot: POOL/IMAGE@SNAPSHOT.
    #[arg(value_parser = ImageSpec::parse)]
    pub(super) from: ImageSpec,
    /// The new image.
    #[arg(value_parser = ImageSpec::parse)]
    pub(super) to: ImageSpec,
    #[command(flatten)]
    pub(super) new: NewArgs,
}

#[derive(Args)]
pub(super) struct MapArgs {
    /// `POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]`.
    #[arg(value_parser = ImageSpec::parse)]
    pub(super) image: ImageSpec,
    /// The unix socket [default: a file in the directory of records].
    #[arg(long, conflicts_with = "listen")]
    pub(super) socket: Option<PathBuf>,
    /// Serve on a TCP port: ADDRESS:PORT, port 0 for any.
    #[arg(long)]
    pub(super) listen: Option<std::net::SocketAddr>,
    /// Permit an address that others than this host reach, without authentication and encryption.
    #[arg(long, requires = "listen", conflicts_with = "tls_certificates")]
    pub(super) plain: bool,
    /// Demand TLS, with server-cert.pem, server-key.pem, ca-cert.pem and, if there is one, ca-crl.pem of this
    /// directory. Clients need a certificate of that authority.
    #[arg(long, value_name = "DIR")]
    pub(super) tls_certificates: Option<PathBuf>,
    /// Accept clients without a certificate: whoever reaches the port may use the image.
    #[arg(long, requires = "tls_certificates")]
    pub(super) tls_any_client: bool,
    /// Refuse writes.
    #[arg(long, short = 'r')]
    pub(super) read_only: bool,
    /// Return once the image is served, by a process of its own.
    #[arg(long)]
    pub(super) daemonize: bool,
    /// Be the process that `--daemonize` starts.
    #[arg(long, hide = true, conflicts_with = "daemonize")]
    pub(super) detached: bool,
    /// The log file of that process.
    #[arg(long)]
    pub(super) log: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(super) enum SnapCommand {
    /// Take a snapshot: POOL/IMAGE@SNAPSHOT.
    Create {
        #[arg(value_parser = ImageSpec::parse)]
        snap: ImageSpec,
    },
    /// List the snapshots of an image.
    Ls {
        #[arg(value_parser = ImageSpec::parse)]
        image: ImageSpec,
    },
    /// Remove a snapshot.
    Rm {
        #[arg(value_parser = ImageSpec::parse)]
        snap: ImageSpec,
    },
    /// Make an image what it was at a snapshot.
    Rollback {
        #[arg(value_parser = ImageSpec::parse)]
        snap: ImageSpec,
    },
}

impl BlockArgs {
    /// The directory of records about mapped images.
    pub(super) fn run_dir(&self) -> PathBuf {
        self.run_dir.clone().unwrap_or_else(crate::block::run_dir)
    }
}

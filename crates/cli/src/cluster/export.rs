//! The exporter of a host's counters, beside whatever runs the host's daemons.

use std::path::PathBuf;
use web::ExportedHost;

/// Serves the counters of the daemons whose admin sockets are in a directory, while their options say so.
pub(crate) fn export(sockets: PathBuf, hostname: String) {
    if let Err(error) = (ExportedHost { sockets, hostname }).serve_if_wanted() {
        // The daemons do without.
        tracing::warn!("no thread for the exporter: {error}");
    }
}

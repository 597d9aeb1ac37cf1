//! The dashboard and the metrics that a monitor's process serves over HTTP (docs/adr/0025-dashboard.md).
//!
//! Everything here is a client of the monitors: [`Monitors`] runs a command, as `ceph` would, and what pages,
//! REST answers and metrics show are its outputs ([`facts`]), read at most every two seconds however many
//! ask. Nothing of it runs on a monitor's event loop.
//!
//! Entry point: [`Server`], whose thread asks a [`Local`] what is to be served and opens and closes
//! listeners. Routes are in [`routes`] (the dashboard) and [`metrics`].
//!
//! [`ExportedHost`] is apart from that: it serves the counters of a host's daemons, and asks only those.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this crate is layer 5: sockets, threads and clocks"
)]

mod actions;
mod api;
mod app;
mod cached;
mod clock;
mod exporter;
mod facts;
#[cfg(test)]
mod fake;
mod files;
mod guard;
mod listen;
mod login;
mod metrics;
mod monitors;
mod pages;
mod port;
mod routes;
mod server;
mod steady;
mod tables;
mod tls;
mod usage;
mod value;

pub use exporter::{ExportedHost, ExporterPlace};
pub use monitors::{Local, Monitors, Refused};
pub use server::Server;

//! A host of a cluster: its paths, the record of its daemons, how it becomes a member and stays one.

mod args;
mod ask;
mod care;
mod conf;
mod crash;
mod disks;
mod drain;
mod go_on;
mod members;
mod paths;
mod query;
mod record;
mod register;
mod retire;
mod supervisor;
mod systemd;
mod token;
mod upgrade;

pub(crate) use args::{HostArgs, MemberArgs, prepare};
pub(crate) use ask::agrees;
pub(crate) use care::FEW_HOSTS;
pub(crate) use conf::write_conf;
pub(crate) use disks::{Disk, choose, find as find_disks, table as disk_table};
pub(crate) use drain::{check_drain, drain};
pub(crate) use go_on::go_on;
pub(crate) use members::{Member, members};
pub(crate) use paths::HostPaths;
pub(crate) use query::{list, query, query_with};
pub(crate) use record::{Host, Osd, Stage};
pub(crate) use register::{monitors, register_osds, write_key};
pub(crate) use retire::{forget, purge, remove_dir, retire, wait_for_end};
pub(crate) use supervisor::supervise;
pub(crate) use systemd::{hand_over, stop as stop_unit};
pub(crate) use token::{Token, make_token};
pub(crate) use upgrade::{Manner, Planned, plan, refusal, upgrade};

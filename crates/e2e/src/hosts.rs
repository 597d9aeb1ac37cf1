//! Hosts as network namespaces on one bridge, whose links can be cut.

use crate::cluster::Net;
use crate::run::run;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many this process has made: each has names of its own.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A network with a host for each OSD; monitors and clients share the bridge's namespace. Removed when
/// dropped.
#[derive(Debug)]
pub struct Hosts {
    prefix: String,
    count: u32,
}

impl Hosts {
    /// Makes it, or returns the reason why this machine does not allow it.
    pub fn new(count: u32) -> Result<Self, &'static str> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root");
        }
        if !["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"].iter().any(|ip| Path::new(ip).exists()) {
            return Err("needs the command ip (Debian: iproute2)");
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let hosts = Self { prefix: format!("nacre{}-{number}", std::process::id()), count };
        let bridge = hosts.bridge();
        if run(Command::new("ip").args(["netns", "add", &bridge])).code != 0 {
            return Err("this machine lets us make no network namespaces");
        }
        inside(&bridge, "link add br0 type bridge");
        inside(&bridge, "addr add 10.78.0.254/24 dev br0");
        inside(&bridge, "link set br0 up");
        inside(&bridge, "link set lo up");
        for host in 0..count {
            let name = hosts.name(host);
            run(Command::new("ip").args(["netns", "add", &name])).ok();
            let pair = format!("link add eth0 netns {name} type veth peer name p{host} netns {bridge}");
            run(Command::new("ip").args(pair.split(' '))).ok();
            inside(&bridge, &format!("link set p{host} master br0 up"));
            inside(&name, &format!("addr add {}/24 dev eth0", hosts.addr(host)));
            inside(&name, "link set eth0 up");
            inside(&name, "link set lo up");
        }
        Ok(hosts)
    }

    fn bridge(&self) -> String {
        format!("{}-sw", self.prefix)
    }

    /// The network of monitors and clients.
    pub fn net(&self) -> Net {
        Net { name: self.bridge(), addr: [10, 78, 0, 254].into() }
    }

    /// Makes it, or prints that the test is skipped; if `CI=true` that fails.
    pub fn for_test(count: u32) -> Option<Self> {
        let hosts = Self::new(count);
        if let Err(why) = &hosts {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "network namespaces: {why}");
            eprintln!("skipped: {why}");
        }
        hosts.ok()
    }

    /// The address of a host.
    pub fn addr(&self, host: u32) -> IpAddr {
        let last = u8::try_from(host + 1).expect("few hosts");
        [10, 78, 0, last].into()
    }

    /// The namespace of a host.
    pub fn name(&self, host: u32) -> String {
        format!("{}-h{host}", self.prefix)
    }

    /// Cuts its link silently.
    pub fn cut(&self, host: u32) {
        inside(&self.bridge(), &format!("link set p{host} down"));
    }

    /// Mends it.
    pub fn mend(&self, host: u32) {
        inside(&self.bridge(), &format!("link set p{host} up"));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in (0..self.count).map(|host| self.name(host)).chain([self.bridge()]) {
            // It may not have been made.
            let _ = run(Command::new("ip").args(["netns", "del", &name]));
        }
    }
}

fn inside(net: &str, line: &str) {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{net}")).arg("ip").args(line.split(' '));
    run(&mut command).ok();
}

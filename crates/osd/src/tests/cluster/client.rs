//! The client of [`Cluster`].

use super::*;

pub fn write_full(text: &str) -> Op {
    let data = Bufs::from(text.as_bytes().to_vec());
    Op::WriteFull { extent: msgs::Extent::new(0, data.len() as u64), data }
}

pub fn append(text: &str) -> Op {
    let data = Bufs::from(text.as_bytes().to_vec());
    Op::Append { extent: msgs::Extent::new(0, data.len() as u64), data }
}

impl Cluster {
    pub fn pgid_of(&self, name: &str) -> (PgId, u32) {
        let hash = HObject::head(POOL, b"", b"", name.as_bytes()).hash;
        (self.map.pools[&POOL].raw_pg_to_pg(PgId::new(POOL, hash)), hash)
    }

    /// The members of an object's PG, the primary first.
    pub fn acting(&self, name: &str) -> Vec<usize> {
        let placed = self.map.pg_up_acting(self.pgid_of(name).0);
        placed.acting.iter().map(|o| o.0 as usize).collect()
    }

    /// Another client from now on; the connections of the one before stay.
    pub fn client_is(&mut self, gid: u64) {
        self.client_gid = gid;
        self.client_conns.clear();
    }

    /// Where clients are.
    pub fn client_addr(&self) -> EntityAddr {
        addr_of(CLIENT, 77)
    }

    /// Breaks the client's connection to an OSD.
    pub fn break_client(&mut self, osd: usize) {
        let conn = self.client_conns.remove(&osd).expect("a connection");
        let other = self.ends.remove(&(CLIENT, conn)).expect("its other end");
        self.close_end(other, CloseReason::Lost);
    }

    /// The client comes back with another key.
    pub fn client_with(&mut self, caps: &str) {
        self.client_caps = caps.to_owned();
        self.client_conns.clear();
    }

    /// Sends a request to an OSD; gives its tid.
    pub fn send_op(&mut self, osd: usize, tid: Option<u64>, name: &str, ops: Vec<Op>) -> u64 {
        let tid = tid.unwrap_or_else(|| {
            self.next_tid += 1;
            self.next_tid
        });
        let (pgid, hash) = self.pgid_of(name);
        let writes = ops.iter().any(|o| o.code().writes());
        let request = OsdOp {
            pgid: Spg::replicated(pgid),
            hash,
            epoch: self.asks_by.unwrap_or(self.map.epoch),
            flags: self.flags | osd_flag::ONDISK | if writes { osd_flag::WRITE } else { osd_flag::READ },
            locator: maps::ObjectLocator { pool: POOL, ..Default::default() },
            oid: name.as_bytes().to_vec(),
            ops: ops.into_iter().map(SubOp::from).collect(),
            snapid: if writes { SnapId::HEAD } else { self.at },
            snap_seq: self.context.seq,
            snaps: self.context.snaps.clone(),
            ..OsdOp::default()
        };
        self.send_any(osd, tid, msgs::Body::from(request));
        tid
    }

    /// The client has understood a backoff.
    pub fn acknowledge(&mut self, osd: usize, m: &msgs::OsdBackoff) {
        let ack = msgs::OsdBackoff { op: msgs::backoff_op::ACK_BLOCK, ..m.clone() };
        self.send_any(osd, 0, msgs::Body::from(ack));
    }

    /// Sends an OSD any message from the client.
    pub fn send_any(&mut self, osd: usize, tid: u64, body: impl Into<node::Body>) {
        let conn = match self.client_conns.get(&osd) {
            Some(conn) => *conn,
            None => {
                self.next_accepted += 1;
                let (mine, theirs) =
                    (ConnId(self.next_accepted), ConnId(ConnId::ACCEPTED | self.next_accepted));
                self.ends.insert((CLIENT, mine), (osd, theirs));
                self.ends.insert((osd, theirs), (CLIENT, mine));
                let mut peer = peer_of(CLIENT, 77);
                peer.caps.clone_from(&self.client_caps);
                (peer.id.num, peer.global_id) = (self.client_gid as i64, self.client_gid);
                peer.features = self.client_features;
                let connected = Input::Connected { conn: theirs, peer };
                let delay = self.delay(CLIENT, osd);
                self.push(delay, osd, Event::Input(connected));
                self.client_conns.insert(osd, mine);
                mine
            }
        };
        self.send(CLIENT, conn, Msg::new(tid, body));
    }

    /// Sends a request to whoever is primary, again after each change, until it is answered.
    pub fn op(&mut self, name: &str, ops: Vec<Op>) -> OsdOpReply {
        self.next_tid += 1;
        let tid = self.next_tid;
        self.resend(tid, name, ops)
    }

    /// As [`Self::op`], with a tid that was used before.
    pub fn resend(&mut self, tid: u64, name: &str, ops: Vec<Op>) -> OsdOpReply {
        let had = self.replies.get(&tid).map_or(0, Vec::len);
        self.ask_until(tid, name, ops, had)
    }

    /// As [`Self::op`], with a tid that may have been answered already.
    pub fn finish(&mut self, tid: u64, name: &str, ops: Vec<Op>) -> OsdOpReply {
        match self.replies.get(&tid).and_then(|r| r.first()) {
            Some(reply) => reply.clone(),
            None => self.ask_until(tid, name, ops, 0),
        }
    }

    pub(super) fn ask_until(&mut self, tid: u64, name: &str, ops: Vec<Op>, had: usize) -> OsdOpReply {
        let end = self.now + Duration::from_secs(60);
        let help = self.now + Duration::from_secs(10);
        let mut asked = None;
        loop {
            let primary = self.acting(name).first().copied();
            let target = (primary, self.map.epoch);
            if asked != Some(target)
                && let Some(osd) = primary
                && self.slots[&osd].osd.is_some()
            {
                self.send_op(osd, Some(tid), name, ops.clone());
                asked = Some(target);
            }
            assert!(self.step(end), "no answer within a minute\n{}", self.report());
            if self.rescue && self.now > help {
                self.alive().1.into_iter().for_each(|osd| self.start(osd));
            }
            if let Some(reply) = self.replies.get(&tid).and_then(|r| r.get(had)) {
                return reply.clone();
            }
        }
    }

    pub fn write(&mut self, name: &str, text: &str) {
        let reply = self.op(name, vec![write_full(text)]);
        assert_eq!(reply.result, 0, "write {name}");
    }

    /// The content, or the errno.
    pub fn read(&mut self, name: &str) -> Result<String, i32> {
        let reply = self.op(name, vec![Op::Read(msgs::Extent::new(0, 0))]);
        match reply.result {
            0.. => Ok(String::from_utf8_lossy(&reply.ops[0].data.to_vec()).into_owned()),
            errno => Err(errno),
        }
    }
}

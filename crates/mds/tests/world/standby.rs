//! A standby that follows the journal of a [`World`]'s rank. Its reads see the objects when they are issued
//! or when they end, and it is never allowed to write.

use super::World;
use mds::{Effect, IoId, IoRequest, ObjReply, Rank, RankConfig};
use std::collections::VecDeque;
use std::time::Duration;
use wire::Errno;

type Answer = Result<Vec<ObjReply>, Errno>;

pub struct Standby {
    pub rank: Rank,
    cfg: RankConfig,
    /// Reads under way; those that saw their object already have an answer.
    pub reads: VecDeque<(IoRequest, Option<Answer>)>,
    /// Times that it had to start over, because the journal was trimmed before it.
    pub fell_behind: usize,
    /// Reads that have ended.
    pub read_count: usize,
}

impl Standby {
    pub fn new(w: &mut World, cfg: RankConfig) -> Self {
        let rank = Rank::follow(cfg.clone(), w.now);
        let mut standby = Self { rank, cfg, reads: VecDeque::new(), fell_behind: 0, read_count: 0 };
        standby.effects(w);
        standby
    }

    /// It gets the rank.
    pub fn take_over(&mut self, w: &mut World) {
        self.rank.take_over(self.cfg.clone(), w.now);
        self.effects(w);
    }

    fn effects(&mut self, w: &mut World) {
        let mut out = Vec::new();
        self.rank.settle(&mut out);
        for effect in out {
            match effect {
                Effect::Io(io) => {
                    assert!(io.ops.iter().all(|op| !op.writes()), "a standby writes {:?}", io.object);
                    let answer = w.rng.chance(1, 2).then(|| w.carry_out(&io));
                    self.reads.push_back((io, answer));
                }
                Effect::Behind => {
                    self.fell_behind += 1;
                    self.reads.clear();
                    self.rank = Rank::follow(self.cfg.clone(), w.now);
                    return self.effects(w);
                }
                Effect::Event(..) => {}
                other => panic!("a standby wants {other:?}"),
            }
        }
    }

    /// Ends a read, if one is under way.
    pub fn step(&mut self, w: &mut World) -> bool {
        let Some((io, answer)) = self.reads.pop_front() else { return false };
        let answer = answer.unwrap_or_else(|| w.carry_out(&io));
        self.done(w, io.id, answer);
        true
    }

    fn done(&mut self, w: &mut World, id: IoId, answer: Answer) {
        self.read_count += 1;
        self.rank.io_done(w.now, id, answer);
        self.effects(w);
    }

    /// Lets it look at the journal's end, after the time that it waits.
    pub fn look(&mut self, w: &mut World) {
        w.advance(Duration::from_millis(600));
        self.rank.timer(w.now);
        self.effects(w);
    }

    /// Lets it read all that there is.
    pub fn catch_up(&mut self, w: &mut World) {
        self.look(w);
        while self.step(w) {}
    }
}

impl World {
    /// The process dies, and a standby that has followed it takes over. Reads that it has under way tell what
    /// was there before.
    pub fn fail_over(&mut self, mut standby: Standby, back: &[u64]) {
        for (io, answer) in &mut standby.reads {
            answer.get_or_insert_with(|| self.carry_out(io));
        }
        self.end_in_flight();
        standby.rank.take_over(self.cfg.clone(), self.now);
        // What was read before the take-over arrives first.
        let mut before: VecDeque<_> = std::mem::take(&mut standby.reads);
        self.rank = standby.rank;
        self.connect_all();
        while let Some((io, answer)) = before.pop_front() {
            self.rank.io_done(self.now, io.id, answer.expect("was read before"));
            self.effects();
        }
        self.until_active(back);
    }
}

//! Message memory: the order in which messages are read and requests served when not all of them fit.
//!
//! A message is read once all of it is reserved, so none is half read while another waits for its memory. A
//! connection that does not get its memory waits in line, and its socket is not read. Clients and daemons
//! have separate budgets: daemons never wait for one another's clients. Small messages have a line of their
//! own, which does not wait for large ones: acknowledgements, heartbeats, maps, and small requests. A message
//! larger than its whole budget is read when it is alone; clients may send an OSD such writes, while OSDs
//! keep their own messages smaller (`Limits::of_osd`).
//!
//! A request is passed to the node once the memory for its answer is reserved. Later messages of its
//! connection wait behind it, unread, so that the order is kept. The reservation moves from the request to
//! the answer, and ends when the answer has left or is dropped (docs/design.md, decision 6). There are three
//! lines here, because requests reserve as much as they might get: those that ask for more than the size of a
//! usual object are served one at a time, beside the rest.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::{Budget, Reservation};
use tokio::sync::Notify;

/// The size up to which a message is small, in bytes.
const SMALL_MESSAGE_BYTES: u64 = 128 << 10;
/// The budget of all small messages together. A store may keep data for some time after it is durable, up to
/// 16 MiB: others must fit in addition to that.
const SMALL_MESSAGES_BUDGET_BYTES: u64 = 32 << 20;
/// For the answers to all requests that ask for little.
const SMALL_ANSWERS_BUDGET_BYTES: u64 = 12 << 20;
/// A request that asks for more than this, in bytes, may get less, because no usual object is larger.
const USUAL_ANSWER_BYTES: u64 = 8 << 20;

/// The budgets of messages of one kind of peers.
pub(super) struct Budgets {
    /// Lanes, ordered by the largest message that they serve.
    lanes: Vec<Lane>,
    last_ticket: Cell<u64>,
}

/// A budget, and who waits for some of it.
struct Lane {
    most: u64,
    budget: Budget,
    line: RefCell<VecDeque<Waiter>>,
}

struct Waiter {
    place: Rc<Place>,
    ticket: u64,
    bytes: u64,
}

/// A connection's place in a line.
#[derive(Default)]
pub(super) struct Place {
    /// 0: it is in none.
    ticket: Cell<u64>,
    granted: Cell<Option<Reservation>>,
    /// Wakes the connection's task.
    wake: Rc<Notify>,
}

impl Place {
    /// A place outside any line.
    pub(super) fn new(wake: Rc<Notify>) -> Self {
        Self { wake, ..Self::default() }
    }

    /// True if it waits.
    pub(super) fn waits(&self) -> bool {
        self.ticket.get() != 0
    }

    /// It wants nothing any more.
    pub(super) fn leave(&self) {
        self.ticket.set(0);
        self.granted.take();
    }
}

impl Budgets {
    /// Budgets for this many bytes of large messages, and some of small ones.
    pub(super) fn new(bytes: u64) -> Self {
        Self::of(&[(SMALL_MESSAGE_BYTES, SMALL_MESSAGES_BUDGET_BYTES), (u64::MAX, bytes)])
    }

    /// Budgets for this many bytes of answers, some of small ones, and one that is larger than usual.
    pub(super) fn of_answers(bytes: u64) -> Self {
        Self::of(&[
            (SMALL_MESSAGE_BYTES, SMALL_ANSWERS_BUDGET_BYTES),
            (USUAL_ANSWER_BYTES, bytes),
            (u64::MAX, 0),
        ])
    }

    fn of(lanes: &[(u64, u64)]) -> Self {
        let lane = |&(most, bytes)| Lane { most, budget: Budget::new(bytes), line: RefCell::default() };
        Self { lanes: lanes.iter().map(lane).collect(), last_ticket: Cell::new(0) }
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.budget.used()).sum()
    }

    /// Memory for a message of a connection; `None`: it is in line now, and is woken when it has it.
    pub(super) fn reserve(&self, place: &Rc<Place>, bytes: u64) -> Option<Reservation> {
        if place.waits() {
            let granted = place.granted.take()?;
            place.leave();
            return Some(granted);
        }
        let lane = self.lanes.iter().find(|lane| bytes <= lane.most)?;
        let mut line = lane.line.borrow_mut();
        if line.is_empty()
            && let Some(reservation) = lane.budget.reserve(bytes)
        {
            return Some(reservation);
        }
        let ticket = self.last_ticket.get() + 1;
        self.last_ticket.set(ticket);
        place.ticket.set(ticket);
        line.push_back(Waiter { place: place.clone(), ticket, bytes });
        None
    }

    /// True if no connection in the same line is before this one.
    pub(super) fn is_first(&self, place: &Rc<Place>) -> bool {
        self.lanes.iter().any(|lane| lane.line.borrow().front().is_some_and(|w| Rc::ptr_eq(&w.place, place)))
    }

    /// True if a connection waits.
    pub(super) fn is_wanted(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.line.borrow().is_empty())
    }

    /// Memory may be free: hands it to the first in line.
    pub(super) fn serve(&self) {
        self.lanes.iter().for_each(Lane::serve);
    }
}

impl Lane {
    fn serve(&self) {
        let mut line = self.line.borrow_mut();
        let mut served = false;
        while let Some(Waiter { place, ticket, bytes }) = line.front() {
            // Otherwise its connection has ended, or waits again.
            if place.ticket.get() == *ticket {
                let Some(reservation) = self.budget.reserve(*bytes) else { break };
                place.granted.set(Some(reservation));
                place.wake.notify_one();
            }
            served = true;
            line.pop_front();
        }
        if served && let Some(first) = line.front() {
            // It looks from time to time, being the first.
            first.place.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Rc<Place> {
        Rc::default()
    }

    #[test]
    fn large_messages_have_their_turn_and_small_ones_pass_them() {
        let budgets = Budgets::new(1 << 20);
        let [a, b, c, d] = [place(), place(), place(), place()];
        let first = budgets.reserve(&a, 1 << 19).expect("fits");
        assert!(budgets.reserve(&b, 64 << 20).is_none(), "alone only");
        assert!(budgets.reserve(&c, 1 << 19).is_none(), "it would fit, but another is before it");
        assert!(budgets.reserve(&d, 4096).is_some());
        assert!(budgets.is_first(&b) && !budgets.is_first(&c));
        budgets.serve();
        assert!(budgets.reserve(&b, 64 << 20).is_none());
        drop(first);
        budgets.serve();
        assert!(budgets.reserve(&c, 1 << 19).is_none());
        let large = budgets.reserve(&b, 64 << 20).expect("it was first");
        assert_eq!((large.bytes(), budgets.used()), (64 << 20, 64 << 20));
        drop(large);
        budgets.serve();
        assert!(budgets.reserve(&c, 1 << 19).is_some());
        assert_eq!(budgets.used(), 0);
    }

    #[test]
    fn who_has_gone_keeps_nobody_waiting() {
        let budgets = Budgets::new(1 << 20);
        let [a, b, c, d] = [place(), place(), place(), place()];
        let first = budgets.reserve(&a, 1 << 20).expect("fits");
        assert!(budgets.reserve(&b, 1 << 20).is_none());
        assert!(budgets.reserve(&c, 1 << 20).is_none());
        b.leave();
        drop(first);
        budgets.serve();
        // The line goes on when another message of the same connection arrives later.
        assert!(budgets.reserve(&c, 1 << 20).is_some());
        assert!(budgets.reserve(&b, 1 << 20).is_some());
        // Memory given to a connection that ends is free again.
        let first = budgets.reserve(&a, 1 << 20).expect("fits");
        assert!(budgets.reserve(&d, 1 << 20).is_none());
        drop(first);
        budgets.serve();
        assert_eq!(budgets.used(), 1 << 20);
        d.leave();
        assert_eq!(budgets.used(), 0);
    }

    #[test]
    fn who_asks_for_very_much_is_served_beside_the_others_but_one_at_a_time() {
        let answers = Budgets::of_answers(8 << 20);
        let [a, b, c, d] = [place(), place(), place(), place()];
        let usual = answers.reserve(&a, 8 << 20).expect("fits");
        let whole = answers.reserve(&b, 128 << 20).expect("the first");
        assert!(answers.reserve(&c, 9 << 20).is_none());
        assert!(answers.reserve(&d, 1 << 20).is_none(), "not because of it");
        assert!(answers.is_wanted() && answers.reserve(&place(), 4096).is_some());
        drop(usual);
        answers.serve();
        assert!(answers.reserve(&d, 1 << 20).is_some() && answers.reserve(&c, 9 << 20).is_none());
        drop(whole);
        answers.serve();
        assert!(answers.reserve(&c, 9 << 20).is_some() && !answers.is_wanted());
    }
}

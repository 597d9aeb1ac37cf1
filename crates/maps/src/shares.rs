//! The OSDs of a pool's rule: each OSD's share of the copies by weight, and the OSDs that may replace it
//! without two copies in one failure domain.

use crate::{OsdId, OsdMap, Pool};
use crush::{CrushMap, Step};

/// The shares of one pool.
#[derive(Clone, Debug)]
pub struct Shares {
    /// By OSD; `None` for those that the rule does not reach.
    places: Vec<Option<Place>>,
}

/// The rule's view of one OSD.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Copies, in PGs.
    share: f64,
    /// The bounds of a copy's moves: in rules that choose twice, the bucket of the last but one choice.
    group: (usize, i32),
    /// The bucket that holds at most one copy of a PG: the failure domain, or the OSD itself.
    domain: i32,
}

/// A choice of the rule: that many of that type.
type Level = (u32, i32);

impl Shares {
    /// The shares of a pool. `None` if its rule is of a kind whose shares can't be determined: without an
    /// end, with two starting points that reach the same OSD, or with a count at a lower level that depends
    /// on the pool's size.
    pub fn new(map: &OsdMap, pool: &Pool) -> Option<Self> {
        let rule = map.crush.rule(map.rule_of(pool)?)?;
        let mut filling = Filling {
            crush: &map.crush,
            weights: device_weights(map),
            pg_num: f64::from(pool.pg_num),
            places: vec![None; map.osds.len()],
            segment: 0,
            is_clear: true,
        };
        let mut room = u32::from(pool.size);
        for (take, levels) in segments(&rule.steps, room)? {
            let copies = levels.iter().map(|(n, _)| *n).product::<u32>().min(room);
            room -= copies;
            filling.segment += 1;
            filling.fill(take, &levels, f64::from(copies) * filling.pg_num, take);
        }
        (room == 0 && filling.is_clear).then_some(Self { places: filling.places })
    }

    fn place(&self, osd: OsdId) -> Option<&Place> {
        self.places.get(osd.index()?)?.as_ref()
    }

    /// The copies, in PGs, that belong on an OSD; 0 for one that the rule does not reach.
    pub fn of(&self, osd: OsdId) -> f64 {
        self.place(osd).map_or(0.0, |place| place.share)
    }

    /// The allowed distance of an OSD from its share: one PG, or 1 %.
    pub fn tolerance(&self, osd: OsdId) -> f64 {
        (self.of(osd) / 100.0).max(1.0)
    }

    /// The OSDs with a share.
    pub fn osds(&self) -> impl Iterator<Item = OsdId> {
        let reached = |place: &Option<Place>| place.is_some_and(|p| p.share > 0.0);
        (0..).map(OsdId).zip(&self.places).filter(move |(_, place)| reached(place)).map(|(osd, _)| osd)
    }

    /// True if all OSDs are of one group, so that only failure domains matter.
    pub(crate) fn is_simple(&self) -> bool {
        let mut groups = self.places.iter().flatten().map(|place| place.group);
        let first = groups.next();
        groups.all(|group| Some(group) == first)
    }

    /// The failure domain of an OSD that may hold copies.
    pub(crate) fn domain(&self, osd: OsdId) -> Option<i32> {
        self.place(osd).filter(|place| place.share > 0.0).map(|place| place.domain)
    }

    /// True if the rule also allows `held` with `to` in the place of `from`.
    pub fn may_replace(&self, held: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let (Some(old), Some(new)) = (self.place(from), self.place(to)) else { return false };
        let others = || held.iter().filter(|osd| **osd != from);
        new.share > 0.0
            && new.group == old.group
            && others().all(|osd| *osd != to && self.place(*osd).is_none_or(|p| p.domain != new.domain))
    }
}

/// The starting points of a rule, each with its choices from the top; a choice of one at the end changes
/// nothing.
fn segments(steps: &[Step], size: u32) -> Option<Vec<(i32, Vec<Level>)>> {
    let mut out = Vec::new();
    let mut open: Option<(i32, Vec<Level>)> = None;
    for step in steps {
        match *step {
            Step::Take(item) => open = Some((item, Vec::new())),
            Step::ChooseFirstn { n, ty }
            | Step::ChooseIndep { n, ty }
            | Step::ChooseleafFirstn { n, ty }
            | Step::ChooseleafIndep { n, ty } => {
                let levels = &mut open.as_mut()?.1;
                let depends = n <= 0 && levels.iter().any(|(n, _)| *n != 1);
                let count = if n > 0 { n } else { size as i32 + n };
                if depends || count <= 0 {
                    return None;
                }
                levels.push((count as u32, ty));
            }
            Step::Emit => {
                let (item, mut levels) = open.take()?;
                while levels.len() > 1 && levels.last().is_some_and(|(n, _)| *n == 1) {
                    levels.pop();
                }
                out.push((item, levels));
            }
            _ => {}
        }
    }
    Some(out)
}

/// Distributes the copies down the hierarchy.
struct Filling<'a> {
    crush: &'a CrushMap,
    weights: Vec<f64>,
    pg_num: f64,
    places: Vec<Option<Place>>,
    segment: usize,
    is_clear: bool,
}

impl Filling<'_> {
    /// Gives `copies` to the OSDs below `bucket`, of which `levels` are still to be chosen.
    fn fill(&mut self, bucket: i32, levels: &[Level], copies: f64, group: i32) {
        let Some(((_, ty), rest)) = levels.split_first() else {
            return self.fill_devices(bucket, copies, group);
        };
        let mut chosen = Vec::new();
        self.of_type(bucket, *ty, &mut chosen);
        let weights: Vec<f64> = chosen.iter().map(|item| self.weight_below(*item)).collect();
        let per_pg: u32 = rest.iter().map(|(n, _)| *n).product();
        for (item, part) in
            chosen.into_iter().zip(distribute(copies, &weights, self.pg_num * f64::from(per_pg)))
        {
            self.fill(item, rest, part, if rest.is_empty() { bucket } else { item });
        }
    }

    /// The devices of a failure domain share what it has.
    fn fill_devices(&mut self, domain: i32, copies: f64, group: i32) {
        let mut devices = Vec::new();
        self.of_type(domain, 0, &mut devices);
        let weights: Vec<f64> = devices.iter().map(|device| self.weight_below(*device)).collect();
        for (device, share) in devices.into_iter().zip(distribute(copies, &weights, self.pg_num)) {
            let place = Place { share, group: (self.segment, group), domain };
            if let Some(slot) = self.places.get_mut(device as usize) {
                self.is_clear &= slot.is_none();
                *slot = Some(place);
            }
        }
    }

    /// The items of a type below a bucket, or itself.
    fn of_type(&self, item: i32, ty: i32, out: &mut Vec<i32>) {
        match self.crush.bucket(item) {
            Some(bucket) if i32::from(bucket.ty) != ty => {
                bucket.items.iter().for_each(|item| self.of_type(*item, ty, out));
            }
            Some(_) => out.push(item),
            None if item >= 0 && ty == 0 => out.push(item),
            None => {}
        }
    }

    /// The weight of the devices below an item.
    fn weight_below(&self, item: i32) -> f64 {
        match self.crush.bucket(item) {
            Some(bucket) => bucket.items.iter().map(|item| self.weight_below(*item)).sum(),
            None => self.weights.get(item as usize).copied().unwrap_or(0.0),
        }
    }
}

/// The weights of all OSDs: as in the hierarchy, less what they are marked out.
fn device_weights(map: &OsdMap) -> Vec<f64> {
    let mut weights = vec![0.0; map.osds.len()];
    for bucket in map.crush.buckets.iter().flatten() {
        for (at, item) in bucket.items.iter().enumerate() {
            if let (Ok(slot), Some(osd)) = (usize::try_from(*item), map.osd(OsdId(*item)))
                && let Some(weight) = weights.get_mut(slot)
            {
                *weight =
                    f64::from(bucket.item_weight(at)) * f64::from(osd.weight) / f64::from(crush::WEIGHT_ONE);
            }
        }
    }
    weights
}

/// Splits `total` in proportion to `weights`, with no part above `cap`; the excess goes to the others.
fn distribute(total: f64, weights: &[f64], cap: f64) -> Vec<f64> {
    let mut out = vec![0.0; weights.len()];
    let mut capped = vec![false; weights.len()];
    loop {
        let open = || (0..weights.len()).filter(|i| !capped[*i]);
        let sum: f64 = open().map(|i| weights[i]).sum();
        let left = total - cap * (weights.len() - open().count()) as f64;
        if sum <= 0.0 {
            return out;
        }
        open().for_each(|i| out[i] = left * weights[i] / sum);
        let over: Vec<usize> = open().filter(|i| out[*i] > cap).collect();
        if over.is_empty() {
            return out;
        }
        for i in over {
            (out[i], capped[i]) = (cap, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::distribute;

    #[test]
    fn nobody_gets_more_than_the_cap_and_all_is_given() {
        assert_eq!(distribute(12.0, &[1.0, 2.0, 3.0], 100.0), [2.0, 4.0, 6.0]);
        assert_eq!(distribute(12.0, &[1.0, 1.0, 8.0], 6.0), [3.0, 3.0, 6.0]);
        assert_eq!(distribute(12.0, &[1.0, 4.0, 8.0], 5.0), [2.0, 5.0, 5.0]);
        assert_eq!(distribute(12.0, &[0.0, 0.0], 5.0), [0.0, 0.0]);
    }
}

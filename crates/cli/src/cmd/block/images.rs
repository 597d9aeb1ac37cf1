//! Images: made, cloned, resized, removed.

use super::args::{BlockArgs, CloneArgs, CreateArgs, NewArgs};
use super::one::World;
use super::show::parent as parent_text;
use crate::block::{ImageSpec, run_script};
use crate::cmd::terminal::{Format, progress};
use anyhow::{Context, Result, bail};
use block::{Access, NewImage, Operation, ParentSpec, Reply, feature};
use serde_json::json;

/// The size of objects unless another is chosen.
const OBJECT_SIZE: u64 = 4 << 20;

fn new_image(world: &World, image: &ImageSpec, size: u64, new: &NewArgs) -> Result<NewImage> {
    image.no_snap()?;
    let object_size = new.object_size.unwrap_or(OBJECT_SIZE);
    if !object_size.is_power_of_two() {
        bail!("--object-size {object_size} is no power of two");
    }
    let mut features = feature::DEFAULT;
    if let Some(names) = &new.features {
        features = 0;
        for name in names {
            let known = || format!("there is no feature `{name}`; there are: {}", feature::NAMES.join(", "));
            features |= feature::parse(name).with_context(known)?;
        }
    }
    Ok(NewImage {
        place: world.place(image)?,
        name: image.image.clone(),
        id: format!("{:012x}", runtime::rng().below(1 << 48)),
        size,
        order: object_size.trailing_zeros() as u8,
        features: features & !(feature::STRIPING | feature::DATA_POOL),
        data_pool: new.data_pool.as_deref().map(|pool| world.pools.id(pool)).transpose()?,
        striping: new.stripe_unit.zip(new.stripe_count),
    })
}

pub(super) fn create(args: &BlockArgs, create: &CreateArgs) -> Result<()> {
    let world = World::connect(args)?;
    let new = new_image(&world, &create.image, create.size, &create.new)?;
    run_script(&world.cluster, move |cx| block::create(cx, &new))?;
    world.shut_down()
}

pub(super) fn clone(args: &BlockArgs, clone: &CloneArgs) -> Result<()> {
    let world = World::connect(args)?;
    let snap = clone.from.need_snap()?.to_owned();
    let (place, name) = (world.place(&clone.from)?, clone.from.image.clone());
    let mut new = new_image(&world, &clone.to, 0, &clone.new)?;
    if clone.new.object_size.is_none() {
        let (place, name) = (place.clone(), name.clone());
        let parent = run_script(&world.cluster, move |cx| block::info(cx, &place, &name))?;
        new.order = parent.header.order;
    }
    run_script(&world.cluster, move |cx| block::clone(cx, &place, &name, &snap, &new))?;
    world.shut_down()
}

pub(super) fn resize(args: &BlockArgs, image: &ImageSpec, size: u64, allow_shrink: bool) -> Result<()> {
    let world = World::connect(args)?;
    world.maintain(image.no_snap()?, Operation::Resize { size, allow_shrink })?;
    world.shut_down()
}

pub(super) fn flatten(args: &BlockArgs, image: &ImageSpec, access: Access) -> Result<()> {
    let world = World::connect(args)?;
    let (place, name) = (world.place(image.no_snap()?)?, image.image.clone());
    let before = run_script(&world.cluster, move |cx| block::info(cx, &place, &name))?;
    let bar = progress("flattened");
    let ended = world.maintain_with(image, Operation::Flatten, access, &bar);
    bar.finish_and_clear();
    if let Reply::LastClone(parent) = ended? {
        remove_trashed(&world, &parent)?;
    }
    if args.format == Format::Json {
        let parent = parent_text(&world, &before);
        let bytes = before.header.overlap;
        say!("{}", json!({ "image": image.to_string(), "former_parent": parent, "shared_bytes": bytes }));
    }
    world.shut_down()
}

pub(super) fn remove(args: &BlockArgs, image: &ImageSpec) -> Result<()> {
    let world = World::connect(args)?;
    match world.maintain(image.no_snap()?, Operation::Remove) {
        Ok(Reply::LastClone(parent)) => remove_trashed(&world, &parent)?,
        Ok(_) => {}
        Err(error) if is_absent(&error) => remove_remains(&world, image, error)?,
        Err(error) => return Err(error),
    }
    world.shut_down()
}

fn is_absent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<block::Error>().is_some_and(|error| error.errno == client::Errno::ENOENT)
}

/// An image without a header is what an interrupted `rm` or `create` has left; if there is no such thing
/// either, the error stands.
fn remove_remains(world: &World, image: &ImageSpec, error: anyhow::Error) -> Result<()> {
    let (place, name) = (world.place(image)?, image.image.clone());
    if run_script(&world.cluster, move |cx| block::remove_remains(cx, &place, &name))? {
        return Ok(());
    }
    Err(error)
}

/// Removes the snapshot of a clone that is none any more: it is in the trash, and nobody else needs it.
pub(super) fn remove_trashed(world: &World, parent: &ParentSpec) -> Result<()> {
    let place = block::Place { pool: parent.pool, namespace: parent.namespace.clone().into_bytes() };
    let images = run_script(&world.cluster, move |cx| block::list(cx, &place))?;
    let Some((name, _)) = images.iter().find(|(_, id)| **id == parent.image) else {
        // The parent itself is in the trash.
        return Ok(());
    };
    let image = ImageSpec {
        pool: world.pools.name(parent.pool),
        namespace: parent.namespace.clone(),
        image: name.clone(),
        snap: None,
    };
    world.maintain(&image, Operation::SnapRemoveTrashed { id: parent.snap })?;
    Ok(())
}

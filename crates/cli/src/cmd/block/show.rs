//! What there is: images, one image, its snapshots.

use super::args::BlockArgs;
use super::one::World;
use crate::block::{ImageSpec, run_script};
use crate::cmd::terminal::Format;
use anyhow::{Result, bail};
use block::{Header, Listed, feature};
use comfy_table::{Table, presets};
use serde_json::{Value, json};

/// Prints a list: as JSON, or as a table of these columns.
fn print(format: Format, columns: &[&str], rows: &[Value]) {
    if format == Format::Json {
        return say!("{}", Value::Array(rows.to_vec()));
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(columns.iter().map(|column| column.to_uppercase()));
    for row in rows {
        table.add_row(columns.iter().map(|column| match &row[*column] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            value => value.to_string(),
        }));
    }
    say!("{table}");
}

pub(super) fn list(args: &BlockArgs, pool: &str) -> Result<()> {
    let (pool, namespace) = pool.split_once('/').unwrap_or((pool, ""));
    if namespace.contains('/') {
        bail!("`{namespace}` is no namespace: give POOL, or POOL/NAMESPACE");
    }
    let world = World::connect(args)?;
    let place = world.pools.place(pool, namespace)?;
    let of = place.clone();
    let images = run_script(&world.cluster, move |cx| block::list(cx, &of))?;
    let mut rows = Vec::new();
    for name in images.into_keys() {
        let (place, image) = (place.clone(), name.clone());
        // One that is removed meanwhile is left out.
        if let Ok(listed) = run_script(&world.cluster, move |cx| block::info(cx, &place, &image)) {
            let snaps = listed.header.snaps.iter().filter(|s| s.is_users()).count();
            let parent = parent(&world, &listed);
            rows.push(json!({
                "image": name, "size": listed.header.size, "snapshots": snaps, "parent": parent,
                "open": listed.watchers.len(),
            }));
        }
    }
    print(args.format, &["image", "size", "snapshots", "parent", "open"], &rows);
    world.shut_down()
}

/// POOL/IMAGE@SNAPSHOT of the parent.
pub(super) fn parent(world: &World, listed: &Listed) -> Option<String> {
    let spec = listed.header.parent.as_ref()?;
    let namespace = if spec.namespace.is_empty() { String::new() } else { format!("{}/", spec.namespace) };
    let unknown = || (spec.image.clone(), format!("#{}", spec.snap));
    let (image, snap) = listed.parent_name.clone().unwrap_or_else(unknown);
    Some(format!("{}/{namespace}{image}@{snap}", world.pools.name(spec.pool)))
}

pub(super) fn info(args: &BlockArgs, image: &ImageSpec) -> Result<()> {
    image.no_snap()?;
    let world = World::connect(args)?;
    let (place, name) = (world.place(image)?, image.image.clone());
    let listed = run_script(&world.cluster, move |cx| block::info(cx, &place, &name))?;
    let header = &listed.header;
    let value = json!({
        "image": image.to_string(),
        "id": header.id,
        "size": header.size,
        "object_size": 1u64 << header.order,
        "stripe_unit": header.striper.stripe_unit(),
        "stripe_count": header.striper.set_size() / header.striper.object_size(),
        "object_prefix": header.prefix,
        "features": feature::names(header.features),
        "data_pool": world.pools.name(header.data.pool),
        "snapshots": snap_names(header),
        "parent": parent(&world, &listed),
        "overlap": header.overlap,
        "open_at": listed.watchers,
    });
    match (args.format, value.as_object()) {
        (Format::Plain, Some(fields)) => {
            for (key, value) in fields {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Array(items) => {
                        items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                    }
                    Value::Null => "none".into(),
                    value => value.to_string(),
                };
                say!("{:14} {text}", key.replace('_', " "));
            }
        }
        _ => say!("{value}"),
    }
    world.shut_down()
}

fn snap_names(header: &Header) -> Vec<&str> {
    header.snaps.iter().filter(|s| s.is_users()).map(|s| s.info.name.as_str()).collect()
}

pub(super) fn snaps(args: &BlockArgs, image: &ImageSpec) -> Result<()> {
    image.no_snap()?;
    let world = World::connect(args)?;
    let (place, name) = (world.place(image)?, image.image.clone());
    let listed = run_script(&world.cluster, move |cx| block::info(cx, &place, &name))?;
    let row = |snap: &block::Snap| {
        json!({
            "id": snap.info.id, "snapshot": snap.info.name, "size": snap.info.image_size,
            "time": snap.info.timestamp.iso8601(), "protected": snap.protected,
            "clones": snap.info.child_count,
        })
    };
    let rows: Vec<Value> = listed.header.snaps.iter().filter(|s| s.is_users()).map(row).collect();
    print(args.format, &["id", "snapshot", "size", "time", "protected", "clones"], &rows);
    world.shut_down()
}

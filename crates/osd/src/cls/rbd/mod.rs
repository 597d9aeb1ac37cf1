//! `rbd`: block-device images. librbd, and through it the `rbd` command, QEMU and iSCSI gateways, and Linux's
//! kernel driver keep all that is not an image's data in objects that they only change through these methods.
//!
//! | object | what | files |
//! |---|---|---|
//! | `rbd_directory`, `rbd_id.NAME` | names and ids | `names` |
//! | `rbd_header.ID` | size, features | `header`, `features` |
//! | | snapshots, parent, clones | `snap`, `snaps`, `parent`, `children` |
//! | | users' data, group, migration | `metadata`, `groups`, `migration` |
//! | `NAME.rbd` | the same of an image of format 1 | `old_format` |
//! | `rbd_object_map.ID` | which data objects exist | `object_map`, `bit_vector` |
//! | `rbd_data.ID.N` | data | `data` |
//! | `rbd_children` | clones of format 1 | `children` |
//! | `rbd_trash`, `rbd_namespace` | removed images, namespaces | `trash`, `namespaces` |
//! | `rbd_mirroring` | mirroring to other clusters | `mirror` |
//! | `rbd_group_directory`, `rbd_group_header.ID` | groups | `names`, `groups`, `group_snaps` |
//!
//! Names of keys, encodings and error numbers are those of Ceph's class of this name: an image's
//! objects can be copied between clusters. Ceph's methods read an object as it was before the vector, and so
//! do these; what a method has changed it does not see.

mod bit_vector;
mod children;
mod data;
mod features;
mod group_snaps;
mod groups;
mod header;
mod metadata;
mod migration;
mod mirror;
mod names;
mod namespaces;
mod object_map;
mod old_format;
mod parent;
mod snap;
mod snaps;
#[cfg(test)]
mod tests;
mod trash;

use super::class::{Class, Method, reader, updater, writer};

pub struct Rbd;

impl Class for Rbd {
    fn name(&self) -> &'static str {
        "rbd"
    }

    fn methods(&self) -> &'static [Method] {
        METHODS
    }
}

const METHODS: &[Method] = &[
    updater("create", header::create),
    reader("get_size", header::get_size),
    updater("set_size", header::set_size),
    reader("get_stripe_unit_count", header::get_stripe_unit_count),
    updater("set_stripe_unit_count", header::set_stripe_unit_count),
    reader("get_object_prefix", header::get_object_prefix),
    reader("get_data_pool", header::get_data_pool),
    reader("get_create_timestamp", header::get_create_timestamp),
    reader("get_access_timestamp", header::get_access_timestamp),
    reader("get_modify_timestamp", header::get_modify_timestamp),
    updater("set_access_timestamp", header::set_access_timestamp),
    updater("set_modify_timestamp", header::set_modify_timestamp),
    reader("get_all_features", features::get_all_features),
    reader("get_features", features::get_features),
    updater("set_features", features::set_features),
    reader("op_features_get", features::op_features_get),
    updater("op_features_set", features::op_features_set),
    reader("get_flags", features::get_flags),
    updater("set_flags", features::set_flags),
    reader("metadata_list", metadata::metadata_list),
    updater("metadata_set", metadata::metadata_set),
    reader("metadata_get", metadata::metadata_get),
    updater("metadata_remove", metadata::metadata_remove),
    // Snapshots.
    reader("get_snapcontext", snaps::get_snapcontext),
    reader("get_snapshot_name", snaps::get_snapshot_name),
    reader("get_snapshot_namespace", snaps::get_snapshot_namespace),
    reader("get_snapshot_timestamp", snaps::get_snapshot_timestamp),
    reader("snapshot_get", snaps::snapshot_get),
    updater("snapshot_add", snaps::snapshot_add),
    updater("snapshot_remove", snaps::snapshot_remove),
    updater("snapshot_rename", snaps::snapshot_rename),
    updater("snapshot_trash_add", snaps::snapshot_trash_add),
    reader("snapshot_get_limit", snaps::snapshot_get_limit),
    updater("snapshot_set_limit", snaps::snapshot_set_limit),
    reader("get_protection_status", snaps::get_protection_status),
    updater("set_protection_status", snaps::set_protection_status),
    // Clones.
    reader("get_parent", parent::get_parent),
    updater("set_parent", parent::set_parent),
    updater("remove_parent", parent::remove_parent),
    reader("parent_get", parent::parent_get),
    reader("parent_overlap_get", parent::parent_overlap_get),
    updater("parent_attach", parent::parent_attach),
    updater("parent_detach", parent::parent_detach),
    updater("child_attach", children::child_attach),
    updater("child_detach", children::child_detach),
    reader("children_list", children::children_list),
    updater("add_child", children::add_child),
    updater("remove_child", children::remove_child),
    reader("get_children", children::get_children),
    // Data objects.
    updater("copyup", data::copyup),
    updater("sparse_copyup", data::sparse_copyup),
    updater("assert_snapc_seq", data::assert_snapc_seq),
    updater("sparsify", data::sparsify),
    reader("object_map_load", object_map::object_map_load),
    updater("object_map_save", object_map::object_map_save),
    updater("object_map_resize", object_map::object_map_resize),
    updater("object_map_update", object_map::object_map_update),
    updater("object_map_snap_add", object_map::object_map_snap_add),
    updater("object_map_snap_remove", object_map::object_map_snap_remove),
    // Names.
    reader("get_id", names::get_id),
    updater("set_id", names::set_id),
    reader("dir_get_id", names::dir_get_id),
    reader("dir_get_name", names::dir_get_name),
    reader("dir_list", names::dir_list),
    updater("dir_add_image", names::dir_add),
    updater("dir_remove_image", names::dir_remove),
    updater("dir_rename_image", names::dir_rename),
    reader("dir_state_assert", names::dir_state_assert),
    updater("dir_state_set", names::dir_state_set),
    updater("namespace_add", namespaces::namespace_add),
    updater("namespace_remove", namespaces::namespace_remove),
    reader("namespace_list", namespaces::namespace_list),
    updater("trash_add", trash::trash_add),
    updater("trash_remove", trash::trash_remove),
    reader("trash_list", trash::trash_list),
    reader("trash_get", trash::trash_get),
    updater("trash_state_set", trash::trash_state_set),
    // Groups.
    reader("group_dir_list", names::dir_list),
    updater("group_dir_add", names::dir_add),
    updater("group_dir_remove", names::dir_remove),
    updater("group_dir_rename", names::dir_rename),
    updater("group_image_set", groups::group_image_set),
    updater("group_image_remove", groups::group_image_remove),
    reader("group_image_list", groups::group_image_list),
    updater("image_group_add", groups::image_group_add),
    updater("image_group_remove", groups::image_group_remove),
    reader("image_group_get", groups::image_group_get),
    updater("group_snap_set", group_snaps::group_snap_set),
    updater("group_snap_remove", group_snaps::group_snap_remove),
    reader("group_snap_get_by_id", group_snaps::group_snap_get_by_id),
    reader("group_snap_list", group_snaps::group_snap_list),
    reader("group_snap_list_order", group_snaps::group_snap_list_order),
    // Migration.
    updater("migration_set", migration::migration_set),
    updater("migration_set_state", migration::migration_set_state),
    reader("migration_get", migration::migration_get),
    updater("migration_remove", migration::migration_remove),
    // Mirroring.
    reader("mirror_uuid_get", mirror::pool::mirror_uuid_get),
    updater("mirror_uuid_set", mirror::pool::mirror_uuid_set),
    reader("mirror_mode_get", mirror::pool::mirror_mode_get),
    reader("mirror_remote_namespace_get", mirror::pool::mirror_remote_namespace_get),
    updater("mirror_remote_namespace_set", mirror::pool::mirror_remote_namespace_set),
    updater("mirror_mode_set", mirror::pool::mirror_mode_set),
    reader("mirror_peer_list", mirror::pool::mirror_peer_list),
    updater("mirror_peer_add", mirror::pool::mirror_peer_add),
    updater("mirror_peer_remove", mirror::pool::mirror_peer_remove),
    updater("mirror_peer_ping", mirror::pool::mirror_peer_ping),
    updater("mirror_peer_set_client", mirror::pool::mirror_peer_set_client),
    updater("mirror_peer_set_cluster", mirror::pool::mirror_peer_set_cluster),
    updater("mirror_peer_set_direction", mirror::pool::mirror_peer_set_direction),
    reader("mirror_image_list", mirror::images::mirror_image_list),
    reader("mirror_image_get_image_id", mirror::images::mirror_image_get_image_id),
    reader("mirror_image_get", mirror::images::mirror_image_get),
    updater("mirror_image_set", mirror::images::mirror_image_set),
    updater("mirror_image_remove", mirror::images::mirror_image_remove),
    updater("mirror_image_status_set", mirror::reports::mirror_image_status_set),
    updater("mirror_image_status_remove", mirror::reports::mirror_image_status_remove),
    reader("mirror_image_status_get", mirror::reports::mirror_image_status_get),
    reader("mirror_image_status_list", mirror::reports::mirror_image_status_list),
    reader("mirror_image_status_get_summary", mirror::reports::mirror_image_status_get_summary),
    updater("mirror_image_status_remove_down", mirror::reports::mirror_image_status_remove_down),
    reader("mirror_image_instance_get", mirror::reports::mirror_image_instance_get),
    reader("mirror_image_instance_list", mirror::reports::mirror_image_instance_list),
    reader("mirror_instances_list", mirror::instances::mirror_instances_list),
    updater("mirror_instances_add", mirror::instances::mirror_instances_add),
    updater("mirror_instances_remove", mirror::instances::mirror_instances_remove),
    reader("mirror_image_map_list", mirror::instances::mirror_image_map_list),
    writer("mirror_image_map_update", mirror::instances::mirror_image_map_update),
    writer("mirror_image_map_remove", mirror::instances::mirror_image_map_remove),
    updater("mirror_image_snapshot_unlink_peer", mirror::snaps::mirror_image_snapshot_unlink_peer),
    updater(
        "mirror_image_snapshot_set_copy_progress",
        mirror::snaps::mirror_image_snapshot_set_copy_progress,
    ),
    // Images of format 1.
    reader("snap_list", old_format::snap_list),
    updater("snap_add", old_format::snap_add),
    updater("snap_remove", old_format::snap_remove),
    updater("snap_rename", old_format::snap_rename),
];

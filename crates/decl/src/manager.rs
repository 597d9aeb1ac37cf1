//! The manager's command table: what clients send to the active manager and not to a monitor. Names,
//! arguments and their order are those of Ceph's modules `volumes` and `snap_schedule`.

use crate::table::command_table;

command_table! {
    /// The commands of the manager.
    MgrCmd {
    VolumeLs = "mgr" "r"
        "fs volume ls"
        "Lists file systems";
    VolumeInfo = "mgr" "r"
        "fs volume info vol_name:str human_readable:bool?"
        "Shows pools, monitors and use of a file system";
    VolumeCreate = "mgr" "rw"
        "fs volume create name:str/n/ placement:str? meta_pool:str?/n/ data_pool:str?/n/"
        "Creates a file system, and pools for it";
    VolumeRm = "mgr" "rw"
        "fs volume rm vol_name:str yes-i-really-mean-it:str?"
        "Removes a file system with its pools";

    GroupLs = "mgr" "r"
        "fs subvolumegroup ls vol_name:str"
        "Lists subvolume groups";
    GroupCreate = "mgr" "rw"
        "fs subvolumegroup create vol_name:str group_name:str/n/ size:int? pool_layout:str? uid:int? \
         gid:int? mode:str?"
        "Creates a subvolume group";
    GroupRm = "mgr" "rw"
        "fs subvolumegroup rm vol_name:str group_name:str force:bool?"
        "Removes an empty subvolume group";
    GroupInfo = "mgr" "r"
        "fs subvolumegroup info vol_name:str group_name:str"
        "Shows owner, quota and use of a subvolume group";
    GroupResize = "mgr" "rw"
        "fs subvolumegroup resize vol_name:str group_name:str new_size:str no_shrink:bool?"
        "Sets the quota of a subvolume group";
    GroupExist = "mgr" "r"
        "fs subvolumegroup exist vol_name:str"
        "Says whether there are subvolume groups";
    GroupGetpath = "mgr" "r"
        "fs subvolumegroup getpath vol_name:str group_name:str"
        "Prints the path of a subvolume group";
    GroupPin = "mgr" "rw"
        "fs subvolumegroup pin vol_name:str group_name:str pin_type:choice(export|distributed|random) \
         pin_setting:str"
        "Pins a subvolume group to ranks";
    GroupSnapLs = "mgr" "r"
        "fs subvolumegroup snapshot ls vol_name:str group_name:str"
        "Lists the snapshots of a subvolume group";
    GroupSnapCreate = "mgr" "rw"
        "fs subvolumegroup snapshot create vol_name:str group_name:str snap_name:str"
        "Refused: subvolumes are snapshotted one by one";
    GroupSnapRm = "mgr" "rw"
        "fs subvolumegroup snapshot rm vol_name:str group_name:str snap_name:str force:bool?"
        "Removes a snapshot of a subvolume group";

    SubvolumeLs = "mgr" "r"
        "fs subvolume ls vol_name:str group_name:str?"
        "Lists subvolumes";
    SubvolumeCreate = "mgr" "rw"
        "fs subvolume create vol_name:str sub_name:str/n/ size:int? group_name:str? pool_layout:str? \
         uid:int? gid:int? mode:str? namespace_isolated:bool?"
        "Creates a subvolume";
    SubvolumeRm = "mgr" "rw"
        "fs subvolume rm vol_name:str sub_name:str group_name:str? force:bool? retain_snapshots:bool?"
        "Removes a subvolume";
    SubvolumeAuthorize = "mgr" "rw"
        "fs subvolume authorize vol_name:str sub_name:str auth_id:str group_name:str? \
         access_level:str? tenant_id:str? allow_existing_id:bool?"
        "Gives a client access to a subvolume";
    SubvolumeDeauthorize = "mgr" "rw"
        "fs subvolume deauthorize vol_name:str sub_name:str auth_id:str group_name:str?"
        "Takes a client's access to a subvolume away";
    SubvolumeAuthorizedList = "mgr" "r"
        "fs subvolume authorized_list vol_name:str sub_name:str group_name:str?"
        "Lists the clients with access to a subvolume";
    SubvolumeEvict = "mgr" "rw"
        "fs subvolume evict vol_name:str sub_name:str auth_id:str group_name:str?"
        "Ends a client's sessions that have a subvolume mounted";
    SubvolumeGetpath = "mgr" "rw"
        "fs subvolume getpath vol_name:str sub_name:str group_name:str?"
        "Prints the path to mount a subvolume by";
    SubvolumeInfo = "mgr" "r"
        "fs subvolume info vol_name:str sub_name:str group_name:str?"
        "Shows state, quota and use of a subvolume";
    SubvolumeExist = "mgr" "r"
        "fs subvolume exist vol_name:str group_name:str?"
        "Says whether there are subvolumes";
    SubvolumeResize = "mgr" "rw"
        "fs subvolume resize vol_name:str sub_name:str new_size:str group_name:str? no_shrink:bool?"
        "Sets the quota of a subvolume";
    SubvolumePin = "mgr" "rw"
        "fs subvolume pin vol_name:str sub_name:str pin_type:choice(export|distributed|random) \
         pin_setting:str group_name:str?"
        "Pins a subvolume to ranks";
    MetadataSet = "mgr" "rw"
        "fs subvolume metadata set vol_name:str sub_name:str key_name:str value:str group_name:str?"
        "Stores a value with a subvolume";
    MetadataGet = "mgr" "r"
        "fs subvolume metadata get vol_name:str sub_name:str key_name:str group_name:str?"
        "Prints a value stored with a subvolume";
    MetadataLs = "mgr" "r"
        "fs subvolume metadata ls vol_name:str sub_name:str group_name:str?"
        "Prints the values stored with a subvolume";
    MetadataRm = "mgr" "rw"
        "fs subvolume metadata rm vol_name:str sub_name:str key_name:str group_name:str? force:bool?"
        "Removes a value stored with a subvolume";
    SnapLs = "mgr" "r"
        "fs subvolume snapshot ls vol_name:str sub_name:str group_name:str?"
        "Lists the snapshots of a subvolume";
    SnapCreate = "mgr" "rw"
        "fs subvolume snapshot create vol_name:str sub_name:str snap_name:str group_name:str?"
        "Takes a snapshot of a subvolume";
    SnapRm = "mgr" "rw"
        "fs subvolume snapshot rm vol_name:str sub_name:str snap_name:str group_name:str? force:bool?"
        "Removes a snapshot of a subvolume";
    SnapInfo = "mgr" "r"
        "fs subvolume snapshot info vol_name:str sub_name:str snap_name:str group_name:str?"
        "Shows when a snapshot was taken and what is cloned from it";
    SnapProtect = "mgr" "rw"
        "fs subvolume snapshot protect vol_name:str sub_name:str snap_name:str group_name:str?"
        "Does nothing: clones protect their snapshot by themselves";
    SnapUnprotect = "mgr" "rw"
        "fs subvolume snapshot unprotect vol_name:str sub_name:str snap_name:str group_name:str?"
        "Does nothing: clones protect their snapshot by themselves";
    SnapClone = "mgr" "rw"
        "fs subvolume snapshot clone vol_name:str sub_name:str snap_name:str target_sub_name:str \
         pool_layout:str? group_name:str? target_group_name:str?"
        "Copies a snapshot to a new subvolume, in the background";
    SnapMetadataSet = "mgr" "rw"
        "fs subvolume snapshot metadata set vol_name:str sub_name:str snap_name:str key_name:str \
         value:str group_name:str?"
        "Stores a value with a snapshot";
    SnapMetadataGet = "mgr" "r"
        "fs subvolume snapshot metadata get vol_name:str sub_name:str snap_name:str key_name:str \
         group_name:str?"
        "Prints a value stored with a snapshot";
    SnapMetadataLs = "mgr" "r"
        "fs subvolume snapshot metadata ls vol_name:str sub_name:str snap_name:str group_name:str?"
        "Prints the values stored with a snapshot";
    SnapMetadataRm = "mgr" "rw"
        "fs subvolume snapshot metadata rm vol_name:str sub_name:str snap_name:str key_name:str \
         group_name:str? force:bool?"
        "Removes a value stored with a snapshot";
    CloneStatus = "mgr" "r"
        "fs clone status vol_name:str clone_name:str group_name:str?"
        "Shows how far a clone is";
    CloneCancel = "mgr" "rw"
        "fs clone cancel vol_name:str clone_name:str group_name:str?"
        "Ends a clone that is not complete";

    ScheduleStatus = "mgr" "r"
        "fs snap-schedule status path:str? fs:str?"
        "Shows the snapshot schedules of a directory";
    ScheduleList = "mgr" "r"
        "fs snap-schedule list path:str recursive:bool? fs:str?"
        "Lists snapshot schedules";
    ScheduleAdd = "mgr" "rw"
        "fs snap-schedule add path:str snap_schedule:str start:str? fs:str?"
        "Schedules snapshots of a directory";
    ScheduleRemove = "mgr" "rw"
        "fs snap-schedule remove path:str repeat:str? start:str? fs:str?"
        "Removes snapshot schedules of a directory";
    RetentionAdd = "mgr" "rw"
        "fs snap-schedule retention add path:str retention_spec_or_period:str retention_count:str? \
         fs:str?"
        "Says how many scheduled snapshots are kept";
    RetentionRemove = "mgr" "rw"
        "fs snap-schedule retention remove path:str retention_spec_or_period:str retention_count:str? \
         fs:str?"
        "Takes back `retention add`";
    ScheduleActivate = "mgr" "rw"
        "fs snap-schedule activate path:str repeat:str? start:str? fs:str?"
        "Goes on with snapshot schedules";
    ScheduleDeactivate = "mgr" "rw"
        "fs snap-schedule deactivate path:str repeat:str? start:str? fs:str?"
        "Suspends snapshot schedules";
    }
}

//! The monitor's command table: one line a command, from which come clients' help and validation, the
//! permission check and the exhaustive dispatch in the monitor.

use crate::table::command_table;

command_table! {
    /// The commands of the monitor.
    Cmd {
    Descriptions = "mon" "r" "get_command_descriptions" "Describes all commands in JSON", hidden;
    Status = "mon" "r" "status" "Shows the state of the cluster";
    Health = "mon" "r" "health detail:choice?(detail)" "Shows what is wrong, with `detail` where and what to do";
    HealthMute = "mon" "w" "health mute code:str ttl:str? sticky:bool?" "Keeps a health code out of the summary, for a time and while it does not get worse";
    HealthUnmute = "mon" "w" "health unmute code:str?" "Takes back `health mute`, of all codes where none is given";
    Df = "mon" "r" "df detail:choice?(detail)" "Shows space used and free, by device class and pool";
    Fsid = "mon" "r" "fsid" "Prints the cluster's id";
    Version = "mon" "r" "version" "Prints this monitor's version";
    Versions = "mon" "r" "versions" "Counts running daemons by version";
    Features = "mon" "r" "features" "Counts connected daemons and clients by feature bits";
    QuorumStatus = "mon" "r" "quorum_status" "Shows which monitors agree";
    MonStat = "mon" "r" "mon stat" "One line on the monitors";
    MonDump = "mon" "r" "mon dump epoch:int?[0]" "Prints the map of monitors";
    MonAdd = "mon" "rw" "mon add name:str addr:str" "Adds a monitor; start it on an empty directory";
    MonRm = "mon" "rw" "mon rm name:str" "Removes a monitor";
    MonRemove = "mon" "rw" "mon remove name:str" "Removes a monitor", hidden;
    MonGetmap = "mon" "r" "mon getmap epoch:int?[0]" "Writes the map of monitors in binary form";
    MonOkToStop = "mon" "r" "mon ok-to-stop ids:str*" "Says whether these monitors can stop with a quorum left";
    MonMetadata = "mon" "r" "mon metadata id:str?" "Shows what monitors say of their host";
    MonVersions = "mon" "r" "mon versions" "Counts monitors by version";
    MonCountMetadata = "mon" "r" "mon count-metadata property:str" "Counts monitors by a value of their metadata";
    MonFeatureLs = "mon" "r" "mon feature ls" "Lists the features that monitors need to have";
    Finalize = "mon" "rw" "finalize dry_run:bool?" "Lets daemons use what they all understand since an upgrade; there is no way back to the former version";
    TimeSyncStatus = "mon" "r" "time-sync-status" "Shows the clock differences of the monitors";
    MgrStat = "mgr" "r" "mgr stat" "Says which manager is active";
    MgrDump = "mgr" "r" "mgr dump epoch:int?[0]" "Prints the map of managers";
    MgrFail = "mgr" "rw" "mgr fail who:str?" "Lets another manager take over from this one, or from the active one";
    MgrVersions = "mgr" "r" "mgr versions" "Counts managers by version";
    MgrMetadata = "mgr" "r" "mgr metadata who:str?" "Shows what managers say of their host";
    MgrCountMetadata = "mgr" "r" "mgr count-metadata property:str" "Counts managers by a value of their metadata";
    MgrModuleLs = "mgr" "r" "mgr module ls" "Lists the duties of managers and of the monitors in their place";
    MgrModuleEnable = "mgr" "rw" "mgr module enable module:str force:choice?(--force)" "Lets the monitors serve the dashboard or the metrics (prometheus)";
    MgrModuleDisable = "mgr" "rw" "mgr module disable module:str" "Ends what `mgr module enable` began";
    MgrServices = "mgr" "r" "mgr services" "Lists where the dashboard and the metrics are served";
    NodeLs = "mon" "r" "node ls type:choice?(all|osd|mon|mds|mgr)" "Lists hosts and the daemons on them";
    Log = "mon" "rw" "log logtext:str*" "Writes a line to the cluster log";
    LogLast = "mon" "r" "log last num:int?[1] level:choice?(debug|info|sec|warn|error) channel:choice?(*|cluster|audit|cephadm)" "Prints the last lines of the cluster log";

    OsdStat = "osd" "r" "osd stat" "One line on the OSDs";
    OsdInfo = "osd" "r" "osd info id:osd?" "Prints an OSD's entry in the OSD map, or all";
    OsdDump = "osd" "r" "osd dump epoch:int?[0]" "Prints the OSD map";
    OsdTree = "osd" "r" "osd tree epoch:int?[0] states:choice*?(up|down|in|out|destroyed)" "Shows OSDs in the CRUSH hierarchy";
    OsdTreeFrom = "osd" "r" "osd tree-from epoch:int?[0] bucket:str states:choice*?(up|down|in|out|destroyed)" "Shows OSDs below a CRUSH bucket";
    OsdLs = "osd" "r" "osd ls epoch:int?[0]" "Lists OSD numbers";
    OsdLsTree = "osd" "r" "osd ls-tree epoch:int?[0] name:str" "Lists the OSDs under a CRUSH bucket";
    OsdGetmap = "osd" "r" "osd getmap epoch:int?[0]" "Writes the OSD map in binary form";
    OsdGetcrushmap = "osd" "r" "osd getcrushmap epoch:int?[0]" "Writes the CRUSH map in binary form";
    OsdGetmaxosd = "osd" "r" "osd getmaxosd" "Prints the size of the OSD table";
    OsdFind = "osd" "r" "osd find id:osd" "Shows where an OSD is";
    OsdMetadata = "osd" "r" "osd metadata id:osd?" "Shows what OSDs say of themselves and their host";
    OsdVersions = "osd" "r" "osd versions" "Counts OSDs by version";
    OsdCountMetadata = "osd" "r" "osd count-metadata property:str" "Counts OSDs by a value of their metadata";
    OsdNumaStatus = "osd" "r" "osd numa-status" "Shows the NUMA nodes of OSDs, which are not tracked";
    OsdLastStatSeq = "osd" "r" "osd last-stat-seq id:osd" "Prints how many reports an OSD has sent to this monitor";
    OsdMap = "osd" "r" "osd map pool:pool object:object nspace:str?" "Shows which PG and OSDs an object belongs to";
    OsdDf = "osd" "r" "osd df output_method:choice?(plain|tree) filter_by:choice?(class|name) filter:str?" "Shows space used and free, by OSD";
    OsdPerf = "osd" "r" "osd perf" "Shows the commit latency of each OSD";
    OsdBlockedBy = "osd" "r" "osd blocked-by" "Shows which OSDs hold up the peering of others";
    OsdUtilization = "osd" "r" "osd utilization" "Shows how evenly PGs are spread over OSDs";
    OsdLspools = "osd" "r" "osd lspools" "Lists pools with their ids";
    OsdOkToStop = "osd" "r" "osd ok-to-stop ids:str* max:int?[0]" "Says whether these OSDs can stop with all data staying available";
    OsdSafeToDestroy = "osd" "r" "osd safe-to-destroy ids:str*" "Says whether these OSDs hold no data that is needed";

    OsdNew = "osd" "rw" "osd new uuid:uuid id:osd?" "Registers an OSD; reads its cephx secret as JSON from -i";
    OsdCreate = "osd" "rw" "osd create uuid:uuid? id:osd?" "Old form of `osd new`, without a key", hidden;
    OsdDestroy = "osd" "rw" "osd destroy id:osd force:bool? yes_i_really_mean_it:bool?" "Forgets an OSD's key and data, and keeps its number and CRUSH position for a new disk";
    OsdSetmaxosd = "osd" "rw" "osd setmaxosd newmax:int[0]" "Sets the size of the OSD table";
    OsdOut = "osd" "rw" "osd out ids:str*" "Moves data away from OSDs";
    OsdIn = "osd" "rw" "osd in ids:str*" "Lets OSDs hold data";
    OsdDown = "osd" "rw" "osd down ids:str* definitely_dead:bool?" "Marks OSDs down; running ones come back at once";
    OsdLost = "osd" "rw" "osd lost id:osd yes_i_really_mean_it:bool?" "Declares that an OSD's data will never come back";
    OsdPurge = "osd" "rw" "osd purge id:osd force:bool? yes_i_really_mean_it:bool?" "Forgets an OSD: number, CRUSH position and key";
    OsdPurgeNew = "osd" "rw" "osd purge-new id:osd yes_i_really_mean_it:bool?" "Forgets an OSD that was never started";
    OsdRm = "osd" "rw" "osd rm ids:str*" "Forgets OSDs that are down";
    OsdSet = "osd" "rw" "osd set key:choice(full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit) yes_i_really_mean_it:bool?" "Sets a cluster-wide flag";
    OsdUnset = "osd" "rw" "osd unset key:choice(full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim)" "Clears a cluster-wide flag";
    OsdPause = "osd" "rw" "osd pause" "Stops all reading and writing";
    OsdUnpause = "osd" "rw" "osd unpause" "Takes back `osd pause`";
    OsdSetGroup = "osd" "rw" "osd set-group flags:str who:str*" "Sets flags (noup, nodown, noin, noout) of OSDs, CRUSH buckets or device classes";
    OsdUnsetGroup = "osd" "rw" "osd unset-group flags:str who:str*" "Takes back `osd set-group`";
    OsdAddNoup = "osd" "rw" "osd add-noup ids:str*" "Old form of `osd set-group noup`", hidden;
    OsdAddNodown = "osd" "rw" "osd add-nodown ids:str*" "Old form of `osd set-group nodown`", hidden;
    OsdAddNoin = "osd" "rw" "osd add-noin ids:str*" "Old form of `osd set-group noin`", hidden;
    OsdAddNoout = "osd" "rw" "osd add-noout ids:str*" "Old form of `osd set-group noout`", hidden;
    OsdRmNoup = "osd" "rw" "osd rm-noup ids:str*" "Old form of `osd unset-group noup`", hidden;
    OsdRmNodown = "osd" "rw" "osd rm-nodown ids:str*" "Old form of `osd unset-group nodown`", hidden;
    OsdRmNoin = "osd" "rw" "osd rm-noin ids:str*" "Old form of `osd unset-group noin`", hidden;
    OsdRmNoout = "osd" "rw" "osd rm-noout ids:str*" "Old form of `osd unset-group noout`", hidden;
    OsdRequireRelease = "osd" "rw" "osd require-osd-release release:choice(luminous|mimic|nautilus|octopus|pacific) yes_i_really_mean_it:bool?" "Sets the oldest release of OSDs that may join";
    OsdSetRequireMinCompatClient = "osd" "rw" "osd set-require-min-compat-client version:str yes_i_really_mean_it:bool?" "Sets the oldest release of clients that may connect";
    OsdReweight = "osd" "rw" "osd reweight id:osd weight:float[0.0|1.0]" "Lets an OSD hold only a part of its share";
    OsdReweightn = "osd" "rw" "osd reweightn weights:str" "Sets the part of their share that several OSDs hold, as JSON of number to weight in 1/65536";
    OsdPrimaryAffinity = "osd" "rw" "osd primary-affinity id:osd weight:float[0.0|1.0]" "Sets how readily an OSD becomes a primary";
    OsdSetFullRatio = "osd" "rw" "osd set-full-ratio ratio:float[0.0|1.0]" "Sets the use at which writes stop";
    OsdSetNearfullRatio = "osd" "rw" "osd set-nearfull-ratio ratio:float[0.0|1.0]" "Sets the use at which a warning appears";
    OsdSetBackfillfullRatio = "osd" "rw" "osd set-backfillfull-ratio ratio:float[0.0|1.0]" "Sets the use at which an OSD takes no more backfill";
    OsdGetRequireMinCompatClient = "osd" "r" "osd get-require-min-compat-client" "Prints the oldest release of clients that may connect";
    OsdBlocklistLs = "osd" "r" "osd blocklist ls" "Lists clients that may not write any more";
    OsdBlocklist = "osd" "rw" "osd blocklist blocklistop:choice(add|rm) addr:addr expire:float?[0.0]" "Forbids a client's instance to write, or allows it again";
    OsdBlocklistClear = "osd" "rw" "osd blocklist clear" "Empties the blocklist";
    OsdBlacklistLs = "osd" "r" "osd blacklist ls" "Old spelling of `osd blocklist ls`", hidden;
    OsdBlacklist = "osd" "rw" "osd blacklist blacklistop:choice(add|rm) addr:addr expire:float?[0.0]" "Old spelling of `osd blocklist`", hidden;
    OsdPgUpmapItems = "osd" "rw" "osd pg-upmap-items pgid:pg id:osd*" "Moves a PG from some OSDs to others, given in pairs";
    OsdPgUpmap = "osd" "rw" "osd pg-upmap pgid:pg id:osd*" "Puts a PG on these OSDs";
    OsdRmPgUpmap = "osd" "rw" "osd rm-pg-upmap pgid:pg" "Takes back `osd pg-upmap`";
    OsdPgTemp = "osd" "rw" "osd pg-temp pgid:pg id:osd*?" "Lets a PG act on these OSDs for a while; none takes it back";
    OsdPrimaryTemp = "osd" "rw" "osd primary-temp pgid:pg id:str" "Lets an OSD be a PG's primary for a while; -1 takes it back";
    OsdRmPgUpmapItems = "osd" "rw" "osd rm-pg-upmap-items pgid:pg" "Takes back `osd pg-upmap-items`";

    OsdPoolCreate = "osd" "rw" "osd pool create pool:pool pg_num:int?[0] pgp_num:int?[0] pool_type:choice?(replicated|erasure) erasure_code_profile:str?/n/ rule:str? expected_num_objects:int?[0] size:int?[0] pg_num_min:int?[0] pg_num_max:int?[0] autoscale_mode:choice?(on|off|warn) bulk:bool? target_size_bytes:int?[0] target_size_ratio:float?[0.0]" "Creates a pool";
    OsdPoolAutoscaleStatus = "mgr" "r" "osd pool autoscale-status" "Shows how many PGs pools have and should have by what is in them";
    OsdPoolSetThreshold = "mgr" "w" "osd pool set threshold num:float[1.0]" "Sets by which factor a number of PGs must be wrong to be changed";
    OsdPoolSetNoautoscale = "mgr" "w" "osd pool set noautoscale" "Leaves the numbers of PGs of all pools as they are";
    OsdPoolUnsetNoautoscale = "mgr" "w" "osd pool unset noautoscale" "Takes back `osd pool set noautoscale`";
    OsdPoolGetNoautoscale = "mgr" "r" "osd pool get noautoscale" "Says whether the numbers of PGs of all pools are left as they are";
    OsdPoolLs = "osd" "r" "osd pool ls detail:choice?(detail)" "Lists pools";
    OsdPoolRm = "osd" "rw" "osd pool rm pool:pool pool2:pool? yes_i_really_really_mean_it:bool? yes_i_really_really_mean_it_not_faking:bool?" "Removes a pool and everything in it";
    OsdPoolDelete = "osd" "rw" "osd pool delete pool:pool pool2:pool? yes_i_really_really_mean_it:bool? yes_i_really_really_mean_it_not_faking:bool?" "Old spelling of `osd pool rm`", hidden;
    OsdPoolRename = "osd" "rw" "osd pool rename srcpool:pool destpool:pool" "Renames a pool";
    OsdPoolGet = "osd" "r" "osd pool get pool:pool var:choice(size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|fast_read|erasure_code_profile|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|bulk|all)" "Prints a pool's setting";
    OsdPoolSet = "osd" "rw" "osd pool set pool:pool var:choice(size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|fast_read|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|bulk) val:str yes_i_really_mean_it:bool?" "Changes a pool's setting";
    OsdPoolSetQuota = "osd" "rw" "osd pool set-quota pool:pool field:choice(max_objects|max_bytes) val:str" "Limits a pool's objects or bytes; 0 takes the limit away";
    OsdPoolGetQuota = "osd" "r" "osd pool get-quota pool:pool" "Prints a pool's limits";
    OsdPoolStats = "osd" "r" "osd pool stats pool_name:pool?" "Shows what goes on in pools";
    OsdPoolAppEnable = "osd" "rw" "osd pool application enable pool:pool app:str/n/ yes_i_really_mean_it:bool?" "Says what a pool is used for";
    OsdPoolAppDisable = "osd" "rw" "osd pool application disable pool:pool app:str yes_i_really_mean_it:bool?" "Takes back `osd pool application enable`";
    OsdPoolAppSet = "osd" "rw" "osd pool application set pool:pool app:str key:str/n/ value:str/e/" "Sets metadata of a pool's application";
    OsdPoolAppRm = "osd" "rw" "osd pool application rm pool:pool app:str key:str" "Removes metadata of a pool's application";
    OsdPoolAppGet = "osd" "r" "osd pool application get pool:pool? app:str? key:str?" "Shows what pools are used for";
    OsdPoolMksnap = "osd" "rw" "osd pool mksnap pool:pool snap:str" "Takes a snapshot of a pool";
    OsdPoolRmsnap = "osd" "rw" "osd pool rmsnap pool:pool snap:str" "Removes a snapshot of a pool";

    OsdCrushDump = "osd" "r" "osd crush dump" "Prints the CRUSH map";
    OsdCrushTree = "osd" "r" "osd crush tree shadow:choice?(--show-shadow)" "Shows the CRUSH hierarchy";
    OsdCrushRuleLs = "osd" "r" "osd crush rule ls" "Lists placement rules";
    OsdCrushRuleDump = "osd" "r" "osd crush rule dump name:str?/n/" "Prints placement rules";
    OsdCrushClassLs = "osd" "r" "osd crush class ls" "Lists device classes";
    OsdCrushClassLsOsd = "osd" "r" "osd crush class ls-osd class:str/n/" "Lists the OSDs of a device class";
    OsdCrushGetDeviceClass = "osd" "r" "osd crush get-device-class ids:str*" "Prints the device class of OSDs";
    OsdCrushLs = "osd" "r" "osd crush ls node:str/n/" "Lists what a CRUSH bucket holds";
    OsdCrushRuleLsByClass = "osd" "r" "osd crush rule ls-by-class class:str/n/" "Lists placement rules that start from a device class";
    OsdCrushGetTunable = "osd" "r" "osd crush get-tunable tunable:choice(straw_calc_version)" "Prints one of the settings of how hard CRUSH tries";
    OsdCrushWeightSetLs = "osd" "r" "osd crush weight-set ls" "Lists weight sets";
    OsdCrushWeightSetDump = "osd" "r" "osd crush weight-set dump" "Prints weight sets";
    OsdCrushWeightSetCreateCompat = "osd" "rw" "osd crush weight-set create-compat" "Makes the weight set of all pools without one of their own";
    OsdCrushWeightSetCreate = "osd" "rw" "osd crush weight-set create pool:pool mode:choice(flat|positional)" "Makes a pool's weight set, with one weight for each item or one for each position";
    OsdCrushWeightSetRm = "osd" "rw" "osd crush weight-set rm pool:pool" "Removes a pool's weight set";
    OsdCrushWeightSetRmCompat = "osd" "rw" "osd crush weight-set rm-compat" "Removes the weight set of all pools without one of their own";
    OsdCrushWeightSetReweight = "osd" "rw" "osd crush weight-set reweight pool:pool item:str weight:float*[0.0]" "Sets the weight of an OSD or bucket in a pool's weight set";
    OsdCrushWeightSetReweightCompat = "osd" "rw" "osd crush weight-set reweight-compat item:str weight:float*[0.0]" "Sets the weight of an OSD or bucket in the weight set of all pools without one of their own";
    OsdCrushSetMap = "osd" "rw" "osd setcrushmap prior_version:int?" "Replaces the CRUSH map by the compiled one given with -i";
    OsdCrushSet = "osd" "rw" "osd crush set id:osd weight:float[0.0] args:str*/e/" "Puts an OSD with a weight at a location (TYPE=NAME …) of the CRUSH hierarchy";
    OsdCrushSetMapOld = "osd" "rw" "osd crush set prior_version:int?" "Same as `osd setcrushmap`";
    OsdCrushAdd = "osd" "rw" "osd crush add id:osd weight:float[0.0] args:str*/e/" "Same as `osd crush set`";
    OsdCrushCreateOrMove = "osd" "rw" "osd crush create-or-move id:osd weight:float[0.0] args:str*/e/" "Puts an OSD at a location with the weight that it has, or else the one given";
    OsdCrushMove = "osd" "rw" "osd crush move name:str/n/ args:str*/e/" "Moves a bucket or OSD with all below it to a location";
    OsdCrushAddBucket = "osd" "rw" "osd crush add-bucket name:str/n/ type:str args:str*?/e/" "Adds an empty bucket, at a location or as a root";
    OsdCrushRenameBucket = "osd" "rw" "osd crush rename-bucket srcname:str/n/ dstname:str/n/" "Renames a bucket";
    OsdCrushRm = "osd" "rw" "osd crush rm name:str/n/ ancestor:str?/n/" "Removes an OSD or an empty bucket from the CRUSH hierarchy";
    OsdCrushRemove = "osd" "rw" "osd crush remove name:str/n/ ancestor:str?/n/" "Old spelling of `osd crush rm`", hidden;
    OsdCrushUnlink = "osd" "rw" "osd crush unlink name:str/n/ ancestor:str?/n/" "Takes a bucket out of the one that holds it";
    OsdCrushReweight = "osd" "rw" "osd crush reweight name:str/n/ weight:float[0.0]" "Sets the CRUSH weight of an OSD";
    OsdCrushReweightSubtree = "osd" "rw" "osd crush reweight-subtree name:str/n/ weight:float[0.0]" "Sets the CRUSH weight of all OSDs below a bucket";
    OsdCrushReweightAll = "osd" "rw" "osd crush reweight-all" "Sums up the weights of all buckets again";
    OsdCrushSetDeviceClass = "osd" "rw" "osd crush set-device-class class:str ids:str*" "Gives OSDs without a device class one";
    OsdCrushRmDeviceClass = "osd" "rw" "osd crush rm-device-class ids:str*" "Takes the device class of OSDs away";
    OsdCrushClassRename = "osd" "rw" "osd crush class rename srcname:str/n/ dstname:str/n/" "Renames a device class";
    OsdCrushRuleSimple = "osd" "rw" "osd crush rule create-simple name:str/n/ root:str/n/ type:str/n/ mode:choice?(firstn|indep)" "Makes a placement rule";
    OsdCrushRuleReplicated = "osd" "rw" "osd crush rule create-replicated name:str/n/ root:str/n/ type:str/n/ class:str?/n/" "Makes a placement rule for copies on different buckets of a type, on devices of a class";
    OsdCrushRuleErasure = "osd" "rw" "osd crush rule create-erasure name:str/n/ profile:str?/e/" "Makes a placement rule for an erasure code profile";
    OsdCrushRuleRm = "osd" "rw" "osd crush rule rm name:str/n/" "Removes a placement rule that no pool uses";
    OsdCrushRuleRename = "osd" "rw" "osd crush rule rename srcname:str/n/ dstname:str/n/" "Renames a placement rule";
    OsdCrushSetTunables = "osd" "rw" "osd crush tunables profile:choice(legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default)" "Sets how hard CRUSH tries, by release";
    OsdCrushSetTunable = "osd" "rw" "osd crush set-tunable tunable:choice(straw_calc_version) value:int" "Sets one of the settings of how hard CRUSH tries";
    OsdCrushStraw2 = "osd" "rw" "osd crush set-all-straw-buckets-to-straw2" "Converts buckets of the old algorithm";
    OsdCrushTunables = "osd" "r" "osd crush show-tunables" "Prints how hard CRUSH tries";
    OsdEcProfileLs = "osd" "r" "osd erasure-code-profile ls" "Lists erasure code profiles";
    OsdEcProfileGet = "osd" "r" "osd erasure-code-profile get name:str/n/" "Prints an erasure code profile";
    OsdEcProfileSet = "osd" "rw" "osd erasure-code-profile set name:str/n/ profile:str*? force:bool?" "Makes an erasure code profile of NAME=VALUE …";
    OsdEcProfileRm = "osd" "rw" "osd erasure-code-profile rm name:str/n/" "Removes an erasure code profile that no pool uses";

    PgStat = "pg" "r" "pg stat" "One line on the PGs";
    PgDump = "pg" "r" "pg dump dumpcontents:choice*?(all|summary|sum|delta|pools|osds|pgs|pgs_brief)" "Prints the state of all PGs";
    PgDumpJson = "pg" "r" "pg dump_json dumpcontents:choice*?(all|summary|sum|pools|osds|pgs)" "Prints the state of all PGs as JSON";
    PgDumpPoolsJson = "pg" "r" "pg dump_pools_json" "Prints the sums of pools as JSON";
    PgDebug = "pg" "r" "pg debug debugop:choice(unfound_objects_exist|degraded_pgs_exist)" "Says whether there are such objects or PGs";
    PgLs = "pg" "r" "pg ls pool:int? states:str*?" "Lists PGs, by pool and state";
    PgLsByPool = "pg" "r" "pg ls-by-pool poolstr:str states:str*?" "Lists the PGs of a pool";
    PgLsByOsd = "pg" "r" "pg ls-by-osd osd:osd pool:int? states:str*?" "Lists the PGs on an OSD";
    PgLsByPrimary = "pg" "r" "pg ls-by-primary osd:osd pool:int? states:str*?" "Lists the PGs of which an OSD is the primary";
    PgDumpStuck = "pg" "r" "pg dump_stuck stuckops:choice*?(inactive|unclean|stale|undersized|degraded) threshold:int?" "Lists PGs that have been in a bad state for long";
    PgSummary = "pg" "r" "pg summary" "Counts PGs by pool and state, and shows the load of each OSD, in little space";
    PgMap = "pg" "r" "pg map pgid:pg" "Shows the OSDs of a PG";

    PgScrub = "pg" "rw" "pg scrub pgid:pg" "Compares the copies of a PG: which objects there are, their sizes and xattrs";
    PgDeepScrub = "pg" "rw" "pg deep-scrub pgid:pg" "Compares the copies of a PG with all their data";
    PgRepair = "pg" "rw" "pg repair pgid:pg" "Compares the copies of a PG with all their data and replaces those that are damaged";
    OsdScrub = "osd" "rw" "osd scrub who:str" "Orders `pg scrub` of all PGs that an OSD is the primary of, or all OSDs";
    OsdDeepScrub = "osd" "rw" "osd deep-scrub who:str" "Orders `pg deep-scrub` of all PGs that an OSD is the primary of, or all OSDs";
    OsdRepair = "osd" "rw" "osd repair who:str" "Orders `pg repair` of all PGs that an OSD is the primary of, or all OSDs";

    FsLs = "fs" "r" "fs ls" "Lists file systems";
    FsNew = "fs" "rw" "fs new fs_name:str/n/ metadata:str data:str force:bool? allow_dangerous_metadata_overlay:bool? fscid:int?[0] recover:bool?" "Makes a file system of two pools";
    FsRm = "fs" "rw" "fs rm fs_name:str yes_i_really_mean_it:bool?" "Forgets a file system; its pools stay";
    FsFail = "fs" "rw" "fs fail fs_name:str" "Takes a file system and its metadata servers down";
    FsReset = "fs" "rw" "fs reset fs_name:str yes_i_really_mean_it:bool?" "Makes a file system's map as if it had one rank, after a disaster";
    FsSetDefault = "fs" "rw" "fs set-default fs_name:str" "Says which file system clients mount that name none";
    FsSetDefaultOld = "fs" "rw" "fs set_default fs_name:str" "Old spelling of `fs set-default`", hidden;
    FsFlagSet = "fs" "rw" "fs flag set flag_name:choice(enable_multiple) val:str yes_i_really_mean_it:bool?" "Allows more than one file system";
    FsAddDataPool = "mds" "rw" "fs add_data_pool fs_name:str pool:str" "Adds a pool for files' data";
    FsRmDataPool = "mds" "rw" "fs rm_data_pool fs_name:str pool:str" "Takes a pool for files' data away";
    FsRequiredClientFeatures = "mds" "rw" "fs required_client_features fs_name:str subop:choice(add|rm) val:str" "Says what clients must be able to do";
    FsCompatShow = "mds" "r" "fs compat show fs_name:str" "Prints the features of a file system's stored metadata";
    FsFeatureLs = "mds" "r" "fs feature ls" "Lists the features of clients";
    FsGet = "mds" "r" "fs get fs_name:str" "Prints a file system's map";
    FsDump = "mds" "r" "fs dump epoch:int?[0]" "Prints all file systems' maps";
    FsSet = "mds" "rw" "fs set fs_name:str var:choice(max_mds|max_file_size|allow_new_snaps|inline_data|cluster_down|allow_dirfrags|balance_automate|balancer|standby_count_wanted|session_timeout|session_autoclose|allow_standby_replay|down|joinable|min_compat_client) val:str yes_i_really_mean_it:bool? yes_i_really_really_mean_it:bool?" "Changes a file system's setting";
    FsStatus = "mds" "r" "fs status fs:str?" "Shows ranks and pools of file systems";
    FsAuthorize = "auth" "rwx" "fs authorize filesystem:str entity:str caps:str* key_type:choice?(aes|aes256k)" "Makes a key for a file system";
    MdsStat = "mds" "r" "mds stat" "One line on the metadata servers";
    MdsMetadata = "mds" "r" "mds metadata who:str?" "Shows what metadata servers say of themselves and their host";
    MdsVersions = "mds" "r" "mds versions" "Counts metadata servers by version";
    MdsCountMetadata = "mds" "r" "mds count-metadata property:str" "Counts metadata servers by a value of their metadata";
    MdsRepaired = "mds" "rw" "mds repaired role:str" "Says that a damaged rank was mended";
    MdsFail = "mds" "rw" "mds fail role_or_gid:str" "Replaces a metadata server by a standby";
    MdsOkToStop = "mds" "r" "mds ok-to-stop ids:str*" "Says whether these metadata servers can stop without an outage";
    MdsCompatShow = "mds" "r" "mds compat show" "Prints the features of the stored metadata";

    AuthLs = "auth" "rx" "auth ls" "Lists keys and what they allow";
    AuthList = "auth" "rx" "auth list" "Old spelling of `auth ls`", hidden;
    AuthGet = "auth" "rx" "auth get entity:str" "Prints a key as a keyring";
    AuthGetKey = "auth" "rx" "auth get-key entity:str" "Prints a key alone";
    AuthPrintKey = "auth" "rx" "auth print-key entity:str" "Prints a key alone";
    AuthPrintKeyOld = "auth" "rx" "auth print_key entity:str" "Old spelling of `auth print-key`", hidden;
    AuthExport = "auth" "rx" "auth export entity:str?" "Prints one or all keys as a keyring";
    AuthImport = "auth" "rwx" "auth import" "Takes over the keys of a keyring given with -i";
    AuthAdd = "auth" "rwx" "auth add entity:str caps:str*? key_type:choice?(aes|aes256k)" "Adds a key; a new one, or that of a keyring given with -i";
    AuthGetOrCreate = "auth" "rwx" "auth get-or-create entity:str caps:str*? key_type:choice?(aes|aes256k)" "Prints a key as a keyring, making it where there is none";
    AuthGetOrCreateKey = "auth" "rwx" "auth get-or-create-key entity:str caps:str*? key_type:choice?(aes|aes256k)" "Prints a key alone, making it where there is none";
    AuthCaps = "auth" "rwx" "auth caps entity:str caps:str*" "Replaces what a key allows";
    AuthRm = "auth" "rwx" "auth rm entity:str" "Removes a key";
    AuthDel = "auth" "rwx" "auth del entity:str" "Old spelling of `auth rm`", hidden;

    ConfigSet = "config" "rw" "config set who:str name:str value:str force:bool?" "Sets an option for daemons or clients";
    ConfigRm = "config" "rw" "config rm who:str name:str" "Takes back `config set`";
    ConfigGet = "config" "r" "config get who:str key:str?" "Shows the options that a daemon or client gets from here";
    ConfigDump = "mon" "r" "config dump" "Lists all options that were set";
    ConfigLs = "config" "r" "config ls" "Lists all options";
    ConfigHelp = "config" "r" "config help key:str" "Explains an option";
    ConfigLog = "config" "r" "config log num:int?" "Shows the last changes of options";
    ConfigReset = "config" "rw" "config reset num:int[0]" "Takes back all changes of options after this one";
    ConfigAssimilate = "config" "rw" "config assimilate-conf" "Takes over the options of the configuration file given with -i, and prints those that have to stay in it";
    ConfigMinimal = "config" "r" "config generate-minimal-conf" "Prints the smallest configuration file that clients need";
    ConfigShow = "mgr" "r" "config show who:str key:str?" "Shows the options that a daemon runs with";
    ConfigShowDefaults = "mgr" "r" "config show-with-defaults who:str" "Shows all options that a daemon runs with";
    ConfigKeyGet = "config-key" "r" "config-key get key:str" "Prints a stored value";
    ConfigKeySet = "config-key" "rw" "config-key set key:str val:str?" "Stores a value, or the file given with -i";
    ConfigKeyPut = "config-key" "rw" "config-key put key:str val:str?" "Old spelling of `config-key set`", hidden;
    ConfigKeyRm = "config-key" "rw" "config-key rm key:str" "Removes a stored value";
    ConfigKeyDel = "config-key" "rw" "config-key del key:str" "Old spelling of `config-key rm`", hidden;
    ConfigKeyExists = "config-key" "r" "config-key exists key:str" "Says whether a value is stored";
    ConfigKeyLs = "config-key" "r" "config-key ls" "Lists the keys of stored values";
    ConfigKeyList = "config-key" "r" "config-key list" "Old spelling of `config-key ls`", hidden;
    ConfigKeyDump = "config-key" "r" "config-key dump key:str?" "Prints stored values, of keys that begin so";

    BalancerStatus = "mgr" "r" "balancer status" "Says what the balancer does";
    BalancerMode = "mgr" "rw" "balancer mode mode:choice(none|crush-compat|upmap)" "Says how to balance";
    BalancerOn = "mgr" "rw" "balancer on" "Spreads placement groups evenly from now on";
    BalancerOff = "mgr" "rw" "balancer off" "Leaves placement groups where they are";
    BalancerEval = "mgr" "r" "balancer eval option:str?" "Says how uneven the cluster is, or a pool";
    BalancerEvalVerbose = "mgr" "r" "balancer eval-verbose option:str?" "Says how uneven the cluster is, or a pool, and by what";
    BalancerLs = "mgr" "r" "balancer ls" "Lists plans: none are kept";

    DashboardUserCreate = "mgr" "rw" "dashboard ac-user-create username:str rolename:str? force_password:bool?" "Adds a user of the dashboard; -i gives the file with the password";
    DashboardUserDelete = "mgr" "rw" "dashboard ac-user-delete username:str" "Removes a user of the dashboard";
    DashboardUserShow = "mgr" "r" "dashboard ac-user-show username:str?" "Shows a user of the dashboard, or lists all";
    DashboardUserSetPassword = "mgr" "rw" "dashboard ac-user-set-password username:str force_password:bool?" "Changes a password; -i gives the file with it";
    DashboardUserSetRoles = "mgr" "rw" "dashboard ac-user-set-roles username:str roles:str*" "Sets a user's roles: administrator or read-only";
    DashboardUserEnable = "mgr" "rw" "dashboard ac-user-enable username:str" "Lets a user log in again";
    DashboardUserDisable = "mgr" "rw" "dashboard ac-user-disable username:str" "Keeps a user from logging in";
    DashboardSetCertificate = "mgr" "rw" "dashboard set-ssl-certificate" "Stores the dashboard's certificate, a PEM file given with -i";
    DashboardSetCertificateKey = "mgr" "rw" "dashboard set-ssl-certificate-key" "Stores the certificate's private key, a PEM file given with -i";

    CrashLs = "mgr" "r" "crash ls" "Lists crash reports";
    CrashLsNew = "mgr" "r" "crash ls-new" "Lists crash reports that nobody has archived";
    CrashInfo = "mgr" "r" "crash info id:str" "Prints a crash report";
    CrashStat = "mgr" "r" "crash stat" "Counts crash reports by age";
    CrashPost = "mgr" "rw" "crash post" "Files a crash report given with -i";
    CrashArchive = "mgr" "w" "crash archive id:str" "Marks a crash report as seen: it no longer is a health warning";
    CrashArchiveAll = "mgr" "w" "crash archive-all" "Marks all crash reports as seen";
    CrashRm = "mgr" "rw" "crash rm id:str" "Removes a crash report";
    CrashPrune = "mgr" "rw" "crash prune keep:str" "Removes crash reports older than so many days";
    DeviceLs = "mgr" "r" "device ls" "Lists the devices that daemons store on";
    DeviceLsByDaemon = "mgr" "r" "device ls-by-daemon who:str" "Lists the devices of a daemon";
    DeviceLsByHost = "mgr" "r" "device ls-by-host host:str" "Lists the devices of a host";
    DeviceInfo = "mgr" "r" "device info devid:str" "Prints a device and who uses it";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_the_line_that_a_user_types() {
        assert_eq!(Cmd::OsdFind.usage(), "osd find <id>");
        assert_eq!(Cmd::PgLsByPool.usage(), "pg ls-by-pool <poolstr> [<states>]");
    }

    #[test]
    fn permissions_are_sets_of_rwx_and_readers_do_not_write() {
        for cmd in Cmd::ALL {
            let perm = cmd.decl().perm;
            assert!(["r", "w", "rw", "rx", "rwx"].contains(&perm), "{cmd:?}");
        }
        assert_eq!(Cmd::Status.decl().perm, "r");
        assert_eq!(Cmd::AuthGet.decl().perm, "rx", "a key is a secret: reading it needs x");
    }
}

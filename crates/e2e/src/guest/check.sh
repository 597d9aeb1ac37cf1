#!/bin/sh
# What the guest does at each start: the first time it writes with verification, later it verifies what is there.
# Everything that others are to know it says on the serial line. /srv/seconds says how long it writes.
say() { echo "guest: $*" >/dev/ttyS0; }
run() { fio "$@" --bs=4k --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1 >fio.log 2>&1; }
failed() { cat fio.log >/dev/ttyS0; say failed; }
cd /srv || exit
if [ -e filled ]; then
    if run --name=v --filename=base --rw=read && run --name=v --filename=changing --rw=read; then
        say "verified, noted $(tail -n 1 notes)"
    else
        failed
    fi
else
    for file in base changing; do
        run --name=w --filename=$file --size=48M --rw=randwrite --do_verify=1 --end_fsync=1 || failed
    done
    : >notes
    touch filled
    sync
    say filled
    # What is noted is on the disk: it is in each snapshot that is taken afterwards.
    (n=0; while [ ! -e /run/enough ]; do n=$((n + 1)); echo $n >>notes; sync notes; say "noted $n"; sleep 0.2; done) &
    if run --name=w --filename=changing --size=48M --rw=randwrite --verify_backlog=512 --loops=1000 --time_based \
        --runtime="$(cat seconds)"; then
        say "wrote and verified: $(grep -oE 'io=[^ ]*' fio.log | head -n 1)"
    else
        failed
    fi
    touch /run/enough
    wait
fi
systemctl poweroff

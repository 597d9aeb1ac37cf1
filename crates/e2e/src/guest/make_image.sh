#!/bin/sh
# make_image.sh ROOT IMAGE CHECK SECONDS: makes a disk with Debian 12 that boots by itself and runs the program CHECK.
# ROOT is a directory for the installed system; what is there already is used again. Needs root, debootstrap, parted.
set -eu
root=$1 image=$2 check=$3 mount=$2.mnt loop=
packages=linux-image-cloud-amd64,fio,extlinux,initramfs-tools,systemd-sysv,udev,kmod,e2fsprogs
if [ ! -e "$root/.installed" ]; then
    debootstrap --variant=minbase "--include=$packages" bookworm "$root" http://deb.debian.org/debian >"$root.log" 2>&1 ||
        { tail "$root.log" >&2; exit 1; }
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc
    touch "$root/.installed"
fi
install -m 755 "$check" "$root/usr/local/sbin/guest-check"
echo "$4" >"$root/srv/seconds"
echo '/dev/vda1 / ext4 errors=remount-ro 0 1' >"$root/etc/fstab"
echo guest >"$root/etc/hostname"
cat >"$root/etc/systemd/system/guest-check.service" <<UNIT
[Unit]
Description=Writes with verification, or verifies what was written
[Service]
ExecStart=/usr/local/sbin/guest-check
[Install]
WantedBy=multi-user.target
UNIT
systemctl --root "$root" --quiet enable guest-check.service
systemctl --root "$root" --quiet set-default multi-user.target
mkdir -p "$root/boot/extlinux"
cat >"$root/boot/extlinux/extlinux.conf" <<BOOT
default linux
label linux
    linux /boot/$(cd "$root/boot" && echo vmlinuz-*)
    initrd /boot/$(cd "$root/boot" && echo initrd.img-*)
    append root=/dev/vda1 ro console=ttyS0 net.ifnames=0
BOOT

ended() {
    umount -R "$mount" 2>/dev/null || true
    [ -z "$loop" ] || losetup -d "$loop"
    rmdir "$mount" 2>/dev/null || true
}
trap ended EXIT
rm -f "$image"
truncate -s 1G "$image"
parted -s "$image" mklabel msdos mkpart primary ext4 1MiB 100% set 1 boot on
dd if="$root/usr/lib/EXTLINUX/mbr.bin" of="$image" bs=440 count=1 conv=notrunc status=none
loop=$(losetup --show -f --offset 1048576 "$image")
# The boot loader knows file systems as they were some years ago.
mkfs.ext4 -q -O ^64bit,^metadata_csum,^orphan_file "$loop" 2>/dev/null || mkfs.ext4 -q -O ^64bit,^metadata_csum "$loop"
mkdir -p "$mount"
mount "$loop" "$mount"
cp -a "$root/." "$mount"
for dir in dev proc sys; do mount --bind "/$dir" "$mount/$dir"; done
chroot "$mount" extlinux --install /boot/extlinux >"$root.log" 2>&1 || { cat "$root.log" >&2; exit 1; }
umount -R "$mount"
e2fsck -fn "$loop" >/dev/null 2>&1

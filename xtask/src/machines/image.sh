#!/bin/sh
# Makes a machine's root file system and its initramfs, in namespaces of its own so that nothing of it is left mounted.
#
# image.sh WORK USERLAND VERSION MIB UUID COMMAND LAYER...
#   USERLAND  the tar of a userland
#   COMMAND   what makes the initramfs of the kernel VERSION, in a shell
#   LAYER     a folder of files to put over the userland
# leaves WORK/root.raw, an ext4 of MIB with that UUID, and WORK/initrd.
set -eu
work=$1 userland=$2 version=$3 mib=$4 uuid=$5 command=$6
shift 6
root=$work/root
mkdir "$root"
mount -t tmpfs -o mode=0755 tmpfs "$root"
tar -xf "$userland" --numeric-owner -C "$root"
# Owned by root there, whoever made them; a folder that is a link in the userland stays one.
for layer; do
	tar -cf - --owner=0 --group=0 --numeric-owner -C "$layer" . | tar -xf - --keep-directory-symlink --no-overwrite-dir -C "$root"
done

# The initramfs is made as in any installation, but for this machine's own /sys and /dev: they are none of its business.
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
for node in null zero full random urandom; do
	[ -e "$root/dev/$node" ] || : >"$root/dev/$node"
	mount --bind "/dev/$node" "$root/dev/$node"
done
chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb /bin/sh -eux -c "$command" \
	>"$work/build.log" 2>&1 </dev/null || {
	tail -n 40 "$work/build.log" >&2
	exit 1
}
for node in null zero full random urandom; do umount "$root/dev/$node"; done
umount "$root/run" "$root/sys" "$root/proc"

cp "$root/boot/initrd.img-$version" "$work/initrd"
mke2fs -q -t ext4 -U "$uuid" -L root -d "$root" "$work/root.raw" "${mib}M"

#!/bin/busybox sh
# shellcheck shell=sh
# PID 1 of every VM: lays the usual mounts, loads what the case needs, runs its script, says how it ended.
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /sbin /usr/bin /usr/sbin /var /mnt
/bin/busybox --install -s /bin
/bin/busybox ln -sf /bin/modprobe /sbin/modprobe
export PATH=/case/bin:/bin:/sbin:/usr/bin:/usr/sbin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm
ip link set lo up
while read -r module; do
	modprobe "$module" || echo "<3>quell-case: cannot load $module" >/dev/kmsg
done </case/modules
sh -eu -c '. /case/prelude; . /case/script' </dev/null
rc=$?
if [ "$rc" -eq 0 ] && [ -e /tmp/.init ]; then
	echo "<6>quell-case: script rc=0, then its ending" >/dev/kmsg
	exec sh -eu /tmp/.init
fi
echo "<6>quell-case: script rc=$rc" >/dev/kmsg
while :; do sleep 1000; done

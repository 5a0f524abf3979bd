# shellcheck shell=sh
# What a whole machine's script may call beside the VM bench's prelude, or instead of what is there.

# finish reboot|poweroff|... [OPTION...]: the end of a script that has the machine go down as a person would.
finish() {
	say "quell-case: script rc=0, then $*"
	systemctl "$@"
	sleep 1000
}
# any_exitrd: dracut's comes where its initramfs asked for one, but for forky's, which 3cpio refuses to unpack; else quell's own is
# to come.
any_exitrd() {
	if [ -e /run/initramfs/.need_shutdown ]; then
		[ -e /usr/bin/3cpio ] || return 0
		expect_rc 0 systemctl mask dracut-shutdown.service
	fi
	expect_rc 0 systemctl enable quell-exitrd.service
}
# array_on DIR: the array that what is mounted there lies on, whatever lies between.
array_on() { lsblk --inverse --list --noheadings --output NAME,TYPE "$(findmnt -n -o SOURCE "$1")" | sed -n 's/ *raid1 *$//p'; }
# leave_files: something written to every file system, and not synced.
leave_files() { for _d in / /srv /mnt/a /mnt/b /mnt/c /mnt/d; do echo "$_d" >"$_d/left-behind"; done; }
# found_files: what leave_files has left is there, and no journal was replayed.
found_files() {
	for _d in / /srv /mnt/a /mnt/b /mnt/c /mnt/d; do is "$_d" "$(cat "$_d/left-behind")"; done
	if { dmesg && journalctl -b -o cat && cat /run/initramfs/fsck.log; } 2>/dev/null | grep -E 'recovering journal|recovery complete|orphan'; then
		die "a journal was replayed"
	fi
}
# is_whole ARRAY: all of it is there, and nothing needs a resync or is having one.
is_whole() { [ "$(md degraded "$1") $(md resync_start "$1")" = "0 none" ] && sync_is idle "$1"; }
both_whole() { for _d in / /srv; do is_whole "$(array_on "$_d")" || return 1; done; }
found_well() {
	found_files
	both_whole || die "a volume is not whole"
}
# members ARRAY: the serial numbers of its disks.
members() { for _m in "/sys/block/$1"/slaves/*; do serial_of "${_m##*/}" && echo; done | sort | tr '\n' ' '; }
# names ARRAY: what leads to it in /dev.
names() {
	for _l in /dev/md/* /dev/disk/by-*/*; do
		[ "$(readlink -f "$_l")" != "/dev/$1" ] || echo "$_l"
	done | sort | tr '\n' ' '
}
# tell_arrays: a line for each, which is the same wherever the same runs, whatever number the kernel has given it.
tell_arrays() {
	for _a in /sys/block/md*; do
		_a=${_a##*/}
		_metadata=$(md metadata_version "$_a" | sed 's/[-/]md[0-9]*//')
		echo "$_metadata $(md level "$_a") of $(md raid_disks "$_a"): $(members "$_a")as $(names "$_a")"
	done | sort >/tmp/arrays
	while read -r _line; do say "array: $_line"; done </tmp/arrays
}
# tell_numbers: what the kernel calls each volume, which is the same wherever nobody died midway.
tell_numbers() { for _d in / /srv; do say "number: $(array_on "$_d") has $_d"; done; }
is_one_mdmon() { [ "$(mdmons | wc -l)" = 1 ]; }
# one_mdmon: one that systemd's last round of kills leaves alone, once the one of the initramfs has had its time to go.
one_mdmon() {
	until_true 20 is_one_mdmon
	case $(tr '\000' ' ' <"/proc/$(mdmons)/cmdline") in @*) ;; *) die "systemd would end mdmon" ;; esac
}
started_by_quell() { dmesg | grep -q "quell: $1 ($2) raid1 2/2 started"; }
# by_quell: both volumes are quell's work, done in the initramfs, with the names and links that mdadm and its rules give them.
# An image without mdadm.conf does not know that they are this machine's own, and then mdadm puts _0 behind the name.
by_quell() {
	[ -e /run/quell/assembly ] || die "quell did not run in the initramfs"
	for _v in root:/ second:/srv; do
		_array=$(array_on "${_v#*:}")
		started_by_quell "$_array" "${_v%:*}" || die "$_array was not started by quell as ${_v%:*}"
		_name=$(mdadm --detail --export "/dev/$_array" | sed -n 's/^MD_DEVNAME=//p')
		is "${_v%:*}" "${_name%_0}"
		is "/dev/$_array" "$(readlink -f "/dev/md/$_name")"
		_uuid=$(mdadm --detail --export "/dev/$_array" | sed -n 's/^MD_UUID=//p')
		is "/dev/$_array" "$(readlink -f "/dev/disk/by-id/md-uuid-$_uuid")"
	done
}
_all_clean() { for _d in / /srv; do case $(md array_state "$(array_on "$_d")") in clean | readonly | read-auto) ;; *) return 1 ;; esac; done; }
# cut_power: the end of a script whose machine loses its power, with the file systems and their volumes clean.
cut_power() {
	say "quell-case: script rc=0, then the power goes"
	# The kernel would warn of one who goes on writing.
	systemctl kill --signal=STOP systemd-journald.service
	echo u >/proc/sysrq-trigger
	until_true 60 _all_clean
	echo b >/proc/sysrq-trigger
	sleep 1000
}

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
# found_well: what leave_files has left is there, no journal was replayed, and no volume needs a resync.
found_well() {
	for _d in / /srv /mnt/a /mnt/b /mnt/c /mnt/d; do is "$_d" "$(cat "$_d/left-behind")"; done
	if { dmesg && journalctl -b -o cat && cat /run/initramfs/fsck.log; } 2>/dev/null | grep -E 'recovering journal|recovery complete|orphan'; then
		die "a journal was replayed"
	fi
	for _d in / /srv; do
		is none "$(md resync_start "$(array_on "$_d")")"
		is 0 "$(md degraded "$(array_on "$_d")")"
		sync_is idle "$(array_on "$_d")" || die "$_d is resynchronised"
	done
}
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

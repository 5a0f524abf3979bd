# shellcheck shell=sh
# What a whole machine's script may call beside the VM bench's prelude, or instead of what is there.

# finish reboot|poweroff|... [OPTION...]: the end of a script that has the machine go down as a person would.
finish() {
	say "quell-case: script rc=0, then $*"
	systemctl "$@"
	sleep 1000
}
# array_on DIR: the array that what is mounted there lies on.
array_on() { basename "$(readlink -f "$(findmnt -n -o SOURCE "$1")")"; }
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
# one_mdmon: or it is a failure, once the one of the initramfs has had its time to go.
one_mdmon() { until_true 20 is_one_mdmon; }

# shellcheck shell=sh
# What the boots of the differential test call, besides the prelude. Disks are named by their serial numbers.

# ready COUNT: waits for so many disks, and notes their names; the out disk is not one of them.
ready() {
	modprobe virtio_pci
	modprobe virtio_blk
	until_true 120 are_there "$1"
	wait_block /dev/vda
	for _b in /sys/block/nvme*n* /sys/block/sd*; do
		[ ! -e "$_b" ] || echo "${_b##*/} $(serial_of "${_b##*/}")"
	done >/tmp/disks
	mkdir -p /dev/md
}
are_there() {
	_count=0
	for _b in /sys/block/nvme*n* /sys/block/sd*; do
		[ ! -e "$_b" ] || _count=$((_count + 1))
	done
	[ "$_count" -ge "$1" ]
}
# devs SERIAL...: their nodes.
devs() {
	for _s in "$@"; do
		while read -r _name _serial; do
			[ "$_serial" != "$_s" ] || printf '/dev/%s ' "$_name"
		done </tmp/disks
	done
}
# kname NAME: md126, of a volume or container made here.
kname() { basename "$(readlink -f "/dev/md/$1")"; }
# quietly COMMAND...: says nothing unless it fails.
quietly() {
	"$@" >/tmp/.run 2>&1 </dev/null && return 0
	RC=$?
	while read -r _line; do say "out: $_line"; done </tmp/.run
	die "exit $RC: $*"
}
# still: from here on a resync or rebuild stands still after its first window.
still() {
	modprobe md-mod
	echo 1 >/proc/sys/dev/raid/speed_limit_max
	echo 1 >/proc/sys/dev/raid/speed_limit_min
}

# --- Making ---
# make_container NAME SERIAL...
make_container() {
	_c=$1
	shift
	# shellcheck disable=SC2046
	quietly mdadm --create "/dev/md/$_c" --run --metadata=imsm --raid-devices=$# $(devs "$@")
}
# make_volume NAME "OPTIONS" SERIAL...
make_volume() {
	_v=$1 _options=$2
	shift 2
	# shellcheck disable=SC2046,SC2086
	quietly mdadm --create "/dev/md/$_v" --run $_options --raid-devices=$# $(devs "$@")
}
# fill NAME: known data from its first byte to its last.
fill() { dd if=/tmp/pattern of="/dev/md/$1" bs=1M conv=fsync 2>/dev/null || [ $? -eq 1 ]; }
# idle NAME: no resync goes on; a stripe has none.
idle() {
	_a=/sys/block/$(kname "$1")/md/sync_action
	[ ! -e "$_a" ] || [ "$(cat "$_a")" = idle ]
}
# midway NAME: lets a resync or rebuild that stands still go on for a quarter. (md takes no lower sync_max once it runs.)
midway() {
	_md=/sys/block/$(kname "$1")/md
	until_true 60 has_begun "$_md"
	set_speed 3000
	until_true 120 has_come_far "$_md"
	set_speed 1
}
set_speed() {
	echo "$1" >"$_md/sync_speed_max"
	echo "$1" >"$_md/sync_speed_min"
}
has_begun() { grep -q / "$1/sync_completed"; }
has_come_far() {
	read -r _done _ _all <"$1/sync_completed"
	[ "$((_done * 4))" -ge "$_all" ]
}
# without NAME SERIAL: mdmon has recorded that the volume has lost the disk, and the volume has let go of it. mdmon 4.6 may
# sleep through the loss: this signal is how its own threads wake each other.
without() {
	[ -e "/sys/block/$(kname "$1")/md/dev-$(basename "$(devs "$2")")" ] || return 0
	killall -USR1 mdmon
	return 1
}
# lose NAME SERIAL
lose() {
	# shellcheck disable=SC2046
	quietly mdadm "/dev/md/$1" --fail $(devs "$2")
	until_true 30 without "$1" "$2"
}
# blank CONTAINER SERIAL: takes it out, and its metadata off it. The volume lets go of it a little late.
blank() {
	# shellcheck disable=SC2046
	until_true 30 mdadm --quiet "/dev/md/$1" --remove $(devs "$2") 2>/dev/null
	# shellcheck disable=SC2046
	dd if=/dev/zero of=$(devs "$2") bs=1M 2>/dev/null || :
}
# stop NAME...: volumes, then their container. mdadm may be killed by SIGPIPE where mdmon has gone before it asks.
stop() {
	for _n in "$@"; do
		_md=$(kname "$_n")
		until_true 30 is_stopped "$_md"
	done
}
is_stopped() {
	[ -e "/sys/block/$1" ] || return 0
	mdadm --quiet --stop "/dev/$1" 2>/dev/null || :
	[ ! -e "/sys/block/$1" ]
}
# stay_dirty NAME: from here on md does not call it clean between writes.
stay_dirty() { echo 200 >"/sys/block/$(kname "$1")/md/safe_mode_delay"; }
# write_on NAME: writes to its second half until the power goes.
write_on() {
	_half=$(($(cat "/sys/block/$(kname "$1")/size") / 2048 / 2))
	_node=/dev/md/$1
	while :; do dd if=/dev/urandom of="$_node" bs=64k seek=$((_half * 16)) count=64 conv=notrunc,fsync 2>/dev/null; done &
}
is_active() { [ "$(cat "/sys/block/$(kname "$1")/md/array_state")" = active ]; }

# --- Looking ---
settled() {
	for _s in /sys/block/md*/md/array_state; do
		[ -e "$_s" ] || continue
		case $(cat "$_s") in readonly | write-pending) return 1 ;; esac
	done
}
# content md126: copies it to the out disk, behind the text, and says where.
content() {
	_mib=$(($(cat "/sys/block/$1/size") / 2048))
	dd if="/dev/$1" of=/dev/vda bs=1M seek="$_at"
	echo "$1 $_at $_mib"
	_at=$((_at + _mib))
}
# dump: all that is to be compared, to the out disk.
dump() {
	{
		echo "== disks"
		cat /tmp/disks
		echo "== map"
		cat /run/mdadm/map || :
		echo "== links"
		for _l in /dev/md/*; do
			[ ! -e "$_l" ] || echo "$(basename "$(readlink -f "$_l")") $_l"
		done
		echo "== sys"
		# One process for all files. Some can only be written to.
		grep -r "" /sys/block/md*/md/ || :
		grep "" /sys/block/md*/size /sys/block/md*/ro || :
		for _m in /sys/block/md*; do
			[ -e "$_m" ] || continue
			echo "== export ${_m##*/}"
			mdadm --detail --export "/dev/${_m##*/}" || :
		done
		echo "== content"
		_at=16
		for _m in /sys/block/md*; do
			[ ! -e "$_m" ] || [ "$(cat "$_m/size")" = 0 ] || content "${_m##*/}"
		done
		echo "== end"
	} >/tmp/out 2>/dev/null
	out
}
out() { dd if=/tmp/out of=/dev/vda bs=64k conv=fsync 2>/dev/null; }

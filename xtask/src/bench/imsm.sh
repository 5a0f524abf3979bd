# shellcheck shell=sh
# busybox has $EPOCHREALTIME and read -t, of fractions of a second too.
# shellcheck disable=SC3028,SC3045
# What the figures of Intel RAID call in their VM, besides the prelude. What is timed forks nothing but what is measured.

# Nothing ever comes out of it: who reads it naps.
mkfifo /tmp/nothing
exec 7<>/tmp/nothing
nap() { read -r -t 0.002 _ <&7 || :; }

# ready DRIVES
ready() {
	wait_nvme "$1"
	until_true 60 are_there "$1"
}
are_there() {
	set -- "$1" /sys/block/nvme*n[0-9]*
	[ $# -gt "$1" ]
}
# members COUNT: the first drives.
members() { for _i in $(seq 0 $(($1 - 1))); do dev "QUELL000$_i"; done; }

# create COUNT "NAME OPTIONS"...: a container of the first drives, and volumes in it.
create() {
	# shellcheck disable=SC2046
	expect_rc 0 mdadm --create /dev/md/imsm0 --run --metadata=imsm --raid-devices="$1" $(members "$1")
	shift
	for _v in "$@"; do
		# shellcheck disable=SC2086
		expect_rc 0 mdadm --create "/dev/md/${_v%% *}" --run --size=16M ${_v#* }
	done
	until_true 120 all_idle
}
# No resync goes on; a stripe has none.
all_idle() {
	for _a in /sys/block/md*/md/sync_action; do
		[ ! -e "$_a" ] || [ "$(cat "$_a")" = idle ] || return 1
	done
}

# usable VOLUMES: so many can be used. One that is readonly cannot, until mdmon says so.
usable() {
	_usable=0
	for _m in /sys/block/md*/md; do
		{ read -r _version <"$_m/metadata_version" && read -r _state <"$_m/array_state"; } 2>/dev/null || return 1
		case $_version/$_state in
		*/clear | */inactive | */readonly) ;;
		external:/*) _usable=$((_usable + 1)) ;;
		esac
	done
	[ "$_usable" -eq "$1" ]
}
# Neither an array nor an mdmon; the last thing that one does is to take its files away.
nothing_left() {
	for _f in /sys/block/md* /run/mdadm/*.pid; do
		[ ! -e "$_f" ] || return 1
	done
}
stop() {
	expect_rc 0 mdadm --stop --scan
	until_true 30 nothing_left
}

# timed FIGURE WHO UNTIL COMMAND...: marks when it was called, and when it had ended and what it is called for was true. To
# look while it runs would slow it down. The console is silent meanwhile: it is slow, and md says the same whoever calls it.
timed() {
	_figure=$1 _who=$2 _until=$3
	shift 3
	dmesg -n 1
	_naps=0 RC=0
	_from=$EPOCHREALTIME
	"$@" >/tmp/.run 2>&1 </dev/null || RC=$?
	until $_until || [ "$_naps" -ge 10000 ]; do
		nap
		_naps=$((_naps + 1))
	done
	_to=$EPOCHREALTIME
	dmesg -n 7
	while read -r _line; do say "out: $_line"; done </tmp/.run
	[ "$RC" -eq 0 ] || die "exit $RC: $*"
	[ "$_naps" -lt 10000 ] || die "never true after $*: $_until"
	mark "took $_figure $_who $_from $_to"
}
# rounds COUNT ROUND...: calls it with `quell` and with `mdadm`, another one first each time.
rounds() {
	_rounds=$1
	shift
	while [ "$_rounds" -gt 0 ]; do
		_turns="quell mdadm"
		[ $((_rounds % 2)) -eq 0 ] || _turns="mdadm quell"
		for _turn in $_turns; do "$@" "$_turn"; done
		_rounds=$((_rounds - 1))
	done
}

# assembly FIGURE VOLUMES WHO
assembly() {
	timed "$1" "$3" "usable $2" "assemble_$3"
	stop
}
assemble_quell() { quell assemble --assemble=auto; }
assemble_mdadm() { mdadm --assemble --scan; }

# dirty: writes to every redundant volume.
dirty() {
	for _a in /sys/block/md*/md/sync_action; do
		_m=${_a%/sync_action}
		_d=${_m#/sys/block/}
		dd if=/dev/urandom of="/dev/${_d%/md}" bs=64k count=16 conv=fsync 2>/dev/null
		[ "$(cat "$_m/array_state")" = active ] || die "$_m: it was written and is not active"
	done
}
# teardown VOLUMES WHO: of volumes that were written to just now.
teardown() {
	expect_rc 0 mdadm --assemble --scan
	until_true 30 usable "$1"
	dirty
	timed teardown "$2" nothing_left "teardown_$2"
	for _d in $(members 4); do
		! mdadm --examine "$_d" | grep -q 'Dirty State : dirty' || die "$2 left it dirty"
	done
}
teardown_quell() { quell teardown --all; }
teardown_mdadm() {
	mdadm --wait-clean --scan || return
	mdadm --stop --scan
}

# removal DISK WHO: of one that no volume uses, put back afterwards.
removal() {
	timed removal "$2" "has_not $1" "remove_$2" "/dev/$1"
	expect_rc 0 mdadm /dev/md/imsm0 --add "/dev/$1"
}
has_not() {
	for _f in /sys/block/md*/md/dev-"$1"; do [ ! -e "$_f" ] || return 1; done
}
remove_quell() { quell remove /dev/md/imsm0 "$1"; }
remove_mdadm() { mdadm /dev/md/imsm0 --remove "$1"; }

# shellcheck shell=sh
# What every case's script may call. All of it logs to the kernel log, so that lines carry the kernel's own times.

say() { echo "<6>$*" >/dev/kmsg; }
mark() { say "quell-mark: $*"; }
die() {
	say "quell-case: FAIL $*"
	exit 1
}

# until SECONDS COMMAND...: tries again and again, dies when the time is up.
until_true() {
	_left=$(($1 * 10))
	shift
	until "$@"; do
		_left=$((_left - 1))
		[ "$_left" -gt 0 ] || die "never true: $*"
		sleep 0.1
	done
}

# Runs a command and logs its output line by line, as "out: ...". RC holds its exit code.
run() {
	RC=0
	"$@" >/tmp/.run 2>&1 </dev/null || RC=$?
	while read -r _line; do say "out: $_line"; done </tmp/.run
}
# expect_rc N COMMAND...
expect_rc() {
	_want=$1
	shift
	run "$@"
	[ "$RC" -eq "$_want" ] || die "exit $RC, not $_want: $*"
}

# finish reboot|poweroff: the end of a script that ends the machine itself, by reboot(2) and nothing before it.
finish() {
	say "quell-case: script rc=0, then $1"
	"$1" -f -n
	sleep 1000
}

# pid1_is WORD...: from here on /proc/1/cmdline reads as if these were PID 1's arguments.
pid1_is() {
	printf '%s\000' "$@" >/tmp/.pid1
	mount --bind /tmp/.pid1 /proc/1/cmdline
}

# --- Disks of any kind ---
# serial_of nvme0n1: what the drive says its serial number is, without blanks.
serial_of() {
	if [ -e "/sys/block/$1/device/vpd_pg80" ]; then
		tail -c +5 "/sys/block/$1/device/vpd_pg80" | tr -d ' '
	else
		tr -d ' \n' <"/sys/block/$1/device/serial"
	fi
}
# disk_of SERIAL: its kernel name.
disk_of() {
	for _b in /sys/block/nvme*n[0-9]* /sys/block/sd*; do
		if [ -e "$_b" ] && [ "$(serial_of "${_b##*/}")" = "$1" ]; then
			echo "${_b##*/}"
			return 0
		fi
	done
	return 1
}
# wait_disks SERIAL...
wait_disks() { for _w in "$@"; do until_true 60 disk_of "$_w" >/dev/null; done; }
# dev SERIAL: /dev/sda
dev() { echo "/dev/$(disk_of "$1")"; }

# --- Intel RAID ---
# mdadm takes IMSM metadata below any controller, and starts mdmon itself.
export IMSM_NO_PLATFORM=1 MDADM_NO_SYSTEMCTL=1
# sync_is idle md126: what md does with its members.
sync_is() { [ "$(cat "/sys/block/$2/md/sync_action")" = "$1" ]; }
# nth N: the serial of the N-th drive, from 1, if it was given none of its own. node N: /dev/nvme0n1
nth() { printf 'QUELL%04d' $(($1 - 1)); }
node() { dev "$(nth "$1")"; }
# nodes N...: waits for them all; NODES holds them.
nodes() {
	NODES=
	for _n in "$@"; do
		wait_disks "$(nth "$_n")"
		wait_block "$(node "$_n")"
		NODES="$NODES $(node "$_n")"
	done
}
# imsm N: mdadm makes a container of the first N drives.
imsm() {
	modprobe -a md_mod raid0 raid1 raid10 raid456
	# shellcheck disable=SC2046
	nodes $(seq "$1")
	# shellcheck disable=SC2086
	expect_rc 0 mdadm -C /dev/md/imsm0 -e imsm -n "$1" $NODES --run
}
# volume NAME LEVEL DISKS [OPTION...]: mdadm makes it in that container, with 8 MiB of each disk or $SIZE. It ends in sync.
volume() {
	_name=$1 _level=$2 _disks=$3
	shift 3
	expect_rc 0 mdadm -C "/dev/md/$_name" -l "$_level" -n "$_disks" -z "${SIZE:-8M}" "$@" /dev/md/imsm0 --run
	[ "$_level" = 0 ] || until_true 60 sync_is idle "$(basename "$(readlink -f "/dev/md/$_name")")"
}
is_away() { ! disk_of "$1" >/dev/null; }
# leave N, arrive N: takes the N-th drive, an NVMe one, away and brings it back.
leave() {
	unbind "$(drive "$1")"
	until_true 20 is_away "$(nth "$1")"
}
arrive() {
	rebind "$(drive "$1")"
	nodes "$1"
}
# vol N: the array that is the N-th volume, from 0, of the container md127.
vol() {
	for _a in /sys/block/md*; do
		case $(cat "$_a/md/metadata_version" 2>/dev/null) in
		external:[/-]md127/"$1") echo "${_a##*/}" && return 0 ;;
		esac
	done
	return 1
}
# md FILE ARRAY: what it says of it.
md() { cat "/sys/block/$2/md/$1"; }
# is WANTED GOT: or it is a failure.
is() { [ "$1" = "$2" ] || die "$2, not $1"; }
is_writable() { case $(md array_state "$1") in clean | active | active-idle | read-auto | write-pending) ;; *) return 1 ;; esac; }
no_arrays() { ! ls -d /sys/block/md* >/dev/null 2>&1; }
stopped() { mdadm --stop --scan >/dev/null 2>&1 && no_arrays; }
# stop_arrays: as mdadm does, all of them, clean.
stop_arrays() {
	mdadm --wait-clean --scan >/dev/null 2>&1 || true
	until_true 20 stopped
}
# random N: less than N.
random() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }
# sum FILE...: of their whole content.
sum() { cat "$@" | md5sum | cut -d' ' -f1; }
# stamp NODE TEXT: fills its first MiB with it, and waits until it is there.
stamp() { yes "$2" | dd of="$1" bs=64k count=16 iflag=fullblock conv=fsync 2>/dev/null; }
# says NODE WHAT: a field of mdadm's own reading of the disk.
says() { mdadm -E "$1" | sed -n "s/^ *$2 : //p" | head -n 1; }
# u32 NODE FIELD: a number of the metadata's head by its place there; disks with sectors of 512 bytes only.
_head() { echo $((($(cat "/sys/block/${1##*/}/size") - 2) * 512)); }
u32() { dd if="$1" bs=4 skip=$((($(_head "$1") + $2) / 4)) count=1 2>/dev/null | od -An -tu4 | tr -d ' '; }
_put() {
	# shellcheck disable=SC2059
	printf "$(printf '\\%03o\\%03o\\%03o\\%03o' $(($3 & 255)) $(($3 >> 8 & 255)) $(($3 >> 16 & 255)) $(($3 >> 24)))" |
		dd of="$1" bs=4 seek=$((($(_head "$1") + $2) / 4)) conv=notrunc,fsync 2>/dev/null
}
# patch NODE FIELD VALUE: changes it, and the checksum with it.
patch() {
	_old=$(u32 "$1" "$2")
	_put "$1" 32 $((($(u32 "$1" 32) + $3 - _old) & 0xffffffff))
	_put "$1" "$2" "$3"
}
# mdmons: their process numbers.
mdmons() {
	for _p in /proc/[0-9]*; do
		read -r _name 2>/dev/null <"$_p/comm" || continue
		[ "$_name" != mdmon ] || echo "${_p##*/}"
	done
}

# --- NVMe ---
# drive N: the PCI address of the N-th controller, from 1, in the order in which the machine was described.
drive() { printf '0000:%02x:00.0' "$1"; }
addr_of() { basename "$(readlink -f "/sys/class/nvme/$1/device")"; }
name_of() {
	for _c in "/sys/bus/pci/devices/$1"/nvme/nvme*; do
		[ -e "$_c" ] && basename "$_c" && return 0
	done
	return 1
}
# The addresses of all PCIe controllers, sorted.
addrs() {
	for _c in /sys/class/nvme/nvme*; do
		[ "$(cat "$_c/transport")" = pcie ] && basename "$(readlink -f "$_c/device")"
	done | sort
}
# disks_of nvme3: its block devices, the shared heads where it has them.
disks_of() {
	for _s in /sys/class/nvme-subsystem/*/"$1"; do
		for _d in "${_s%/*}"/nvme*n[0-9]* "$_s"/nvme*n[0-9]*; do
			_b=${_d##*/}
			case $_b in
			*c*n*) ;; # a path of a head, not a disk
			*) [ ! -e "/sys/block/$_b" ] || echo "$_b" ;;
			esac
		done
	done
}
count_live() {
	_n=0
	for _c in /sys/class/nvme/nvme*; do
		[ "$(cat "$_c/state" 2>/dev/null)" = live ] && _n=$((_n + 1))
	done
	echo "$_n"
}
live_is() { [ "$(count_live)" -eq "$1" ]; }
wait_nvme() { until_true 120 live_is "$1"; }
is_block() { [ -b "$1" ]; }
wait_block() { until_true 30 is_block "$1"; }
unbind() { echo "$1" >/sys/bus/pci/drivers/nvme/unbind; }
rebind() { echo "$1" >/sys/bus/pci/drivers/nvme/bind; }

# slow [default_ms=MS] [slow=ADDR=MS,...] [stuck=ADDR,...] [complain=ADDR,...] [reset=ADDR=MS,...]: loads the module, or changes its times.
slow() {
	if [ -d /sys/module/slow_nvme ]; then
		for _p in "$@"; do
			echo "${_p#*=}" >"/sys/module/slow_nvme/parameters/${_p%%=*}"
		done
	else
		insmod /case/slow_nvme.ko "$@"
	fi
}

# --- The end of a machine, as systemd goes about it ---
# [FS=xfs] enter_root DEVICE <SCRIPT: when this script has ended PID 1 leaves the initramfs for a root on DEVICE and runs that there.
enter_root() {
	mkdir -p /new
	mount -t "${FS:-ext4}" "$1" /new
	for _d in bin sbin usr lib lib64 var case; do
		[ ! -e "/$_d" ] || cp -a "/$_d" /new/
	done
	mkdir -p /new/proc /new/sys /new/dev /new/run /new/tmp /new/mnt
	{
		echo '. /case/prelude'
		cat
	} >/new/ending
	cat >/tmp/.init <<'END'
for d in proc sys dev run tmp; do mount --move "/$d" "/new/$d"; done
exec switch_root /new /bin/sh -eu /ending
END
}
# pivot VERB: root read-only, and its exitrd entered as PID 1.
pivot() {
	mount -o remount,ro / 2>/dev/null || say "root stays writable"
	cd /run/initramfs || die "there is no exitrd"
	mkdir -p oldroot proc sys dev run
	for _d in proc sys dev; do mount --rbind "/$_d" "$_d"; done
	mount --bind /run run
	pivot_root . oldroot
	exec /shutdown "$1" --timeout=90000000us --log-target=kmsg </dev/console >/dev/console 2>&1
}
# beside SCRIPT: runs it, of the shell's own commands only, from the exitrd's memory: it outlives all that uses the root.
beside() {
	cp /bin/busybox /run/initramfs/busybox
	(
		cd /run/initramfs || exit
		exec ./busybox sh -c "$1" <&- >&- 2>&-
	) &
}

# --- NVMe over fabrics, target and host in this one machine ---
_nvmet=/sys/kernel/config/nvmet
# nvmet_subsys NAME BACKING: a subsystem with one namespace on a block device or a file.
nvmet_subsys() {
	modprobe nvmet
	[ -d "$_nvmet" ] || mount -t configfs configfs /sys/kernel/config
	mkdir -p "$_nvmet/subsystems/$1/namespaces/1"
	echo 1 >"$_nvmet/subsystems/$1/attr_allow_any_host"
	printf %s "$2" >"$_nvmet/subsystems/$1/namespaces/1/device_path"
	echo 1 >"$_nvmet/subsystems/$1/namespaces/1/enable"
}
# nvmet_loop NAME BACKING
nvmet_loop() {
	modprobe nvme-loop
	nvmet_subsys "$1" "$2"
	if [ ! -d "$_nvmet/ports/1" ]; then
		mkdir "$_nvmet/ports/1"
		echo loop >"$_nvmet/ports/1/addr_trtype"
	fi
	ln -s "$_nvmet/subsystems/$1" "$_nvmet/ports/1/subsystems/$1"
}
# nvmet_tcp NAME BACKING PORT
nvmet_tcp() {
	modprobe nvmet-tcp
	nvmet_subsys "$1" "$2"
	if [ ! -d "$_nvmet/ports/$3" ]; then
		mkdir "$_nvmet/ports/$3"
		echo tcp >"$_nvmet/ports/$3/addr_trtype"
		echo ipv4 >"$_nvmet/ports/$3/addr_adrfam"
		echo 127.0.0.1 >"$_nvmet/ports/$3/addr_traddr"
		echo "$3" >"$_nvmet/ports/$3/addr_trsvcid"
	fi
	ln -s "$_nvmet/subsystems/$1" "$_nvmet/ports/$3/subsystems/$1"
}
# fabric OPTIONS: connects; FABRIC holds the controller's name.
fabric() {
	modprobe nvme-fabrics
	until_true 10 test -c /dev/nvme-fabrics
	exec 9<>/dev/nvme-fabrics
	printf %s "$1" >&9 || die "cannot connect: $1"
	read -r _answer <&9
	exec 9>&-
	_answer=${_answer#*instance=}
	FABRIC=nvme${_answer%%,*}
	say "connected $FABRIC: $1"
}
# connect_loop NAME [,OPTIONS]
connect_loop() { fabric "transport=loop,nqn=$1${2-}"; }
# connect_tcp NAME PORT [,OPTIONS]
connect_tcp() {
	modprobe nvme-tcp
	fabric "transport=tcp,traddr=127.0.0.1,trsvcid=$2,nqn=$1${3-}"
}
# busybox would take its own tc first. silence: from here on every packet on loopback is dropped (wants tools = ["iproute2:sbin/tc"]). speak: as before.
silence() { /case/bin/tc qdisc add dev lo root netem loss 100%; }
speak() { /case/bin/tc qdisc del dev lo root; }

# shellcheck shell=sh
# What the figures of whole machines call, besides the preludes.

# prepared COMMAND...: has it make the exitrd, in a control group of its own, and marks when it began and ended and what it took:
# microseconds of processors, bytes of memory at the peak (what was written to /run is in it, and what was read of files), and the
# KiB that are kept.
prepared() {
	_group=/sys/fs/cgroup/prepared
	mkdir $_group
	(
		echo 0 >$_group/cgroup.procs
		mark prepare
		exec "$@"
	) >/dev/null 2>&1
	mark prepared
	[ -x /run/initramfs/shutdown ] || die "no exitrd: $*"
	_kept=$(du -skx /run/initramfs)
	mark "took $(sed -n 's/^usage_usec //p' $_group/cpu.stat) $(cat $_group/memory.peak) ${_kept%%[!0-9]*}"
	rmdir $_group
}

# down: the end of every machine here, just after something was written to all of its file systems.
down() {
	slow default_ms=3000
	leave_files
	finish reboot
}

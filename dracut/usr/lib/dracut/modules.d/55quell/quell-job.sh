#!/bin/sh
# A job of the initqueue. It is there from the first, 65-quell-imsm.rules queues it for a disk of quell's, and it queues itself
# until all is decided.

# quell waits for missing disks as long as dracut does for root; where dracut waits for nothing, for 30 seconds.
[ ! -e /run/quell/alone ] || unset RDRETRY
/usr/lib/quell/initrd/imsm assemble
status=$?
if [ $status -eq 4 ]; then
    /sbin/initqueue --settled --onetime --unique --name quell "$0"
fi
# What mdadm got starts without its missing disks when it would have with mdraid alone.
if [ $status -eq 5 ] || [ -s /run/quell/for-mdadm ]; then
    [ ! -x /sbin/mdraid_start ] || /sbin/initqueue --timeout --onetime --unique --name 50-mdraid_start /sbin/mdraid_start
fi

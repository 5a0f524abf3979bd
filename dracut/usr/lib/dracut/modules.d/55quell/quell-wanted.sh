#!/bin/sh
# pre-trigger, before mdraid's (30) and before udev looks at disks. Where quell is not to assemble, it is not in mdadm's way.
/usr/lib/quell/initrd/imsm wanted

# Where it is, the initqueue does not end before quell has looked once, when udev has seen the disks: with a root that dracut
# does not know (root=gpt-auto) it would be over before the first of them has come.
# shellcheck disable=SC2154 # hookdir is dracut's
if [ -e /etc/udev/rules.d/62-quell-imsm.rules ]; then
    mkdir -p /run/quell
    : > /run/quell/alone
    for quell_other in "$hookdir"/initqueue/finished/*.sh; do
        [ ! -e "$quell_other" ] || rm -f /run/quell/alone
    done
    /sbin/initqueue --settled --onetime --unique --name quell /usr/lib/quell/initrd/job
    /sbin/initqueue --finished --unique --name quell /usr/lib/quell/initrd/finished
fi

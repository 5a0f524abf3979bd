#!/bin/sh
# pre-trigger, before mdraid's (30) and before udev looks at disks. Where quell is not to assemble, it is not in mdadm's way.
/usr/lib/quell/initrd/imsm wanted

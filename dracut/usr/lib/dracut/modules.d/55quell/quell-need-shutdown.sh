#!/bin/sh
# cleanup: whether dracut's exitrd is wanted for quell's sake.
if /usr/lib/quell/initrd/imsm exitrd; then
    need_shutdown
fi

#!/bin/sh
# cleanup: whether dracut's exitrd is wanted for quell's sake.
if /usr/lib/quell/quell exitrd --wanted --stage=initrd; then
    need_shutdown
fi

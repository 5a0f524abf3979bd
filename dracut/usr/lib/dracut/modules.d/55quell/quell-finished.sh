#!/bin/sh
# Asked by the initqueue whether it may end. It waits for quell as long as quell waits for disks, but not for longer than 30
# seconds (it makes two passes a second) or two thirds of its own patience: what root needs dracut waits for anyhow, and calls
# quell meanwhile. Where it waits for nothing else, root may be among what it does not know of.

# shellcheck disable=SC2154 # hookdir is dracut's
[ -e "$hookdir/initqueue/settled/quell.sh" ] || exit 0
[ "${main_loop:-0}" -le 60 ] || [ -e /run/quell/alone ] || exit 0
[ "${main_loop:-0}" -le $((${RDRETRY:-360} * 2 / 3)) ] || exit 0
[ -e /run/quell/assembly ] || exit 1

# A wait that has no end (quell.degraded=never) is for what else needs the array.
decided=1
until=
while IFS='=' read -r key value; do
    case $key in
    decided) decided=$value ;;
    until_ms) until=$value ;;
    esac
done < /run/quell/assembly
[ "$decided" = 0 ] && [ -z "$until" ]

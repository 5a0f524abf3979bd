#!/bin/sh
set -e
# The unit is not enabled; what an administrator enables is noted, so that a purge takes it away.
if [ "$1" = configure ]; then
    deb-systemd-helper update-state quell-exitrd.service >/dev/null || true
    [ ! -d /run/systemd/system ] || systemctl daemon-reload || true
fi

#!/bin/sh
set -e
# The unit is never stopped here: it would make quell the exitrd. systemd forgets what it was to do at its stop.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge quell-exitrd.service >/dev/null || true
fi

#!/bin/sh
set -e
# The unit runs at the end of a shutdown only: there is nothing to stop, but systemd has to forget it.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge quell-exitrd.service >/dev/null || true
fi

#!/bin/sh
# Starts the guardian of the installation that this script lies in, isolated: nothing of the caller's environment, folder
# or Python reaches it. Installed as bin/edgetune-guardian.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
script=$(readlink -f -- "$0") || exit 4
cd / || exit 4
exec env -i PATH="$PATH" LANG=C.UTF-8 ${SUDO_UID:+"SUDO_UID=$SUDO_UID"} \
    "${script%/*}/python3" -I -m edgetune.devices.guardian "$@"

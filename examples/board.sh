#!/usr/bin/env bash
# A fake board: its kernel's files lie in a folder, and no hardware is behind them. What it can do; a mode for one
# command; and a command that kills edgetune in that mode, after which the board is found as it was.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"

python -m edgetune.testing.fake_board jetson-orin-nano-8gb board --kernel 5.15
echo
edgetune doctor --root board | sed -n '/^Board/,$p'
echo
edgetune device show jetson --root board
echo

mode() { edgetune device watch jetson --root board --count 1 | grep -o '"mode": {[^}]*}'; }
export -f mode

mode
edgetune device set jetson cpu_cores=2,gpu_mhz=306 --root board --quiet -- bash -c mode
mode
{ edgetune device set jetson gpu_mhz=408 --root board --quiet -- bash -c 'mode; kill -9 $PPID' || echo "killed: $?"; } 2> /dev/null
edgetune device restore jetson --root board
mode

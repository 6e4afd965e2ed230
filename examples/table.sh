#!/usr/bin/env bash
# Any table with a few columns is a device: search it without measuring anything. The table holds ResNet-18 training
# on a simulated AGX Orin; only the columns that a profile must have, one knob, and power.
set -euo pipefail
table=$(dirname "$0")/resnet18-train-twin.csv
head -3 "$table"
echo
edgetune search "$table" --power-budget 30W --strategy gmd 2> /dev/null | sed -n '/^problem/,$p'

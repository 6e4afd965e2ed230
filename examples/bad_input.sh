#!/usr/bin/env bash
# Every error is two lines and an exit code that scripts can tell apart.
set -uo pipefail

try() {
    echo "\$ edgetune $*"
    edgetune "$@" < /dev/null 2>&1
    echo "exit code $?"
}

here=$(dirname "$0")
try profle
try search "$here/resnet18-train-twin.csv" --power-budget 30
try search "$here/resnet18-train-twin.csv" --power-budget 30W --strategy exhaustve
try search "$here/resnet18-train-twin.csv" --power-budget 5W --strategy exhaustive --quiet
try profile zoo:resnet19 --task infer --batch-sizes 1
try profile zoo:resnet18 --task infer --batch-sizes 1 --device nvidia:0

#!/usr/bin/env bash
# Every error is two lines and an exit code that scripts can tell apart.
set -uo pipefail
cd "$(dirname "$0")"

try() {
    echo "\$ edgetune $*"
    edgetune "$@" < /dev/null 2>&1
    echo "exit code $?"
}

try profle
try search resnet18-train-twin.csv --power-budget 30
try search resnet18-train-twin.csv --power-budget 30W --strategy exhaustve
try search resnet18-train-twin.csv --power-budget 5W --quiet
try profile zoo:resnet19 --task infer
try profile zoo:resnet18 --task infer --device hots

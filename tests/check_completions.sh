#!/usr/bin/env bash
# Makes the completion scripts again and compares them with the committed ones.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
edgetune completions --write "$fresh"
diff -ru completions "$fresh" || {
    echo "completions/ is out of date: run edgetune completions --write completions/" >&2
    exit 1
}

#!/usr/bin/env bash
# The networks that come with edgetune.
set -euo pipefail
edgetune zoo

#!/usr/bin/env bash
# Makes an environment of its own and checks everything: ./tests/run.sh [--slow | --browser] [arguments for pytest]
# Random examples are the same in every run; --slow draws fresh ones and ends with the option that repeats them.
# --browser opens pages in Debian's chromium (apt-get install chromium), and nothing else.
# The environment is kept in .venv-test (or $EDGETUNE_TEST_VENV) and made again when pyproject.toml changes.
set -euo pipefail
cd "$(dirname "$0")/.."

marks=("-m" "not slow and not browser")
browser=
if [[ ${1:-} == --slow ]]; then
    shift
    marks=("-m" "not browser" "--hypothesis-profile=fresh")
elif [[ ${1:-} == --browser ]]; then
    shift
    browser=1
fi

venv=${EDGETUNE_TEST_VENV:-.venv-test}
recipe=$(cat pyproject.toml "$0" | sha256sum | cut -d' ' -f1)
if [[ $(cat "$venv/recipe" 2>/dev/null || true) != "$recipe" ]]; then
    echo "== environment in $venv"
    python3 -c 'import sys; sys.exit(f"edgetune needs Python 3.10 or newer, this is {sys.version}" if sys.version_info < (3, 10) else 0)'
    rm -rf "$venv"
    python3 -m venv "$venv"
    # One release of torch for everybody, so that a failure is the same failure everywhere.
    install=("$venv/bin/python" -m pip install -q --prefer-binary --no-compile)  # Python compiles what it imports
    "${install[@]}" torch==2.13.0
    "${install[@]}" -e '.[test]'
    echo "$recipe" > "$venv/recipe"
fi
bin=$(cd "$venv/bin" && pwd)
export PATH="$bin:$PATH"
if [[ $browser ]]; then
    python -m pip install -q --prefer-binary -e '.[browser]'
    exec python -m pytest -m browser tests/browser "$@"
fi

echo "== ruff"
ruff check edgetune tests examples
ruff format --check edgetune tests examples
echo "== mypy"
mypy
echo "== import-linter"
lint-imports
echo "== completions"
tests/check_completions.sh
echo "== pytest"
python -m pytest -n 2 "${marks[@]}" "$@"

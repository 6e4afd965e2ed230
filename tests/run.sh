#!/usr/bin/env bash
# Makes an environment of its own and checks everything: ./tests/run.sh [OPTIONS] [arguments for pytest]
#   --slow     all tests, with fresh random examples; ends with the option that repeats them
#   --browser  opens pages in Debian's chromium (apt-get install chromium), and nothing else
#   --latest   with the newest version of each package, instead of those of tests/constraints.txt
#   --load     while two other processes take two cores
# The environment is kept in .venv-test (or $EDGETUNE_TEST_VENV) and made again when what it is made from changes.
# $EDGETUNE_TEST_PYTHON names the Python to make it with (python3).
set -euo pipefail
cd "$(dirname "$0")/.."

# No variable of a machine decides what passes: only these are kept.
kept='^(HOME|PATH|LANG|USER|LOGNAME|TMPDIR|CI|EDGETUNE_TEST_.*|PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY)='
if [[ -z ${EDGETUNE_TEST_CLEAN:-} ]]; then
    mapfile -d '' -t variables < <(env -0 | grep -zE "$kept")
    exec env -i LANG=C.UTF-8 "${variables[@]}" EDGETUNE_TEST_CLEAN=1 bash "$0" "$@"
fi

marks=(-m "not slow and not browser")
constraints=(-c tests/constraints.txt)
slow='' browser='' load=''
while [[ ${1:-} =~ ^--(slow|browser|latest|load)$ ]]; do
    case $1 in
        --slow) slow=1; marks=(-m "not browser" --hypothesis-profile=fresh) ;;
        --browser) browser=1 ;;
        --latest) constraints=() ;;
        --load) load=1 ;;
    esac
    shift
done

venv=${EDGETUNE_TEST_VENV:-.venv-test}
python=${EDGETUNE_TEST_PYTHON:-python3}
recipe=$({ cat pyproject.toml "$0" tests/constraints.txt; "$python" -VV; echo "${constraints[@]}"; } | sha256sum | cut -d' ' -f1)
if [[ $(cat "$venv/recipe" 2>/dev/null || true) != "$recipe" ]]; then
    echo "== environment in $venv"
    "$python" -c 'import sys; sys.exit(f"edgetune needs Python 3.10 or newer, this is {sys.version}" if sys.version_info < (3, 10) else 0)'
    rm -rf "$venv"
    "$python" -m venv "$venv"
    install=("$venv/bin/python" -m pip install -q --prefer-binary --no-compile "${constraints[@]}")  # Python compiles what it imports
    "${install[@]}" 'torch>=2.1,<2.14'
    "${install[@]}" -e '.[test]'
    echo "$recipe" > "$venv/recipe"
fi
bin=$(cd "$venv/bin" && pwd)
export PATH="$bin:$PATH"
if [[ $browser ]]; then
    python -m pip install -q --prefer-binary -e '.[browser]'
    exec python -m pytest -m browser tests/browser "$@"
fi

# Files of tests are in memory where there is room for them: on some disks it takes milliseconds to remove a folder.
memory=/dev/shm
room_kb=$(df -k --output=avail $memory 2>/dev/null | tail -n 1 || true)
if [[ -z ${TMPDIR:-} && -w $memory && ${room_kb:-0} -gt $((8 << 20)) && $(findmnt -no OPTIONS $memory 2>&1) != *noexec* ]]; then
    TMPDIR=$memory
fi
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/et.XXXX")  # short: names of sockets are
chmod 755 "$TMPDIR"  # tests of root act for other users
export TMPDIR
trap 'jobs -p | xargs -r kill 2> /dev/null; rm -rf "$TMPDIR"' EXIT
if [[ $load ]]; then
    for _ in 1 2; do python -c 'while True: pass' & done
fi

echo "== ruff"
ruff check edgetune tests examples
ruff format --check edgetune tests examples
echo "== import-linter and mypy"  # side by side, with what compiles what each process of pytest would compile
lint-imports > "$TMPDIR/imports" 2>&1 &
linting=$!
collecting=''
if (($# == 0)); then
    python -m pytest --collect-only -q > /dev/null 2>&1 &
    collecting=$!
fi
mypy
wait "$linting" || { cat "$TMPDIR/imports"; exit 1; }
[[ ! $collecting ]] || wait "$collecting" || true
if [[ $slow ]]; then
    echo "== pytest of the command line, with the opposite of each variable that could decide"
    env PYTHONUNBUFFERED=1 PYTHONUTF8=0 LANG=C LC_ALL=C COLUMNS=40 TERM=dumb NO_COLOR=1 python -m pytest -n 3 -m "not slow and not browser" tests/cli
fi
echo "== pytest"  # three processes on two cores, for tests wait now and then
python -m pytest -n 3 "${marks[@]}" "$@"

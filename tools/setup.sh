#!/usr/bin/env bash
# Sets the project up in .venv: packages at pinned versions, Java when none is found, Delta's jars. Quick when nothing changed.
set -eu
cd "$(dirname "$0")/.."
root="$(pwd)"
stamp=.venv/.seamark-setup

# what was set up: the files that decide it, and the place (a moved virtual environment does not work)
wanted="$(echo "$root"; cat pyproject.toml requirements/*.txt tools/setup.sh tools/prepare_spark.py)"
wanted="$(printf '%s' "$wanted" | cksum)"

is_done() { [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; }
say() { echo "setup: $*" >&2; }
is_done && exit 0

if command -v flock >/dev/null 2>&1; then # two calls of make at once: the second waits
  exec 9>"${TMPDIR:-/tmp}/seamark-setup-$(id -u)-$(printf '%s' "$root" | cksum | cut -d ' ' -f 1).lock"
  flock 9
  is_done && exit 0
fi

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  without_venv=""
  for name in python3.13 python3.12 python3.11 python3; do
    recent "$name" || continue
    if "$name" -c 'import ensurepip, venv' >/dev/null 2>&1; then
      python="$name"
      return
    fi
    without_venv="$name"
  done
  if [ -n "$without_venv" ]; then
    version="$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    say "$without_venv cannot make virtual environments: its modules venv and ensurepip are missing."
    say "Install them (Debian, Ubuntu: apt install python$version-venv) and call make again."
  else
    say "no Python 3.11 or later was found (looked for python3.13, python3.12, python3.11 and python3 on PATH)."
    say "Install one (Debian, Ubuntu: apt install python3 python3-venv) and call make again."
  fi
  exit 1
}

if ! recent .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  find_python
  say "virtual environment in .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
fi

# pip's scripts and caches must not depend on who calls make
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
pip() { .venv/bin/python -m pip --quiet "$@"; }

say "packages at pinned versions (a few minutes the first time)"
pip install -r requirements/all.txt
pip install --no-deps -r requirements/no-deps.txt
pip install --no-deps --no-build-isolation -e .

say "Java and Delta's jars"
.venv/bin/python tools/prepare_spark.py

printf '%s' "$wanted" >"$stamp"
say "done"

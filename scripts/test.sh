#!/usr/bin/env bash
# The test lanes, in order: scripts/test.sh [--fast] [--keep-going] [--gpu] [--compat] [LANE ...]
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
if [ ! -x "$python" ]; then
  echo "test.sh: no $python here; run scripts/quickstart.sh first" >&2
  exit 4
fi
exec "$python" scripts/lanes.py "$@"

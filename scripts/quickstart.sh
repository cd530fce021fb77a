#!/usr/bin/env bash
# From a fresh clone to a picture, a plan and a coverage report. Needs Python 3.11 or newer and git, nothing else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
python=${OMNI_PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  echo "quickstart.sh: no '$python' on PATH; install Python 3.11 or newer, or name one with OMNI_PYTHON" >&2
  exit 4
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "quickstart.sh: $("$python" --version 2>&1) is too old; name Python 3.11 or newer with OMNI_PYTHON" >&2
  exit 4
fi
exec "$python" scripts/quickstart.py "$@"

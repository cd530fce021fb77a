#!/usr/bin/env bash
# A model's offline and online tests, each with a coverage report of its own; omni-ci decides everything.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
PATH="$PATH:$root/.venv/bin" # where quickstart.sh installs, for a shell without an active environment
if ! command -v omni-ci >/dev/null; then
  echo "run_cov_split.sh: omni-ci is not on PATH; install it with: pip install 'pytest-omni[ci,cov]'" >&2
  exit 125
fi
exec omni-ci cov split "$@"

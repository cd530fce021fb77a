#!/usr/bin/env bash
# A job's commands in its Intel XPU container; omni-ci decides everything.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
for python in python3 python "$root/.venv/bin/python"; do
  if "$python" -c 'import psutil, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    # what the image has installed, else the checkout that this script is in
    exec "$python" -P -c 'import sys; sys.path += sys.argv[1:3]; from omni_ci.cli import main; main(sys.argv[3:])' \
      "$root" "$root/ci" exec --platform xpu "$@"
  fi
done
echo "run-xpu-test.sh: no Python 3.11 with psutil on PATH; install them in the image: pip install pytest-omni" >&2
exit 125

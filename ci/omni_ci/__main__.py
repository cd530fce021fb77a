"""`python -m omni_ci` is `omni-ci`."""

from omni_ci.cli import main

main()

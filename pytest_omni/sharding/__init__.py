"""Which part of the selected tests one job runs, decided so that a shared server is started once."""

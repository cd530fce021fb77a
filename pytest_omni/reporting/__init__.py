"""What became of every test, and whether the session may end as it did."""

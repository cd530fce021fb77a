"""``--omni-doctor``: what stands in the way here."""

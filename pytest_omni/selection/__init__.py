"""Which tests run here: hardware on the collected items, before and after ``-m``."""

"""Servers: asked for by a test, started behind a launcher, watched, stopped without a trace."""

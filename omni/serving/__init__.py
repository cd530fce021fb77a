"""The OpenAI-style HTTP API: one engine, one generation at a time, errors a client can act on."""

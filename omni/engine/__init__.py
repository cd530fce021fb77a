"""From a request to images: loading, running step by step, cancelling."""

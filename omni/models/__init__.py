"""What can be served: the catalog, finding a checkpoint, and the sizes it can draw."""

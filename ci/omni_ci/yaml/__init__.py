"""Pipeline files and their YAML: texts with places, read into models, and written again."""

"""A group's image: what a replica holds besides its log. Its manifest, snapshots, carried stages
and history files, as bytes: nothing here decodes a record."""

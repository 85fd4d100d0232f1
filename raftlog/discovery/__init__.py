"""Finding the cluster: a phone book, never truth."""

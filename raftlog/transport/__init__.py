"""Long-lived streams between the nodes of a cluster: one for each ordered pair of nodes."""

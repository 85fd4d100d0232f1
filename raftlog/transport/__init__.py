"""Long-lived streams between the nodes of a cluster; one direction each, one per directed pair."""

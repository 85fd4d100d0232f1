"""Who calls: identities, and how a node learns them from tokens and certificates."""

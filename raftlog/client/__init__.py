"""The synchronous client: what `import raftlog`, the command line and the connector use."""

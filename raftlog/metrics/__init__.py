"""What a node counts while it serves, and the port where Prometheus scrapes it.

`counts` holds what is counted as it happens, `state` shows what stands when it is asked, `port`
answers. Names and labels are stable: docs/METRICS.md lists them, and a test compares.
"""

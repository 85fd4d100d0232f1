"""Clusters of real processes, and what is done to them: killed, stopped, brought back."""

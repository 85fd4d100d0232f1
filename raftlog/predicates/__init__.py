"""Conditions on a topic's columns as plain values, and what statistics say of them. Pure.

`predicate` has the types, `making` builds them of a condition's parts, `outcomes` judges a
predicate by the statistics of a batch, `intervals` tells between which values a column must lie.
Nothing here looks at a record.
"""

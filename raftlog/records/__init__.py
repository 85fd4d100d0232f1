"""Records: a topic's schema in its forms, and rows as column chunks. Read in this order:

    spark_types   names of Spark's types
    ddl           Spark DDL, read by sqlglot
    schema_text   schemas as Spark DDL and Spark JSON
    arrow_types   schemas as Arrow's
    nested        nested types part by part
    conform       rows and batches brought into a topic's types
    batch_codec   a batch as header and column chunks, and back
    metadata      the metadata columns of a read
    batching      batches of the size that is sent

Clients, the command line and the connector use this. No server imports it: servers do not decode
records.
"""

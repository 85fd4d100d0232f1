"""Where a cluster's nodes are, as ZooKeeper says. A phone book: nothing here decides anything.

Nodes write in it (`announcer`), clients read it (`directory`), and the nodes of a new cluster agree
in it on whose cluster it is (`founding`). Whatever is read may be forged, old or missing: a client
asks the nodes themselves, and nodes ask their logs.
"""

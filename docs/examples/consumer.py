"""A small consumer: processes what is new in a topic, and goes on after it the next time.

python docs/examples/consumer.py SERVERS TOPIC GROUP
"""

import sys

import raftlog


def consume(client: raftlog.LogClient, topic: raftlog.TopicInfo, group: str) -> None:
    """Process each record at least once; return when nothing came for half a second."""
    new = client.follow(topic, group=group, idle_timeout_s=0.5)
    for batch in new:
        for row in batch.to_pylist():
            print(row)
        new.commit()


if __name__ == "__main__":
    servers, name, group_name = sys.argv[1:]
    with raftlog.connect(servers) as connected:
        consume(connected, connected.describe_topic(name), group_name)

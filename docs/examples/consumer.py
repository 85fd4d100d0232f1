"""A small consumer: processes what is new in a topic, and goes on after it the next time.

python docs/examples/consumer.py SERVERS TOPIC GROUP
"""

import sys

import raftlog


def consume(client: raftlog.LogClient, topic: raftlog.TopicInfo, group: str) -> None:
    """Process each record at least once."""
    position = client.positions.get(group, topic)
    start = position.offset if position else None  # None: the log's start
    columns = ["_offset", *(field.name for field in topic.schema.fields)]
    for batch in client.read(topic, start, columns=columns):
        for row in batch.to_pylist():
            print(row)
        done = batch.column("_offset")[-1].as_py() + 1
        client.positions.publish(group, topic, done, publisher="consumer.py")


if __name__ == "__main__":
    servers, name, group_name = sys.argv[1:]
    with raftlog.connect(servers) as connected:
        consume(connected, connected.describe_topic(name), group_name)

"""Options of other connectors that a job may bring along, and what takes their place."""

from __future__ import annotations

_IN_PLACE_OF = {
    "kafka.bootstrap.servers": "Name raftlog's nodes with 'raftlog.bootstrap.servers'.",
    "kafka.group.id": "'groupId' publishes under that name how far the query is.",
    "groupidprefix": "'groupId' publishes under that name how far the query is.",
    "assign": "A topic has no partitions: name it with 'subscribe'.",
    "includeheaders": "Leave it out: a topic has typed columns, and headers are one of them.",
    "kafka.client.rack": "It is 'raftlog.client.rack' here.",
    "kafka.isolation.level": "Leave it out: only committed records are ever read.",
    "kafka.acks": "Leave it out: a write is acknowledged once a majority has synced it to disk.",
    "kafka.enable.idempotence": "Leave it out: every write is.",
    "kafka.transactional.id": "Leave it out: the query's id is the writer; 'txnAppId' names one.",
    "kafkaconsumer.polltimeoutms": "'raftlog.request.timeout.ms' is the one deadline.",
    "fetchoffset.numretries": "'raftlog.request.timeout.ms' is the one deadline.",
    "fetchoffset.retryintervalms": "'raftlog.request.timeout.ms' is the one deadline.",
    "maxrecordspertrigger": "It is 'maxOffsetsPerTrigger' here, as with Kafka.",
    "maxmessagespertrigger": "It is 'maxOffsetsPerTrigger' here, as with Kafka.",
    "overwriteschema": "'mergeSchema' adds and widens columns, and `raftlog topic alter` renames "
    "and drops them; for other types write a new topic.",
    "maxfilespertrigger": "'maxOffsetsPerTrigger' and 'maxBytesPerTrigger' bound a micro-batch.",
}
_OF_SECURITY = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")


def advice_for(key: str) -> str:
    """What to do in place of another connector's option; "": it is none that is known."""
    name = key.lower()
    if name in _IN_PLACE_OF:
        return _IN_PLACE_OF[name]
    if name.startswith(_OF_SECURITY):
        return "'raftlog.auth.credential' names what takes its place (`raftlog docs KAFKA`)."
    if name.startswith("kafka."):
        return "Leave it out: no client of Kafka's reads it here (`raftlog docs KAFKA`)."
    return ""

"""Why nodes or groups are not added, moved or removed: a branch of the tree in `raftlog.errors`.

MembersRefused              nothing was changed
|-- NodeUnknown
|-- NotAVoter               it cannot lead the group
|-- NodeExists              another node has the id
|-- AddressTaken            another node has the address
|-- ObserverRefused         its parents cannot be these, or the node is none
|-- NodeInUse               groups are placed on the node, or it has not been told to leave
|-- GroupUnknown
|-- PlacementOutdated       another client placed the group meanwhile
|-- PlacementUnderWay       one change of a group at a time
|-- TooFewNodes             for the replicas that a topic has
|-- TransferRefused         the node cannot be given the leader's role now
`-- QuorumAtRisk            too few of the nodes that would decide are heard
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import RaftlogError


class MembersRefused(RaftlogError):
    exit_code = ExitCode.REFUSED
    grpc_status = "FAILED_PRECONDITION"


@dataclass(kw_only=True, eq=False)
class NodeUnknown(MembersRefused):
    """`known` lists the nodes that could be meant."""

    node: int
    known: str

    cause_text = "Node {node} is none that can be named here: these are {known}."
    remedy_text = (
        "Name a node that there is, and start no process as another one's: a new node is added "
        "first, by `raftlog cluster add`."
    )


@dataclass(kw_only=True, eq=False)
class NotAVoter(MembersRefused):
    """The node has no vote in the group, so it cannot lead it; `voters` have one."""

    group: int
    node: int
    voters: str

    cause_text = (
        "Node {node} cannot lead group {group}: it has no vote there. These nodes have: {voters}."
    )
    remedy_text = (
        "Name one of these. `raftlog cluster status` shows where each group is, and `raftlog "
        "cluster rebalance` puts groups on nodes that are new."
    )


@dataclass(kw_only=True, eq=False)
class NodeExists(MembersRefused):
    """The id belongs to a node at another address."""

    node: int
    address: str

    cause_text = "Node {node} exists already, at {address}."
    remedy_text = "Give the new node an id that no node ever had."


@dataclass(kw_only=True, eq=False)
class AddressTaken(MembersRefused):
    """Another node has the address that the new one would have."""

    address: str
    node: int

    cause_text = "The address {address} is node {node}'s."
    remedy_text = (
        "Give the new node another address. If node {node} does not belong there, start it with "
        "its own address, or remove it first: `raftlog cluster remove`."
    )


@dataclass(kw_only=True, eq=False)
class ObserverRefused(MembersRefused):
    """The node is no observer, or cannot pull from these parents."""

    node: int
    problem: str

    cause_text = "Node {node} cannot observe so: {problem}."
    remedy_text = (
        "Look at the nodes there are, and what they pull from: `raftlog cluster status`. "
        "What observers pull from must lead to nodes that are none."
    )


@dataclass(kw_only=True, eq=False)
class NodeInUse(MembersRefused):
    """Groups are placed on the node, or it has not been told to leave."""

    node: int
    what: str

    cause_text = "Node {node} cannot be removed for good yet: {what}."
    remedy_text = "Run `raftlog cluster remove {node}`: it moves what the node holds first."


@dataclass(kw_only=True, eq=False)
class GroupUnknown(MembersRefused):
    """No group has that id any more."""

    group: int

    cause_text = "There is no group {group}: its topic was deleted, or there never was one."
    remedy_text = "Look at what there is: `raftlog cluster status`."


@dataclass(kw_only=True, eq=False)
class PlacementOutdated(MembersRefused):
    """It was placed in `generation` meanwhile."""

    group: int
    generation: int

    cause_text = "Group {group} was placed by another client meanwhile (generation {generation})."
    remedy_text = "Run the command again: it starts from what is there now."


@dataclass(kw_only=True, eq=False)
class PlacementUnderWay(MembersRefused):
    """The group goes from `former` to `voters`."""

    group: int
    voters: str
    former: str

    cause_text = "Group {group} is on its way from nodes {former} to nodes {voters}."
    remedy_text = (
        "One change at a time: wait until it is there (`raftlog cluster status`), or take it "
        "back: `raftlog cluster remove NODE --undo` with a node that it leaves. If one that it "
        "goes to is lost, `raftlog cluster remove` that one."
    )


@dataclass(kw_only=True, eq=False)
class TooFewNodes(MembersRefused):
    """`what` needs `needed` nodes, and `found` take replicas; `unstarted` were added and have not
    come, and those of `silent` do not answer."""

    what: str
    needed: int
    found: int
    unstarted: str = ""
    silent: str = ""

    cause_text = "{what} needs {needed} nodes, and {found} can hold a replica."

    @property
    def remedy(self) -> str:
        first = "Add a node first (`raftlog cluster add`)"
        if self.unstarted:
            first = f"Start what was added and has not come, {self.unstarted}, by `raftlog serve"
            first += " --join`"
        if self.silent:
            first = f"Start what does not answer, node {self.silent}, or try again if it runs"
        return f"{first}, or ask for fewer replicas of a topic."


@dataclass(kw_only=True, eq=False)
class TransferRefused(MembersRefused):
    """Why `group`'s leader does not hand its role to `node`."""

    group: int
    node: int
    problem: str

    cause_text = "Node {node} cannot be made leader of group {group} now: {problem}."
    remedy_text = (
        "Name another voter of the group, or try again when this one answers and is sound "
        "(`raftlog status`)."
    )


@dataclass(kw_only=True, eq=False)
class QuorumAtRisk(MembersRefused):
    """Of the `voters` that would decide, only the nodes `heard` answer."""

    what: str
    voters: str
    heard: str

    cause_text = (
        "{what} would lose its quorum: of its voters {voters}, these can be reached: {heard}."
    )
    remedy_text = (
        "Start the other nodes first, or `raftlog cluster replace` one that is lost. If most of a "
        "topic's nodes are lost for good, save what `raftlog tail` still shows, and "
        "`raftlog topic delete` it."
    )

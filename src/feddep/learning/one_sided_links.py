"""Links that only one of two silos has in its tables: it asks about the other end by its id.

A silo sends a tag for each node that it has a link to. The other recognises its own nodes by them
and names those that it answers for. It does so without having the link itself, so whoever may ask
about many ids learns about many nodes; its owner limits their number
(:attr:`~feddep.privacy.pair_keys.LinkKeys.one_sided`).
"""

import logging

import numpy as np

from feddep.learning.link_exchange import (
    Bytes,
    Ints,
    Matched,
    Place,
    Tags,
    as_text,
    keys_of,
    links_to,
    sealed_tags,
    tags_of,
)
from feddep.learning.silo import Silo

log = logging.getLogger("feddep")


def questions(silo: Silo, peer: int, place: Place) -> Bytes:
    """Tags of the peer's nodes that the silo has links to."""
    keys = keys_of(silo)
    ids = np.unique(links_to(silo, peer).ids)
    outgoing, _ = tags_of(keys.pair(peer), _named(keys.names[peer], ids))
    return sealed_tags(silo, peer, outgoing, place)


def recognised(silo: Silo, peer: int, asked: Tags) -> Ints:
    """The own nodes that a peer asks about and is answered for, in the order of their ids.

    If it asks about more nodes without a link to it than the owner allows, none of these is.
    """
    keys, graph = keys_of(silo), silo.graph
    ids = as_text(graph.node_ids)
    _, incoming = tags_of(keys.pair(peer), _named(keys.name, ids))
    found = np.isin(incoming, asked)
    linked = np.zeros(graph.nodes, bool)
    linked[links_to(silo, peer).own] = True
    only_there = int((found & ~linked).sum())
    if keys.one_sided is not None and only_there > keys.one_sided:
        log.warning(
            "%s asks %s about %d nodes that have no link to it here, where %d are allowed; it is "
            "answered for none of them", keys.names[peer], keys.name, only_there, keys.one_sided,
        )  # fmt: skip
        found &= linked
    nodes = np.flatnonzero(found).astype(np.int32)
    return nodes[np.argsort(ids[nodes], kind="stable")]


def names_of(silo: Silo, peer: int, shown: Ints, place: Place) -> Bytes:
    """Tags of the own nodes that the peer is answered for."""
    keys = keys_of(silo)
    ids = as_text(silo.graph.node_ids[shown])
    outgoing, _ = tags_of(keys.pair(peer), _named(keys.name, ids))
    return sealed_tags(silo, peer, outgoing, place)


def settled_links(silo: Silo, peer: int, shown: Ints, named: Tags) -> Matched:
    """The links for which the peer answers.

    Args:
        silo: the silo.
        peer: the peer's number.
        shown: what the silo shows the peer.
        named: the peer's tags of what it shows this silo.
    """
    keys, links = keys_of(silo), links_to(silo, peer)
    ids = np.unique(links.ids)
    _, incoming = tags_of(keys.pair(peer), _named(keys.names[peer], ids))
    answered = ids[np.isin(incoming, named)]
    kept = links.among(np.isin(links.ids, answered))
    return Matched(kept.own, shown, np.searchsorted(answered, kept.ids).astype(np.int32))


def _named(owner: str, ids: "np.ndarray[tuple[int], np.dtype[np.str_]]") -> list[str]:
    """Texts that no link has: those begin with a digit."""
    return [f"node of {owner}:{own}" for own in ids.tolist()]

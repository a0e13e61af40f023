"""A million links between two silos: seconds of CPU and bytes of finding out which both have."""

import time

import numpy as np
import torch

from feddep.federation.messages import Reply, Request, payload_bytes
from feddep.federation.phase import Ask
from feddep.graph.graph import Graph
from feddep.graph.outside import OutsideLinks
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.phases.link_matching import LinkMatching
from feddep.privacy.pair_keys import LinkKeys

LINKS = 1_000_000
NODES = 200_000
NAMES = ("bank-a", "bank-b")


def measure() -> dict[str, float]:
    rng = np.random.default_rng(0)
    ends = rng.integers(NODES, size=(LINKS, 2))
    ids = np.array([f"{n:018d}" for n in rng.permutation(10**7)[:NODES]])
    spec = LearningSpec(features=1, classes=2)
    silos = [
        Silo(
            client,
            Graph.from_edges(
                [],
                np.ones((NODES, 1)),
                np.zeros(NODES),
                node_ids=ids,
                outside=OutsideLinks.of(ends[:, client], [NAMES[1 - client]] * LINKS, ids[there]),
            ),
            spec,
            torch.device("cpu"),
            links=LinkKeys.simulated(0, "benchmark", client, NAMES),
        )
        for client, there in enumerate((ends[:, 1], ends[:, 0]))
    ]
    found = exchanged(silos)
    print(
        f"{LINKS} links: {found['seconds']:.1f} s of CPU for both silos, "
        f"{found['bytes_a_link']:.3f} bytes a link, {found['matched']:.0f} matched"
    )
    return found


def exchanged(silos: list[Silo]) -> dict[str, float]:
    phase, sizes = LinkMatching(), []
    states: list[dict] = [{} for _ in silos]

    def send(requests: list[Request]) -> list[Reply]:
        replies = []
        for request in requests:
            own = request.client
            reply, states[own] = phase.answer(request, states[own], silos[own])
            sizes.append(payload_bytes(reply.arrays))
            replies.append(reply)
        return replies

    began = time.process_time()
    phase.serve(silos[0].spec, Ask(len(silos), phase.name, 0, send), {})
    return {
        "seconds": time.process_time() - began,
        "bytes_a_link": max(sizes) / len(silos[0].graph.outside),
        "matched": float(len(states[0]["links/1/own"])),
    }

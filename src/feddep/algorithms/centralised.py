"""Global: one party holds the whole graph, no edge is lost. Local with one client, in short."""

from dataclasses import replace

from feddep.algorithms import local

METHOD = replace(
    local.METHOD,
    name="global",
    summary="GraphSAGE on the whole graph, as if the silos could be joined.",
    whole_graph=True,
)

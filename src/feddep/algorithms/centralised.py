"""Global: one client holds the whole graph and no edge is lost; in short, Local with M = 1."""

from dataclasses import replace

from feddep.algorithms import local

METHOD = replace(
    local.METHOD,
    name="global",
    summary="GraphSAGE on the whole graph, as if the silos could be joined.",
    whole_graph=True,
)

"""A silo tells the sums from which scales are agreed: allowed by its consent, noised, logged."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.operations.silo_setup import own_disclosures
from feddep.deployment.protocol.consent import Consent
from feddep.errors import ConsentError, InputError
from feddep.federation.messages import Reply
from feddep.graph.schema import Schema
from feddep.privacy.noised_scaling import noised
from feddep.privacy.secret_stream import SecretStream
from feddep.tables.agreeing import read_schema
from feddep.tables.files import open_tables
from feddep.tables.scaling import GROUP, Bounds, Sums, numbers_in, scaled_bounds, sums_of


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What hides one node in the sums.

    Attributes:
        epsilon: ε.
        delta: δ.
        bounds: the range that the cells of each column of numbers are cut to; it must not depend
            on the data.
    """

    epsilon: float
    delta: float = 1e-6
    bounds: Bounds = field(default_factory=dict)


def tell_sums(
    folder: Path,
    schema: Path,
    out: Path,
    *,
    noise: Noise | None = None,
    config: Path | None = None,
    flags: Mapping[str, object] | None = None,
) -> Sums:
    """Writes a silo's sums into a file that others may see.

    Args:
        folder: of the silo's tables.
        schema: the agreed one.
        out: the new file.
        noise: hides one node; None shows the sums as they are.
        config: the silo's, whose consent must allow it and whose log takes a line.
        flags: how the tables are read.

    Raises:
        ConsentError: the silo's owner does not allow it.
        InputError: the tables do not fit, or the noise cannot be made.
    """
    agreed = read_schema(schema)
    if noise is not None:
        _check_bounds(agreed, noise.bounds)
    silo = None if config is None else SiloConfig.read(config)
    if silo is not None:
        _check_allowed(Consent.read(silo.consent), noise, silo.consent)
    tables = open_tables(folder, **(flags or {}))
    found = sums_of(tables, agreed, None if noise is None else noise.bounds)
    if noise is not None:
        limits = [scaled_bounds(c, noise.bounds[c.name]) for c in numbers_in(agreed)]
        stream = SecretStream(secrets.token_bytes(32))
        found = noised(found, limits, noise.epsilon, noise.delta, stream)
    if silo is not None:
        silo.state.mkdir(parents=True, exist_ok=True)
        own_disclosures(silo.state).append(
            run=f"{GROUP} {agreed.digest()[:16]}",
            phase=GROUP,
            step="sums",
            round=0,
            reply=Reply(0, {f"{GROUP}/sums": found.table}, {}),
            epsilon=found.epsilon,
        )
    found.write(out)
    return found


def _check_bounds(schema: Schema, bounds: Bounds) -> None:
    edges = [column.name for column in schema.columns if column.from_edges]
    if edges:
        raise InputError(
            f"noise for one node does not cover columns about its edges, which are in its "
            f"neighbours' rows too ({', '.join(map(repr, edges[:3]))}); leave out edge features"
        )
    numbers = {column.name for column in numbers_in(schema)}
    missing, strange = sorted(numbers - bounds.keys()), sorted(bounds.keys() - numbers)
    if missing or strange:
        what = f"none for {missing[0]!r}" if missing else f"one for {strange[0]!r}, no number"
        raise InputError(
            f"with noise every column of numbers needs a range that cells are cut to (got {what}); "
            "add --bound name=lowest:highest, which must not be read off the data"
        )
    for name, (low, high) in bounds.items():
        if not low < high:
            raise InputError(f"--bound {name}: expected lowest below highest (got {low}:{high})")


def _check_allowed(consent: Consent, noise: Noise | None, file: Path) -> None:
    if GROUP not in consent.messages:
        raise ConsentError(
            f"{file} does not allow {GROUP!r}: sums of the columns, over training nodes; add it to "
            "messages if they may leave"
        )
    if consent.has_budget:
        raise ConsentError(
            f"{file} sets a budget, which is for edges and does not count sums of columns; agree "
            "on scales before it is set, or let each silo take its own"
        )
    highest = consent.highest_epsilon
    if highest == "unbounded":
        return
    if noise is None or noise.epsilon > highest:
        told = "no noise at all" if noise is None else f"ε = {noise.epsilon:g}"
        raise ConsentError(
            f"{file} allows ε up to {highest:g}, and these sums have {told}; give --epsilon"
        )

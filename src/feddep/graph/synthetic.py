"""The generated data set: a citation network with topics and communities.

Two things make it a fair miniature of the paper's data sets. Its edges follow a degree-corrected
stochastic block model (Karrer and Newman, 2011): a few hubs, many small nodes, and communities that
a partition such as Louvain finds. Its features are a bag of words in which most words are noise, so
a node says little about its class and its neighbours say more.

Four shares of :class:`SyntheticSpec` set the difficulty: ``topic_share`` and ``dialect_share`` for
the features, ``class_mixing`` and ``community_mixing`` for the edges.

The same seed and spec give the same bytes. Everything is vectorised and works in slices, so a graph
of a million nodes and ten million edges takes little more memory than it fills.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.seeding import Seeds

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Part of the format of a generated graph: another slice size draws other numbers.
_EDGES_AT_ONCE = 1 << 20
_NODES_AT_ONCE = 1 << 16

# Weights are whole numbers of this unit, so sums of them are exact and alike on every processor.
_WEIGHT_UNIT = 1 / 1024

# Repeated edges are drawn anew; each round leaves a small share of the last one's.
_MOST_ROUNDS = 200


@dataclass(frozen=True, kw_only=True)
class SyntheticSpec:
    """What :func:`generate` makes. The defaults resemble Cora.

    Attributes:
        seed: which graph; a run's own seed changes split and partition, not the data set.
        nodes: n, the number of nodes.
        mean_degree: 2E / n; the graph has exactly ``edges`` = round(n · mean_degree / 2) edges.
        classes: C, the number of classes.
        communities_per_class: communities of each class. Sizes differ by up to a factor of three.
        class_mixing: share of edges between nodes of different classes (1 - edge homophily).
            More of it: neighbours help less.
        community_mixing: share of edges between two communities of the same class. The remaining
            edges stay inside a community. More of it: a partition cuts more edges.
        degree_exponent: γ > 2 of the expected degrees' power law, P(degree) ∝ degree^-γ.
        feature_count: d, the number of words in the vocabulary.
        words_per_node: mean number of words a node draws; repeated words count once.
        topic_share: share of a node's words that come from its class's topic; the others are
            background noise that says nothing. More of it: features alone suffice.
        dialect_share: share of those topic words that come from the community's dialect. More of
            it: what one client learns about a class holds less for the other clients.
        topic_words: number of words in a topic. Topics are drawn independently and overlap.
        dialect_words: number of words in a dialect, a part of the class's topic.
    """

    seed: int = 0
    nodes: int = 3000
    mean_degree: float = 4.0
    classes: int = 6
    communities_per_class: int = 5
    class_mixing: float = 0.23
    community_mixing: float = 0.25
    degree_exponent: float = 2.8
    feature_count: int = 600
    words_per_node: float = 18.0
    topic_share: float = 0.16
    dialect_share: float = 0.5
    topic_words: int = 100
    dialect_words: int = 25

    def __post_init__(self) -> None:
        self._check_counts()
        self._check_shares()

    @property
    def edges(self) -> int:
        """E, the number of undirected edges."""
        return round(self.nodes * self.mean_degree / 2)

    @property
    def communities(self) -> int:
        """Communities of all classes together."""
        return self.classes * self.communities_per_class

    def _check_counts(self) -> None:
        _require(self.classes >= 1, "classes must be 1 or more", self.classes)
        _require(
            self.communities_per_class >= 1,
            "communities_per_class must be 1 or more",
            self.communities_per_class,
        )
        fewest = 4 * self.communities
        _require(
            fewest <= self.nodes < 2**31,
            f"nodes must be at least {fewest}, four for each of {self.communities} communities, "
            "and below 2^31",
            self.nodes,
        )
        _require(
            0 <= self.mean_degree < self.nodes,
            f"mean_degree must be from 0 to below {self.nodes}",
            self.mean_degree,
        )
        _require(
            1 <= self.topic_words <= self.feature_count,
            f"topic_words must be 1 to feature_count, {self.feature_count}",
            self.topic_words,
        )
        _require(
            1 <= self.dialect_words <= self.topic_words,
            f"dialect_words must be 1 to topic_words, {self.topic_words}",
            self.dialect_words,
        )

    def _check_shares(self) -> None:
        for field in ("class_mixing", "community_mixing", "topic_share", "dialect_share"):
            value = getattr(self, field)
            _require(0 <= value <= 1, f"{field} must be a share, 0 to 1", value)
        _require(
            self.class_mixing + self.community_mixing <= 1,
            "class_mixing + community_mixing must be 1 or less",
            self.class_mixing + self.community_mixing,
        )
        _require(
            self.classes > 1 or self.class_mixing == 0,
            "class_mixing must be 0 with one class",
            self.class_mixing,
        )
        _require(
            self.communities_per_class > 1 or self.community_mixing == 0,
            "community_mixing must be 0 with one community per class",
            self.community_mixing,
        )
        _require(
            self.degree_exponent > 2,
            "degree_exponent must be above 2, else the mean degree has no limit",
            self.degree_exponent,
        )
        _require(
            0 < self.words_per_node < 1e6,
            "words_per_node must be positive and below a million",
            self.words_per_node,
        )


def generate(spec: SyntheticSpec, seeds: Seeds) -> Graph:
    """A graph named "synthetic", without a split; a function of ``spec`` and ``seeds`` alone."""
    seeds = seeds.child("synthetic")
    blocks = _Blocks.draw(spec, seeds.stream("communities"))
    # Nodes are laid out community by community while edges are drawn, and numbered at random
    # afterwards: the number of a node must not tell its class.
    number = seeds.stream("numbering").permutation(spec.nodes).astype(np.int32)
    indptr, indices = _adjacency(_draw_edges(spec, blocks, number, seeds), spec.nodes)
    community = np.empty(spec.nodes, np.int32)
    community[number] = blocks.community_of_place()
    features = _draw_features(spec, community, seeds)
    return Graph(
        indptr=indptr,
        indices=indices,
        features=features,
        labels=(community // spec.communities_per_class).astype(np.int64),
        classes=spec.classes,
        node_ids=np.arange(spec.nodes),
        split=np.zeros(spec.nodes, np.int8),
        name="synthetic",
    )


@dataclass(frozen=True)
class _Blocks:
    """Where communities and classes lie when nodes stand in a row, community by community.

    Attributes:
        starts: ``(communities + 1,)`` the place where each community starts.
        weight_before: ``(n + 1,)`` total weight of all nodes before each place. A node's weight is
            its expected degree up to a factor.
    """

    starts: Longs
    weight_before: Longs

    @classmethod
    def draw(cls, spec: SyntheticSpec, stream: np.random.Generator) -> "_Blocks":
        """Draws community sizes, then a power-law weight for every node."""
        shares = 0.5 + stream.random(spec.communities)
        inner = np.rint(np.cumsum(shares)[:-1] / shares.sum() * spec.nodes)
        weights = _power_law(spec, stream)
        return cls(
            starts=np.concatenate([[0], inner, [spec.nodes]]).astype(np.int64),
            weight_before=np.concatenate([[0], np.cumsum(weights)]),
        )

    def community_of_place(self) -> Ints:
        """``(n,)`` the community of each place."""
        communities = np.arange(len(self.starts) - 1, dtype=np.int32)
        return np.repeat(communities, np.diff(self.starts))

    def spans(self, group: int) -> tuple[Longs, Longs]:
        """Start and end, in weight, of the group around each community; both ``(communities,)``.

        A group is so many communities in a row: 1 for the community itself, those of a class, or
        all for the whole graph. A group of 0 is empty.
        """
        first = np.arange(len(self.starts) - 1)
        if group > 0:
            first -= first % group
        return (
            self.weight_before[self.starts[first]],
            self.weight_before[self.starts[first + group]],
        )


def _power_law(spec: SyntheticSpec, stream: np.random.Generator) -> Longs:
    """``(n,)`` weights w ≥ 1 with P(w) ∝ w^-γ, cut at √n so that no hub knows everybody.

    They are counted in units of ``_WEIGHT_UNIT``.
    """
    uniform = 1.0 - stream.random(spec.nodes)
    weights = uniform ** (-1.0 / (spec.degree_exponent - 1.0))
    cut = np.minimum(weights, np.sqrt(spec.nodes))
    return np.rint(cut / _WEIGHT_UNIT).astype(np.int64)


def _draw_edges(spec: SyntheticSpec, blocks: _Blocks, number: Ints, seeds: Seeds) -> Longs:
    """``(E,)`` sorted edge codes (see :func:`_encode`), all different.

    The three kinds of edge are drawn one after the other, each until its share is full. A kind is a
    pair of groups around the first end: the other end lies in the outer but not in the inner one.
    """
    between_classes = round(spec.edges * spec.class_mixing)
    same_class = spec.edges - between_classes
    between_communities = min(round(spec.edges * spec.community_mixing), same_class)
    inside = same_class - between_communities
    kinds = (
        ("inside a community", inside, 1, 0),
        ("between communities of a class", between_communities, spec.communities_per_class, 1),
        ("between classes", between_classes, spec.communities, spec.communities_per_class),
    )
    codes = [
        _distinct_edges(
            kind, count, _PairSampler(blocks, number, outer, inner), seeds.stream("edges", kind)
        )
        for kind, count, outer, inner in kinds
    ]
    merged = np.concatenate(codes)
    merged.sort()
    return merged


class _PairSampler:
    """Draws edges whose second end lies in one group around the first end but not in another.

    P(u, v) ∝ w_u · w_v / W(u), where W(u) is the weight of all nodes v that u may meet.
    """

    def __init__(self, blocks: _Blocks, number: Ints, outer: int, inner: int) -> None:
        self._weight_before = blocks.weight_before
        self._community = blocks.community_of_place()
        self._number = number
        self._outer_start, outer_end = blocks.spans(outer)
        self._hole_start, hole_end = blocks.spans(inner)
        self._hole = hole_end - self._hole_start
        self._room = outer_end - self._outer_start - self._hole

    def codes(self, count: int, stream: np.random.Generator) -> Longs:
        """Codes of ``count`` edges; repeats are possible, self-loops are left out."""
        total = self._weight_before[-1]
        first = self._place_at((stream.random(count) * total).astype(np.int64))
        community = self._community[first]
        offset = (stream.random(count) * self._room[community]).astype(np.int64)
        mark = self._outer_start[community] + offset
        # Nodes in the hole are skipped: every mark behind its start moves on by its width.
        mark += np.where(mark >= self._hole_start[community], self._hole[community], 0)
        second = self._place_at(mark)
        apart = first != second
        return _encode(self._number[first[apart]], self._number[second[apart]], len(self._number))

    def _place_at(self, mark: Longs) -> Longs:
        """The place of the node that covers each mark on the line of weights."""
        return np.searchsorted(self._weight_before, mark, side="right") - 1


def _distinct_edges(
    kind: str, count: int, pairs: _PairSampler, stream: np.random.Generator
) -> Longs:
    """``(count,)`` different edge codes; what repeats an earlier edge is drawn again."""
    codes = np.empty(0, np.int64)
    for _ in range(_MOST_ROUNDS):
        if len(codes) == count:
            return codes
        missing = count - len(codes)
        slices = [min(_EDGES_AT_ONCE, missing - s) for s in range(0, missing, _EDGES_AT_ONCE)]
        codes = _union(codes, *(pairs.codes(size, stream) for size in slices))
    raise InputError(
        f"no room for {count} edges {kind}, only {len(codes)} were found; "
        "lower mean_degree or communities_per_class, or raise nodes"
    )


def _union(*parts: Longs) -> Longs:
    """All values once, in ascending order; sorts in place, unlike ``np.unique``."""
    merged = np.concatenate(parts)
    merged.sort()
    new = np.ones(len(merged), np.bool_)
    np.not_equal(merged[1:], merged[:-1], out=new[1:])
    return merged[new]


def _encode(first: Ints, second: Ints, nodes: int) -> Longs:
    """An undirected edge as one number, smaller · n + larger."""
    return np.minimum(first, second).astype(np.int64) * nodes + np.maximum(first, second)


def _adjacency(codes: Longs, nodes: int) -> tuple[Longs, Ints]:
    """Both directions of the coded edges as ``indptr`` and ``indices``."""
    smaller, larger = np.divmod(codes, nodes)
    counts = np.bincount(smaller, minlength=nodes)
    upper = _sparse(np.ones(len(codes), np.int8), larger.astype(np.int32), counts, nodes)
    both = sp.csr_array(upper + upper.T.tocsr())
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32, copy=False)


def _sparse(values: npt.NDArray[Any], columns: Ints, counts: Longs, width: int) -> sp.csr_array:
    """A sparse array from its row lengths, with the narrowest index type.

    SciPy would widen ``columns`` to the type of the row starts.
    """
    narrow = sp.get_index_dtype(maxval=max(len(columns), width))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(narrow)
    return sp.csr_array((values, columns, starts), shape=(len(counts), width))


def _draw_features(spec: SyntheticSpec, community: Ints, seeds: Seeds) -> sp.csr_array:
    """``(n, d)`` binary bag of words, drawn for one slice of nodes after the other."""
    vocabulary = _Vocabulary.draw(spec, seeds.stream("vocabulary"))
    stream = seeds.stream("words")
    counts: list[Longs] = []
    words: list[Ints] = []
    for part in np.split(community, range(_NODES_AT_ONCE, spec.nodes, _NODES_AT_ONCE)):
        rows, columns = _draw_words(spec, vocabulary, part, stream)
        counts.append(np.bincount(rows, minlength=len(part)))
        words.append(columns)
    indices = np.concatenate(words)
    ones = np.ones(len(indices), np.float32)
    return _sparse(ones, indices, np.concatenate(counts), spec.feature_count)


@dataclass(frozen=True)
class _Vocabulary:
    """Which words are common, and which belong to a class's topic and a community's dialect.

    Attributes:
        by_frequency: ``(d,)`` all words, the most common first.
        topics: ``(C, topic_words)`` the words of each class.
        dialects: ``(communities, dialect_words)`` the part of the topic each community prefers.
    """

    by_frequency: Ints
    topics: Ints
    dialects: Ints

    @classmethod
    def draw(cls, spec: SyntheticSpec, stream: np.random.Generator) -> "_Vocabulary":
        def rows(count: int, words: int, size: int) -> Longs:
            return np.stack([stream.permutation(words)[:size] for _ in range(count)])

        topics = rows(spec.classes, spec.feature_count, spec.topic_words).astype(np.int32)
        class_of = np.arange(spec.communities)[:, None] // spec.communities_per_class
        preferred = rows(spec.communities, spec.topic_words, spec.dialect_words)
        return cls(
            by_frequency=stream.permutation(spec.feature_count).astype(np.int32),
            topics=topics,
            dialects=topics[class_of, preferred],
        )


def _draw_words(
    spec: SyntheticSpec, vocabulary: _Vocabulary, community: Ints, stream: np.random.Generator
) -> tuple[Longs, Ints]:
    """Row and word of every entry of one slice of the bag of words, sorted and without repeats."""
    lengths = np.maximum(1, stream.poisson(spec.words_per_node, len(community)))
    rows = np.repeat(np.arange(len(community)), lengths)
    speaker = community[rows]
    source, rank = stream.random((2, len(rows)))
    # u² makes the density fall with 1/√rank: a few background words are everywhere, as in text.
    word = vocabulary.by_frequency[(rank * rank * spec.feature_count).astype(np.int64)]
    on_topic = source < spec.topic_share
    in_dialect = source < spec.topic_share * spec.dialect_share
    plain = on_topic & ~in_dialect
    word[plain] = _pick(
        vocabulary.topics, speaker[plain] // spec.communities_per_class, rank[plain]
    )
    word[in_dialect] = _pick(vocabulary.dialects, speaker[in_dialect], rank[in_dialect])
    entries = _union(rows * spec.feature_count + word)
    row, column = np.divmod(entries, spec.feature_count)
    return row, column.astype(np.int32)


def _pick(table: Ints, row: Ints, uniform: Floats) -> Ints:
    """From each given row of ``table`` the entry at ``uniform`` ∈ [0, 1) of its width."""
    column = (uniform * table.shape[1]).astype(np.int64)
    return np.asarray(table[row, column])


def _require(holds: bool, expectation: str, got: object) -> None:
    if not holds:
        raise InputError(f"{expectation} (got {got})")

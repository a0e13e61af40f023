"""The classifier F: worked numbers, and the paper's concatenated form as the reference."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.stats import binom

from agreement import absolute, agreeing, assert_agree, forward_terms
from feddep.graph.graph import Graph
from feddep.graph.sampling import Block, NeighbourSampler, whole_graph
from feddep.models import sage
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import Convolution, FusedSage, ModelSpec, drop, initialise
from feddep.seeding import Seeds

FORMS = ("closed", "separate")


def tensor(array):
    return torch.tensor(array, dtype=torch.float32)


def fill(module, **arrays):
    with torch.no_grad():
        for name, array in arrays.items():
            module.get_parameter(name).copy_(tensor(array))
    return module


def kite(sparse=True):
    """A triangle 0-1-2 with a tail 2-3, and a lonely node 4."""
    features = np.random.default_rng(0).integers(0, 3, (5, 6)).astype(np.float32)
    edges = [(0, 1), (1, 2), (0, 2), (2, 3)]
    return Graph.from_edges(edges, csr_array(features) if sparse else features, [0, 1, 2, 0, 1])


def model(form, embedding=0, layers=2, seed=0):
    found = FusedSage(ModelSpec(form=form, hidden=4, layers=layers), 6, 3, embedding)
    initialise(found, Seeds(seed))
    with torch.no_grad():  # biases start at zero, where a forgotten one would go unnoticed
        for parameter in found.parameters():
            if parameter.ndim == 1:
                parameter += torch.arange(1.0, len(parameter) + 1)
    return found


def table_of(graph):
    return FeatureTable(graph.features, torch.device("cpu"))


DEGREE = 3
"""The most neighbours that a node of the kite has."""


def rounding(found, missing_embeddings=None):
    """In what the scores of the whole kite may differ: by its layers on absolute values."""
    graph, sizes = kite(), None if missing_embeddings is None else missing_embeddings.abs()
    scale = absolute(found).score_all(table_of(graph), graph, sizes)
    return {"terms": forward_terms(found, DEGREE), "scale": scale}


class TestConvolution:
    """Sources 0, 1, 2 with one number each; target 0 hears 1 and 2, target 1 hears nobody."""

    BLOCK = Block(np.array([0, 2, 2]), np.array([1, 2], np.int32), 2)
    X = ((1,), (2,), (6,))

    def test_separate_form(self):
        layer = fill(Convolution(1, 1, "separate", 0), own=[[10]], neighbours=[[100]], bias=[0.5])
        # 10·1 + 100·(2+6)/2 + ½;  10·2 + 100·0 + ½
        assert layer(tensor(self.X), self.BLOCK, None).tolist() == [[410.5], [20.5]]

    def test_closed_form(self):
        layer = fill(Convolution(1, 1, "closed", 0), neighbours=[[100]], bias=[0.5])
        # 100·(1+2+6)/3 + ½;  100·2 + ½
        assert layer(tensor(self.X), self.BLOCK, None).tolist() == [[300.5], [200.5]]

    def test_embeddings_have_weights_of_their_own(self):
        layer = fill(Convolution(1, 1, "closed", 2), neighbours=[[100]], bias=[0.5])
        fill(layer, embedding=[[1], [1000]])
        out = layer(tensor(self.X), self.BLOCK, tensor([[3, 4], [5, 6]]))
        assert out.tolist() == [[300.5 + 4003], [200.5 + 6005]]

    @pytest.mark.parametrize("form", FORMS)
    def test_no_embeddings_are_zero_embeddings(self, form):
        layer = Convolution(1, 3, form, 2)
        initialise(layer, Seeds(0))
        x = tensor(self.X)
        assert torch.equal(layer(x, self.BLOCK, None), layer(x, self.BLOCK, torch.zeros(2, 2)))

    def test_only_the_separate_form_has_weights_for_the_node_itself(self):
        names = {form: dict(Convolution(2, 3, form, 0).named_parameters()) for form in FORMS}
        assert set(names["separate"]) == {"neighbours", "own", "bias"}
        assert set(names["closed"]) == {"neighbours", "bias"}


def paper_form(model, features, ego, missing_embeddings=None):
    """F as the paper writes it, node by node: σ(W [what was aggregated ‖ z̄_v])."""
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    rows = len(ego.nodes)
    z = np.zeros((rows, 0)) if missing_embeddings is None else np.asarray(missing_embeddings, float)

    def layer(prefix, parts, inputs):
        names = [prefix + part for part in parts if prefix + part in weights]
        return inputs @ np.concatenate([weights[name] for name in names]) + weights[prefix + "bias"]

    x = np.stack(
        [
            layer("", ["features", "embedding"], np.concatenate([features[node], z[i]]))
            for i, node in enumerate(ego.nodes)
        ]
    )
    for k, block in enumerate(ego.blocks):
        x = np.maximum(x, 0)
        out = []
        for v in range(block.targets):
            heard = [x[u] for u in block.indices[block.indptr[v] : block.indptr[v + 1]]]
            if model.spec.form == "closed":
                parts, inputs = ["neighbours", "embedding"], [np.mean([x[v], *heard], axis=0)]
            else:
                parts = ["own", "neighbours", "embedding"]
                inputs = [x[v], np.mean(heard, axis=0) if heard else np.zeros_like(x[v])]
            out.append(layer(f"convolutions.{k}.", parts, np.concatenate([*inputs, z[v]])))
        x = np.stack(out)
    return x


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [0, 2])
@pytest.mark.parametrize("sampled", [False, True])
class TestStatement31:
    """W [x ‖ z̄] = W_x x + W_z z̄ at every layer, on whole lists and on sampled ones."""

    def setting(self, sampled, width):
        graph = kite()
        ego = whole_graph(graph, 2)
        if sampled:
            sampler = NeighbourSampler(graph, 2, 2)
            ego = sampler.sample(np.array([3, 4, 0]), np.random.default_rng(1))
        missing_embeddings = np.random.default_rng(2).standard_normal((len(ego.nodes), width))
        return graph, ego, tensor(missing_embeddings) if width else None

    def test_split_weights_equal_the_paper_s_concatenation(self, form, width, sampled):
        graph, ego, missing_embeddings = self.setting(sampled, width)
        found = model(form, width)
        expected = paper_form(found, graph.features.toarray(), ego, missing_embeddings)
        scores = found(table_of(graph), ego, missing_embeddings)
        assert scores.shape == (ego.blocks[-1].targets, 3)
        sizes = None if missing_embeddings is None else missing_embeddings.abs()
        scale = absolute(found)(table_of(graph), ego, sizes)
        assert_agree(scores, expected, terms=forward_terms(found, DEGREE), scale=scale)

    def test_every_parameter_gets_a_gradient(self, form, width, sampled):
        graph, ego, missing_embeddings = self.setting(sampled, width)
        found = model(form, width)
        found(table_of(graph), ego, missing_embeddings).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in found.parameters())


class TestFusedSage:
    def test_worked_numbers(self):
        """One feature, one hidden unit, one convolution, on the path 0-1-2."""
        graph = Graph.from_edges([(0, 1), (1, 2)], [[1.0], [2.0], [-8.0]], [0, 0, 0], classes=1)
        found = FusedSage(ModelSpec(layers=1, hidden=1), 1, 1)
        fill(found, features=[[2]], bias=[1])
        fill(found.convolutions[0], own=[[1]], neighbours=[[10]], bias=[-1])
        # ReLU(2x + 1) = 3, 5, 0; then own + 10·mean - 1.
        scores = found(table_of(graph), whole_graph(graph, 1))
        assert scores.ravel().tolist() == [3 + 10 * 5 - 1, 5 + 10 * 1.5 - 1, 0 + 10 * 5 - 1]

    def test_scores_are_not_activated(self):
        graph, found = kite(), model("separate")
        fill(found.convolutions[1], bias=[-1000, -1000, -1000])
        assert (found(table_of(graph), whole_graph(graph, 2)) < 0).all()

    @pytest.mark.parametrize("form", FORMS)
    def test_dense_and_sparse_features_give_the_same_scores(self, form):
        found = model(form)
        scores = [found(table_of(g), whole_graph(g, 2)) for g in (kite(True), kite(False))]
        assert_agree(*scores, **rounding(found))

    @pytest.mark.parametrize("form", FORMS)
    def test_zero_embeddings_are_the_paper_s_inference(self, form):
        graph = kite()
        found, ego = model(form, embedding=2), whole_graph(graph, 2)
        zeros = torch.zeros(5, 2)
        assert torch.equal(found(table_of(graph), ego), found(table_of(graph), ego, zeros))

    def test_an_isolated_node_is_classified_from_itself_alone(self):
        graph, found = kite(), model("separate")
        before, rounded = found(table_of(graph), whole_graph(graph, 2)), rounding(found)
        with torch.no_grad():
            found.convolutions[0].neighbours.zero_()
            found.convolutions[1].neighbours.zero_()
        after = found(table_of(graph), whole_graph(graph, 2))
        assert torch.equal(before[4], after[4])
        assert not agreeing(before, after, **rounded)[:4].any()

    @pytest.mark.parametrize("rows", [1, 2, 5, 4096])
    @pytest.mark.parametrize("layers", [1, 2, 3])
    @pytest.mark.parametrize("form", FORMS)
    def test_scores_in_slices_are_the_scores_of_the_whole(self, monkeypatch, form, layers, rows):
        monkeypatch.setattr(sage, "_NODES_AT_ONCE", rows)
        monkeypatch.setattr(sage, "_SLICE", rows)
        graph, found = kite(), model(form, embedding=2, layers=layers)
        for missing_embeddings in (None, torch.linspace(-1, 1, 2 * graph.nodes).view(-1, 2)):
            whole = found(table_of(graph), whole_graph(graph, layers), missing_embeddings)
            sliced = found.score_all(table_of(graph), graph, missing_embeddings)
            assert_agree(sliced, whole, **rounding(found, missing_embeddings))

    def test_a_wrong_number_of_blocks_is_refused(self):
        graph = kite()
        with pytest.raises(ValueError):
            model("separate")(table_of(graph), whole_graph(graph, 3))

    def test_dropout_acts_only_with_a_stream(self):
        graph, found = kite(), model("separate")
        ego, table = whole_graph(graph, 2), table_of(graph)
        plain = found(table, ego)
        assert torch.equal(plain, found(table, ego))
        dropped = [found(table, ego, dropout=DropoutStream(0.5, s)) for s in (1, 1, 2)]
        assert torch.equal(dropped[0], dropped[1])
        assert not torch.equal(dropped[0], dropped[2])
        assert not torch.equal(dropped[0], plain)


class TestLastOnly:
    """F that takes embeddings in its last convolution and nowhere before."""

    def fused(self, form, layers=2):
        found = FusedSage(
            ModelSpec(form=form, hidden=4, layers=layers), 6, 3, embedding=2, last_only=True
        )
        initialise(found, Seeds(0))
        return found

    @pytest.mark.parametrize("layers", [1, 2, 3])
    @pytest.mark.parametrize("form", FORMS)
    def test_the_last_layer_has_weights_for_embeddings_and_no_other(self, form, layers):
        shapes = {
            name: tuple(p.shape)
            for name, p in self.fused(form, layers).named_parameters()
            if "embedding" in name
        }
        assert shapes == {f"convolutions.{layers - 1}.embedding": (2, 3)}

    @pytest.mark.parametrize("form", FORMS)
    def test_a_node_s_embedding_is_added_to_its_own_scores_and_reaches_nobody_else(self, form):
        graph, found = kite(), self.fused(form)
        missing_embeddings = torch.zeros(5, 2)
        missing_embeddings[2] = tensor([3, -1])
        plain = found.score_all(table_of(graph), graph)
        scores = found.score_all(table_of(graph), graph, missing_embeddings)
        part = tensor([3, -1]) @ found.convolutions[1].embedding
        others = [0, 1, 3, 4]
        assert torch.equal(scores[others], plain[others])
        rounded = rounding(found, missing_embeddings)
        assert_agree(scores[2], plain[2] + part, terms=rounded["terms"], scale=rounded["scale"][2])
        assert_agree(
            scores, found(table_of(graph), whole_graph(graph, 2), missing_embeddings), **rounded
        )

    @pytest.mark.parametrize("form", FORMS)
    def test_it_shares_its_other_initial_weights_with_plain_graph_sage(self, form):
        plain = FusedSage(ModelSpec(form=form, hidden=4), 6, 3)
        initialise(plain, Seeds(0))
        fused = dict(self.fused(form).named_parameters())
        assert all(torch.equal(fused[name], p) for name, p in plain.named_parameters())


class TestHiddenStates:
    """What the last convolution takes, against the layers before it one by one."""

    NODES = np.array([3, 0, 4])

    def by_hand(self, found, graph):
        block = Block(graph.indptr, graph.indices, graph.nodes)
        x = (tensor(graph.features.toarray()) @ found.features + found.bias).relu()
        for convolution in list(found.convolutions)[:-1]:
            x = convolution(x, block, None).relu()
        return x

    @pytest.mark.parametrize("layers", [1, 2, 3])
    @pytest.mark.parametrize("form", FORMS)
    def test_they_are_those_of_the_layers_one_after_the_other(self, form, layers):
        graph, found = kite(), model(form, layers=layers)
        hidden = found.hidden_states(table_of(graph), graph, self.NODES)
        assert hidden.shape == (3, 4)
        assert_agree(
            hidden,
            self.by_hand(found, graph)[self.NODES],
            terms=forward_terms(found, DEGREE),
            scale=self.by_hand(absolute(found), graph)[self.NODES],
        )

    @pytest.mark.parametrize("form", FORMS)
    def test_the_last_convolution_makes_scores_of_them(self, form):
        graph, found = kite(), model(form)
        hidden = found.hidden_states(table_of(graph), graph, np.arange(5))
        whole = Block(graph.indptr, graph.indices, graph.nodes)
        scores = found.convolutions[-1](hidden, whole, None)
        assert_agree(scores, found.score_all(table_of(graph), graph), **rounding(found))

    def test_of_no_nodes_there_are_none(self):
        graph = kite()
        nobody = np.empty(0, np.int64)
        assert model("separate").hidden_states(table_of(graph), graph, nobody).shape == (0, 4)


class TestDrop:
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
    def test_the_share_dropped_is_the_share_asked_for(self, share):
        n = 200_000
        x = drop(torch.ones(n // 100, 100), DropoutStream(share, 0))
        zeros = int((x == 0).sum())
        low, high = binom.interval(0.9999, n, share)
        assert low <= zeros <= high

    def test_what_stays_is_scaled_up(self):
        x = drop(torch.full((50, 50), 3.0), DropoutStream(0.25, 0))
        assert set(x.unique().tolist()) == {0.0, 4.0}

    def test_units_are_dropped_one_by_one(self):
        x = drop(torch.ones(1000, 50), DropoutStream(0.5, 0)).numpy()
        correlation = np.corrcoef(x.T) - np.eye(50)
        assert np.abs(correlation).max() < 5 / np.sqrt(1000)

    def test_nothing_is_dropped_without_a_stream_or_a_share(self):
        x = torch.ones(3, 3)
        assert drop(x, None) is x
        assert drop(x, DropoutStream(0.0, 0)) is x

    def test_the_gradient_passes_where_the_unit_stayed(self):
        x = torch.ones(10, 10, requires_grad=True)
        out = drop(x, DropoutStream(0.5, 0))
        out.sum().backward()
        assert torch.equal(x.grad, out.detach())


class TestInitialise:
    def test_matrices_fill_their_glorot_interval_and_biases_are_zero(self):
        found = FusedSage(ModelSpec(hidden=128), 200, 50, embedding=30)
        initialise(found, Seeds(0))
        for parameter in found.parameters():
            if parameter.ndim == 1:
                assert (parameter == 0).all()
            else:
                bound = np.sqrt(6 / sum(parameter.shape))
                assert 0.97 * bound < parameter.abs().max() <= bound
                assert abs(parameter.mean()) < 0.05 * bound

    def test_one_stream_fixes_the_weights(self):
        one, same, other = (model("separate", seed=s).features for s in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)

    def test_no_two_matrices_are_alike(self):
        found = FusedSage(ModelSpec(hidden=6), 6, 6)
        initialise(found, Seeds(0))
        matrices = [p for p in found.parameters() if p.ndim == 2]
        assert len({m.flatten()[0].item() for m in matrices}) == len(matrices)

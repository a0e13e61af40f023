"""FedDEP as plain loops: what ``feddep run --method feddep`` does, on one page.

Every silo would be on its own machine; what crosses between them is marked "sent". The gradients
are torch's, where the package has worked some out by hand; a test holds the two to the same
weights up to rounding.
"""

import numpy as np
import torch
from torch.nn.functional import cross_entropy, smooth_l1_loss

import feddep
from feddep.graph.impair import impair
from feddep.graph.sampling import NeighbourSampler
from feddep.learning.prototypes import EmbeddingSpec, LocalGnn, find_prototypes
from feddep.models.dropout import DropoutStream
from feddep.models.generator import DeepGenerator, GeneratorSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.seeding import Seeds

FANOUT, BATCH, RATE = 5, 32, 0.1
MODEL, EMBEDDING, GENERATOR = ModelSpec(), EmbeddingSpec(), GeneratorSpec()


def feddep_by_hand(shards, rounds, seed=0, epochs=GENERATOR.epochs):
    """Returns the averaged classifier's weights after the last round."""
    seeds, whole = Seeds(seed), shards.graph
    silos = [Silo(client, graph, seeds) for client, graph in enumerate(shards)]

    # Step 1: every silo trains a GNN of its own and embeds its nodes, from sampled neighbours.
    for silo in silos:
        silo.embed(whole.feature_count, whole.classes)

    # Step 2: cluster means are sent to the server and from there to everyone else; once.
    prototypes = [silo.find_prototypes() for silo in silos]
    for silo in silos:
        silo.foreign = [torch.tensor(z) for j, z in enumerate(prototypes) if j != silo.client]

    # Step 3: every silo trains its generator; nothing is sent.
    for silo in silos:
        silo.train_generator(whole.feature_count, epochs)

    # Step 4: the classifier is averaged; generators stay where they are.
    model = FusedSage(MODEL, whole.feature_count, whole.classes, EMBEDDING.width)
    initialise(model, seeds.child("classifier"))
    model.zero_embedding_weights()
    weights = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    for number in range(rounds):
        trained = []
        for silo in silos:
            load(model, weights)  # sent
            if number % GENERATOR.refresh == 0:
                silo.mend(model, number)
            silo.train_classifier(model, number)
            trained.append({n: p.detach().numpy().copy() for n, p in model.named_parameters()})
        sizes = [len(silo.training) for silo in silos]
        for name in weights:  # sent
            terms = [
                s * own[name].astype(np.float64) for s, own in zip(sizes, trained, strict=True)
            ]
            weights[name] = (sum(terms) / sum(sizes)).astype(np.float32)
    return weights


class Silo:
    """One owner: its subgraph and everything that never leaves it."""

    def __init__(self, client, graph, seeds):
        self.client, self.graph = client, graph
        self.seeds, self.shared = seeds.child("client", client), seeds
        self.table = FeatureTable(graph.features, torch.device("cpu"))
        self.labels = torch.tensor(graph.labels)
        self.training = graph.members(feddep.Part.TRAIN)

    def embed(self, features, classes):
        """Trains the local GNN and keeps z of every node."""
        gnn = LocalGnn(MODEL, EMBEDDING, features, classes)
        initialise(gnn, self.shared.child("local_gnn"))
        seeds, sampler = self.seeds.child("local_gnn"), self.sampler(EMBEDDING.depth)
        dropout = DropoutStream(MODEL.dropout, seeds.integer("dropout"))
        optimiser = torch.optim.SGD(gnn.parameters(), lr=EMBEDDING.learning_rate)
        sampling = seeds.stream("sampling")
        for ego in sampler.batches(self.training, BATCH, sampling, EMBEDDING.epochs):
            step(optimiser, cross_entropy(gnn(self.table, ego, dropout), self.labels[ego.targets]))
        with torch.no_grad():
            ego = sampler.sample(np.arange(self.graph.nodes), seeds.stream("embedding"))
            self.embeddings = gnn.embed(self.table, ego).numpy()

    def find_prototypes(self):
        """Means of clusters of embeddings; each node's cluster stays here."""
        found = find_prototypes(self.embeddings, EMBEDDING, self.seeds.integer("prototypes"))
        self.cluster, self.own = found.cluster, torch.tensor(found.centres)
        return found.centres

    def train_generator(self, features, epochs):
        """Hides some nodes and learns to generate what the others then miss."""
        nodes = np.arange(self.graph.nodes)
        self.impaired = impair(
            self.graph, nodes, GENERATOR.impaired_share, self.seeds.stream("impair")
        )
        self.impaired_table = FeatureTable(self.impaired.graph.features, torch.device("cpu"))
        self.missing = torch.tensor(self.impaired.missing_degree, dtype=torch.float32)
        self.generator = DeepGenerator(MODEL, GENERATOR, features, EMBEDDING.width)
        initialise(self.generator, self.shared.child("generator"))
        with torch.no_grad():
            self.generator.degree_bias.fill_(self.missing.mean())

        seeds = self.seeds.child("generator")
        noise, sampling = seeds.stream("noise"), seeds.stream("sampling")
        sampler = NeighbourSampler(self.impaired.graph, FANOUT, MODEL.layers)
        remaining = np.arange(self.impaired.graph.nodes)
        optimiser = torch.optim.SGD(self.generator.parameters(), lr=GENERATOR.learning_rate)
        for ego in sampler.batches(remaining, GENERATOR.batch_size, sampling, epochs):
            step(optimiser, self.reconstruction_loss(ego, noise))

    def reconstruction_loss(self, ego, noise):
        """Lⁿ, node by node and row by row, with distances scaled."""
        generated = self.generator(self.impaired_table, ego, noise)
        loss = smooth_l1_loss(generated.degree, self.missing[ego.targets], reduction="sum")
        for i, node in enumerate(ego.targets):
            start, end = self.impaired.start[node], self.impaired.start[node + 1]
            hidden = np.unique(self.cluster[self.impaired.hidden[start:end]])
            for row in generated.rows[(generated.nodes == i) & (generated.kept > 0)]:
                if len(hidden):
                    loss = loss + nearest(row, self.own[hidden])
                for prototypes in self.foreign:
                    loss = loss + nearest(row, prototypes) / len(self.foreign)
        return loss / len(ego.targets)

    def mend(self, classifier, number):
        """Joint steps of the generator on Lⁿ + Lᶜ, then new neighbours for every node."""
        seeds = self.seeds.child("mending", number)
        noise, sampling = (seeds.child("joint").stream(name) for name in ("noise", "sampling"))
        optimiser = torch.optim.SGD(self.generator.parameters(), lr=GENERATOR.learning_rate)
        impaired = NeighbourSampler(self.impaired.graph, FANOUT, MODEL.layers)
        sampler = self.sampler(MODEL.layers)
        for _ in range(GENERATOR.joint_batches):
            remaining = sampling.permutation(self.impaired.graph.nodes)[:BATCH]
            loss = self.reconstruction_loss(impaired.sample(remaining, sampling), noise)
            batch = sampler.sample(sampling.permutation(self.training)[:BATCH], sampling)
            around = sampler.sample(batch.nodes, sampling)
            embeddings = centred(self.generator(self.table, around, noise).mean())
            scores = classifier(self.table, batch, embeddings)
            step(optimiser, loss + cross_entropy(scores, self.labels[batch.targets]))

        noise, sampling = seeds.stream("noise"), seeds.stream("sampling")
        with torch.no_grad():
            ego = sampler.sample(np.arange(self.graph.nodes), sampling)
            self.mended = centred(self.generator(self.table, ego, noise).mean())

    def train_classifier(self, model, number):
        """One epoch of the classifier on the mended subgraph."""
        seeds = self.seeds.child("averaging", number)
        dropout = DropoutStream(MODEL.dropout, seeds.integer("dropout"))
        optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
        batches = self.sampler(MODEL.layers).batches(self.training, BATCH, seeds.stream("sampling"))
        drawn = self.seeds.child("mending", number).stream("shown").random(self.graph.nodes)
        shown = self.mended * torch.from_numpy(drawn < GENERATOR.shown).unsqueeze(1)
        for ego in batches:
            scores = model(self.table, ego, shown[torch.from_numpy(ego.nodes)], dropout)
            step(optimiser, cross_entropy(scores, self.labels[ego.targets]))

    def sampler(self, layers):
        """Draws neighbours in the silo's own graph."""
        return NeighbourSampler(self.graph, FANOUT, layers)


def centred(missing):
    """Minus the mean over the nodes that have generated neighbours; 0 where there are none."""
    some = missing.any(dim=1, keepdim=True)
    return torch.where(some, missing - missing.sum(dim=0) / max(1, int(some.sum())), 0.0)


def nearest(row, points):
    """The squared distance to the nearest of some points, over √d_z."""
    return ((row - points) ** 2).sum(dim=1).min() / len(row) ** 0.5


def step(optimiser, loss):
    """One step of SGD."""
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def load(model, weights):
    """Copies arrays into the model's parameters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    shards = feddep.partition(feddep.load("synthetic", nodes=300), clients=3)
    print("weights by hand:", {n: a.shape for n, a in feddep_by_hand(shards, rounds=3).items()})
    result = feddep.run("feddep", shards, rounds=3, settings={"preset": "paper"})
    print("test accuracy of the package:", result.accuracy)

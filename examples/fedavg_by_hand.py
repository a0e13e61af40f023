"""FedAvg over subgraphs as plain loops: what ``feddep run --method fedavg`` does, on one page.

The gradient is torch's, where the package has worked it out by hand; a test holds the two to the
same weights up to rounding.
"""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import feddep
from feddep.graph.sampling import NeighbourSampler
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.seeding import Seeds


def fedavg(shards, rounds, seed=0, learning_rate=0.1, batch_size=32, fanout=5):
    """Returns the averaged classifier's weights after the last round."""
    seeds = Seeds(seed)
    whole = shards.graph
    model = FusedSage(ModelSpec(), whole.feature_count, whole.classes)
    initialise(model, seeds.child("classifier"))
    weights = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}

    for number in range(rounds):
        trained, sizes = [], []
        for client, graph in enumerate(shards):  # each would be on its own machine
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(torch.from_numpy(weights[name]))

            nodes = graph.members(feddep.Part.TRAIN)
            labels = torch.tensor(graph.labels)
            features = FeatureTable(graph.features, torch.device("cpu"))
            sampler = NeighbourSampler(graph, fanout, layers=2)
            optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate)
            mine = seeds.child("client", client, "averaging", number)
            sampling = mine.stream("sampling")
            dropout = DropoutStream(ModelSpec().dropout, mine.integer("dropout"))

            order = sampling.permutation(nodes)
            for start in range(0, len(order), batch_size):
                batch = order[start : start + batch_size]
                ego_graphs = sampler.sample(batch, sampling)
                scores = model(features, ego_graphs, dropout=dropout)
                loss = cross_entropy(scores, labels[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

            trained.append({n: p.detach().numpy().copy() for n, p in model.named_parameters()})
            sizes.append(len(nodes))

        total = float(sum(sizes))
        for name in weights:
            mean = np.zeros(weights[name].shape)
            for own, size in zip(trained, sizes, strict=True):
                mean += size * own[name].astype(np.float64)
            weights[name] = (mean / total).astype(np.float32)
    return weights


if __name__ == "__main__":
    torch.set_num_threads(1)
    shards = feddep.partition(feddep.load("synthetic", nodes=600), clients=3)
    by_hand = fedavg(shards, rounds=3)
    result = feddep.run("fedavg", shards, rounds=3)
    print("test accuracy of the package:", result.accuracy)
    print("weights by hand:", {name: array.shape for name, array in by_hand.items()})

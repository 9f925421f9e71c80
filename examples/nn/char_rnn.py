"""A GRU that learns to write the sentences of a small grammar, character by character. The entropy of the grammar is known, and
with it the best possible loss. Runs in one process or under `pleiad launch -n 2`."""

import argparse

import numpy

import pleiad
from pleiad import nn

# For each state: (words, probability, next state).
GRAMMAR = {
    "sentence": [("the ", 0.6, "subject"), ("one ", 0.4, "subject")],
    "subject": [("old ", 0.2, "subject"), ("red ", 0.1, "subject"), ("cat ", 0.25, "verb"), ("dog ", 0.25, "verb"), ("fisherman ", 0.2, "verb")],
    "verb": [("sleeps", 0.3, "end"), ("sees ", 0.4, "object"), ("hears ", 0.3, "object")],
    "object": [("a bird", 0.5, "end"), ("the sea", 0.3, "end"), ("nothing", 0.2, "end")],
    "end": [(". ", 0.8, "sentence"), (", and ", 0.2, "sentence")],
}  # fmt: skip


def write(length, rng):
    """Returns a random text of at least `length` characters."""
    parts, state, size = [], "sentence", 0
    while size < length:
        words, chances, following = zip(*GRAMMAR[state])
        pick = rng.choice(len(words), p=chances)
        parts.append(words[pick])
        size += len(words[pick])
        state = following[pick]
    return "".join(parts)


def entropy():
    """Returns the entropy per character in nats: that of the choices, divided by the mean length of the chosen words."""
    names = list(GRAMMAR)
    visits = numpy.full(len(names), 1 / len(names))
    for _ in range(2000):
        after = numpy.zeros(len(names))
        for name, share in zip(names, visits):
            for _, chance, following in GRAMMAR[name]:
                after[names.index(following)] += share * chance
        visits = (visits + after) / 2  # averages over two steps, because the chain is periodic
    choices = [-sum(p * numpy.log(p) for _, p, _ in GRAMMAR[name]) for name in names]
    lengths = [sum(p * len(words) for words, p, _ in GRAMMAR[name]) for name in names]
    return (visits @ choices) / (visits @ lengths)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--characters", type=int, default=120_000)
parser.add_argument("--hidden", type=int, default=96)
parser.add_argument("--steps", type=int, default=30, help="number of steps through which gradients are propagated")
options = parser.parse_args()

with pleiad.init() as session:
    rng = numpy.random.default_rng(1)
    data = nn.Text(write(options.characters, rng), options.steps)
    test = nn.Text(write(options.characters // 4, rng), options.steps, vocabulary=data.vocabulary)
    words = len(data.vocabulary)
    net = nn.Net("char_rnn")
    piece = nn.CharRNN()(net.input((options.steps + 1,), "x", "int32"))
    h = nn.GRU(options.hidden, carry=True, name="gru")(nn.OneHot(words)(piece))
    nn.SoftmaxLoss(name="loss")(nn.Dense(words, last_axis=True, name="scores")(h), piece[1])
    trainer = nn.Trainer(net, nn.RMSProp(0.003), batch=40)
    best = entropy()
    for epoch in range(options.epochs):
        trainer.fit(data, epochs=1, progress=False)
        loss = trainer.evaluate(test)["loss"]
        if session.rank == 0:
            print(f"epoch {epoch + 1}: {loss:.4f} nats per character, {loss / best:.3f} of the entropy", flush=True)

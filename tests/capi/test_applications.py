"""Multiverso's applications, logistic regression and word embedding, on generated data."""

import math
import random
import re
import struct

import pytest

WORLDS = [1, 2, 4]


def settings(folder, **keys):
    """A configuration file. Its paths are relative to the folder."""
    path = folder / "settings.config"
    path.write_text("# made by a test\n" + "".join(f"{key}={value}\n" for key, value in keys.items()))
    return path


def dense_lines(count, seed, weights=False):
    """Three clusters in ten dimensions."""
    draw = random.Random(seed)
    for _ in range(count):
        label = draw.randrange(3)
        values = [draw.gauss(2.0 if i % 3 == label else 0.0, 1.0) for i in range(10)]
        yield f"{label}{':2.0' if weights else ''} " + " ".join(f"{value:.4f}" for value in values)


def sparse_samples(count, seed):
    """A sample has 12 of 5,000 features. The first 40 features indicate label 1, the next 40 label 0, the others
    nothing.
    """
    draw = random.Random(seed)
    for _ in range(count):
        label = draw.randrange(2)
        keys = {draw.randrange(40) + (0 if label else 40) for _ in range(4)}
        keys |= {draw.randrange(80, 5000) for _ in range(8)}
        yield label, sorted(keys)


def sparse_lines(count, seed):
    for label, keys in sparse_samples(count, seed):
        yield f"{label} " + " ".join(f"{key}:1" for key in keys)


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def accuracy(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return float(re.search(r"accuracy ([\d.]+)", done.stdout)[1])


@pytest.fixture
def regress(mpirun, build_dir, tmp_path):
    """regress(ranks, **keys) trains and tests in tmp_path."""

    def call(ranks, **keys):
        keys = {"output_model_file": tmp_path / "model", "output_file": tmp_path / "out.txt", "use_ps": "true"} | keys
        return mpirun(ranks, build_dir / "bin" / "logistic_regression", settings(tmp_path, **keys), timeout=60)

    return call


@pytest.mark.parametrize("ranks", WORLDS)
def test_softmax_on_dense_samples_is_learnt_and_the_model_is_saved(regress, tmp_path, ranks):
    write(tmp_path / "train", dense_lines(3000, 1))
    write(tmp_path / "test", dense_lines(500, 2))
    keys = {
        "input_size": 10,
        "output_size": 3,
        "objective_type": "softmax",
        "regular_type": "L2",
        "updater_type": "sgd",
        "train_epoch": 3,
        "learning_rate": 0.2,
        "sync_frequency": 2,
        "train_file": tmp_path / "train",
        "test_file": tmp_path / "test",
    }
    done = regress(ranks, **keys)
    assert accuracy(done) > 0.95
    assert re.search(r"epoch 3 of 3: loss 0\.\d+ over 3000 samples", done.stderr), done.stderr
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert len(lines) == 500
    for line in lines:
        assert math.isclose(sum(map(float, line.split())), 1, abs_tol=1e-3)
    # A saved model can be loaded by another number of processes, here without further training.
    again = regress(3 - min(ranks, 2), **keys | {"init_model_file": tmp_path / "model", "train_epoch": 0})
    assert accuracy(again) == accuracy(done)


@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("updater", ["sgd", "ftrl"])
def test_sparse_samples_are_learnt(regress, tmp_path, ranks, updater):
    write(tmp_path / "a", sparse_lines(2000, 3))
    write(tmp_path / "b", sparse_lines(2000, 4))
    write(tmp_path / "test", sparse_lines(400, 5))
    rule = {"objective_type": "ftrl", "updater_type": "ftrl", "alpha": 0.3, "lambda1": 0.2, "lambda2": 0.01}
    if updater == "sgd":
        rule = {"objective_type": "sigmoid", "regular_type": "L1", "regular_coef": 0.0001, "learning_rate": 0.8}
    done = regress(
        ranks,
        input_size=5000,
        output_size=1,
        sparse="true",
        train_epoch=2,
        train_file=f"{tmp_path / 'a'};{tmp_path / 'b'}",
        test_file=tmp_path / "test",
        **rule,
    )
    assert accuracy(done) > 0.95


def test_weights_and_binary_samples_are_read(regress, tmp_path):
    write(tmp_path / "weighted", dense_lines(2000, 1, weights=True))
    write(tmp_path / "test", dense_lines(300, 2, weights=True))
    common = {"train_epoch": 2, "learning_rate": 0.1, "pipeline": "false"}
    weighted = {"input_size": 10, "output_size": 3, "objective_type": "softmax", "reader_type": "weight"}
    done = regress(2, **common, **weighted, train_file=tmp_path / "weighted", test_file=tmp_path / "test")
    assert accuracy(done) > 0.95
    for name, count, seed in (("train.bin", 3000, 3), ("test.bin", 300, 5)):
        with open(tmp_path / name, "wb") as file:
            for label, keys in sparse_samples(count, seed):
                file.write(struct.pack(f"<Qid{len(keys)}Q", len(keys), label, 1.0, *keys))
    binary = {
        "input_size": 5000,
        "output_size": 1,
        "objective_type": "sigmoid",
        "reader_type": "bsparse",
        "sparse": "true",
    }
    done = regress(2, **common, **binary, train_file=tmp_path / "train.bin", test_file=tmp_path / "test.bin")
    assert accuracy(done) > 0.9


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"input_sizes": 3}, ["settings.config:2", 'unknown key "input_sizes"', "input_size"]),
        ({"input_size": "many"}, ["settings.config:2", "input_size: expected a number", '"many"']),
        ({"input_size": 3}, ["output_size is missing"]),
        ({"input_size": 3, "output_size": 1, "objective_type": "softmax"}, ["softmax needs output_size of 2"]),
        ({"input_size": 3, "output_size": 2, "updater_type": "adam"}, ["expected one of default, sgd, ftrl", '"adam"']),
        ({"input_size": 3, "output_size": 2, "train_file": "/nowhere"}, ["/nowhere", "cannot be read"]),
    ],
)
def test_settings_that_are_wrong_are_named_with_their_line(run, build_dir, tmp_path, keys, words):
    done = run(build_dir / "bin" / "logistic_regression", settings(tmp_path, **keys), cwd=tmp_path)
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 1 2", ["bad:3", "expected 3 values; received 2"]),
        ("7 1 2 3", ["bad:3", "expected a label from 0 to 1; received 7"]),
        ("0 1 x 3", ["bad:3", 'received "x"']),
    ],
)
def test_samples_that_are_wrong_are_named_with_their_line(run, build_dir, tmp_path, line, words):
    write(tmp_path / "bad", ["0 1 2 3", "1 1 2 3", line])
    path = settings(
        tmp_path, input_size=3, output_size=2, objective_type="softmax", train_file=tmp_path / "bad", use_ps="true"
    )
    done = run(build_dir / "bin" / "logistic_regression", path, cwd=tmp_path)
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr, done.stderr


def topics(path, sentences, seed):
    """A text about two topics, with 15 words each."""
    draw = random.Random(seed)
    lines = []
    for _ in range(sentences):
        topic = draw.choice("ab")
        lines.append(" ".join(f"{topic}{draw.randrange(15)}" for _ in range(12)) + " the")
    return write(path, lines)


def vectors(path):
    lines = path.read_text().splitlines()
    count, size = map(int, lines[0].split())
    found = {}
    for line in lines[1:]:
        word, *numbers = line.split()
        found[word] = [float(number) for number in numbers]
        assert len(found[word]) == size
    assert len(found) == count
    return found


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def within_and_across(found):
    """Returns the mean cosine of two words of the same topic, and of two words of different topics."""
    near, far = [], []
    words = [word for word in found if word != "the"]
    for i, one in enumerate(words):
        for other in words[:i]:
            (near if one[0] == other[0] else far).append(cosine(found[one], found[other]))
    return sum(near) / len(near), sum(far) / len(far)


@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("way", ["-cbow 0 -negative 5", "-cbow 1 -negative 5", "-cbow 0 -hs 1", "-cbow 1 -hs 1"])
def test_words_of_one_topic_end_closer_than_those_of_two(mpirun, build_dir, tmp_path, ranks, way):
    text = topics(tmp_path / "text", 1500, 6)
    words = ["-train_file", text, "-output", tmp_path / "vectors", "-size", 24, "-window", 4, "-data_block_size", 2000]
    words += ["-epoch", 4, "-alpha", 0.05, *way.split()]
    done = mpirun(ranks, build_dir / "bin" / "word_embedding", *words, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "31 vectors of 24" in done.stdout
    assert re.search(r"100%  \d+ words a worker", done.stderr) or "%  " in done.stderr
    near, far = within_and_across(vectors(tmp_path / "vectors"))
    assert near > far + 0.3, (near, far)


@pytest.mark.parametrize("more", [[], ["-use_adagrad", 1, "-cbow", 1]])
def test_words_are_trained_by_several_threads(mpirun, build_dir, tmp_path, more):
    text = topics(tmp_path / "text", 1500, 6)
    words = ["-train_file", text, "-output", tmp_path / "vectors", "-size", 24, "-window", 4, "-data_block_size", 2000]
    words += ["-epoch", 4, "-alpha", 0.05, "-negative", 5, "-threads", 16, *(more or ["-cbow", 0])]
    done = mpirun(2, build_dir / "bin" / "word_embedding", *words, timeout=60)
    assert done.returncode == 0, done.stderr
    near, far = within_and_across(vectors(tmp_path / "vectors"))
    assert near > far + 0.3, (near, far)


def test_adagrad_stopwords_a_list_of_words_and_binary_vectors(mpirun, build_dir, tmp_path):
    text = topics(tmp_path / "text", 1500, 6)
    write(tmp_path / "stop", ["the"])
    counts = {}
    for word in text.read_text().split():
        counts[word] = counts.get(word, 0) + 1
    write(tmp_path / "list", (f"{word} {count}" for word, count in counts.items()))
    words = ["-train_file", text, "-output", tmp_path / "vectors", "-size", 16, "-stopwords", 1, "-sw_file"]
    words += [tmp_path / "stop", "-read_vocab", tmp_path / "list", "-use_adagrad", 1, "-is_pipeline", 0, "-binary", 1]
    words += ["-epoch", 4, "-alpha", 0.1, "-cbow", 0, "-sample", 0.1, "-data_block_size", 2000]
    done = mpirun(2, build_dir / "bin" / "word_embedding", *words, timeout=60)
    assert done.returncode == 0, done.stderr
    raw = (tmp_path / "vectors").read_bytes()
    head, raw = raw.split(b"\n", 1)
    assert head == b"30 16"
    found = {}
    while raw:
        word, raw = raw.split(b" ", 1)
        found[word.decode()] = struct.unpack("<16f", raw[:64])
        raw = raw[65:]
    near, far = within_and_across(found)
    assert near > far + 0.3, (near, far)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-sizes", "3"], ["unknown option -sizes", "-size"]),
        (["-train_file", "/nowhere"], ["/nowhere: cannot be read"]),
        ([], ["-train_file is missing"]),
        (["-train_file", "x", "-hs", "1", "-negative", "5"], ["choose one"]),
        (["-train_file", "x", "-threads", "0"], ["-threads: expected a number"]),
        (["-train_file", "x", "-size", "many"], ["-size: expected a number", '"many"']),
    ],
)
def test_options_of_the_embedding_that_are_wrong_are_named(run, build_dir, words, expected):
    done = run(build_dir / "bin" / "word_embedding", *words)
    assert done.returncode == 1
    for word in expected:
        assert word in done.stderr, done.stderr

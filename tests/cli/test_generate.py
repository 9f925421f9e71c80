"""`pleiad generate` as users call it."""


def test_a_generated_set_has_cifar10s_files_and_sizes(run, pleiad, tmp_path):
    ended = run(pleiad, "generate", "cifar10", tmp_path / "set", "--train", 50, "--test", 20, "--seed", 3)
    assert ended.returncode == 0, ended.stderr
    assert "50 training images, 20 test images" in ended.stdout
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "set").glob("*.bin")}
    assert sizes == {**{f"data_batch_{i}.bin": 10 * 3073 for i in range(1, 6)}, "test_batch.bin": 20 * 3073}
    assert (tmp_path / "set" / "batches.meta.txt").read_text().split()[:2] == ["disc", "ring"]


def test_mistakes_are_named(run, pleiad, tmp_path):
    ended = run(pleiad, "generate", "cifar11", tmp_path)
    assert ended.returncode == 2 and "cifar10" in ended.stderr
    ended = run(pleiad, "generate", "cifar10", tmp_path, "--trian", 50)
    assert ended.returncode == 2 and 'did you mean "--train"?' in ended.stderr
    ended = run(pleiad, "generate", "cifar10", tmp_path, "--train", 2)
    assert ended.returncode == 1 and "at least 5 pictures" in ended.stderr
    (tmp_path / "file").write_text("")
    ended = run(pleiad, "generate", "cifar10", tmp_path / "file" / "set")
    assert ended.returncode == 1 and str(tmp_path / "file") in ended.stderr

"""The engine's log lines in Python's logging."""

LOGS = """
import logging, numpy, sys
if sys.argv[1] == "configured":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
import pleiad
session = pleiad.init(stats=True)
session.array(10).add(numpy.ones(10, "float32"))
session.shutdown()
"""


def test_log_lines_go_to_the_logger_if_the_program_has_configured_logging(python_job):
    for world in ("alone", 2):
        done = python_job(world, "-c", LOGS, "configured")
        assert done.returncode == 0, done.stdout + done.stderr
        for rank in range(1 if world == "alone" else world):
            assert f"pleiad INFO [rank {rank}/" in done.stdout, done.stdout + done.stderr
        assert "[pleiad " not in done.stderr
    done = python_job("alone", "-c", LOGS, "plain")
    assert "[pleiad " in done.stderr and "pleiad INFO" not in done.stdout

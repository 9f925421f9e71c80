"""Runs the tests of the binding: `python -m multiverso.test`, in one process or under a launcher. Its options are those of
`multiverso.tests.test_multiverso`."""

from multiverso.tests.test_multiverso import main

if __name__ == "__main__":
    main()

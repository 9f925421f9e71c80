"""Runs the binding's tests: `python -m multiverso.test`, alone or under a launcher. Options as for
`multiverso.tests.test_multiverso`."""

from multiverso.tests.test_multiverso import main

if __name__ == "__main__":
    main()

"""Tests that a user can run where Multiverso is installed: `mpirun -np 4 python -m multiverso.tests.test_multiverso`."""

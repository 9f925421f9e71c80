"""Lasagne over the tables of Multiverso."""

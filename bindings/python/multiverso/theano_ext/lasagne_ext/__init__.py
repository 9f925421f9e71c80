"""Lasagne over Multiverso's tables."""

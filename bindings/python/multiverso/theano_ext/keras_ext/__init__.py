"""Keras over the tables of Multiverso."""

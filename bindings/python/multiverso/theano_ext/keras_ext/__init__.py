"""Keras over Multiverso's tables."""

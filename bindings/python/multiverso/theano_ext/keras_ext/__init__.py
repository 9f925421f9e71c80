"""Keras over Multiverso's tables. Imported before an old `keras` (1 or 2), it makes it work on Python 3.11."""

from multiverso.theano_ext import compat

compat.prepare_keras()

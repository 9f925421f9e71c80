"""Lasagne over Multiverso's tables. Imported before `lasagne`, it makes Lasagne 0.1 work with Theano 1.0."""

from multiverso.theano_ext import compat

compat.prepare_lasagne()

"""SINGA's Python interface, on Pleiad: `from singa.model import *`."""

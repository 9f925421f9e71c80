"""The Python interface of SINGA, implemented by Pleiad: `from singa.model import *`."""

"""The translations of :mod:`signwise.compiler.translate`, one family per file."""

"""Closed-form operator costs, a function per kind of operator, each with its formula and source.

``N`` samples, ``C`` channels, ``K`` kernel size, ``D`` bytes per element; a multiply-accumulate (MAC) is two FLOP.
"""

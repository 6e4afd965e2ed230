"""Judging strategies: replay many problems against tables in which every point has been measured.

On such a table the best answer to a problem is known, so the answer of a strategy after ten measurements is
compared with it: solved or not, truly within budget or not, and how much slower than the best.

    tables --> cases (a table and its grid of problems) --> truth: the best answer of every problem
                 |--> strategies that ignore budgets measure once, and answer every problem from what they measured
                 '--> the others search for every problem anew, in several processes
"""

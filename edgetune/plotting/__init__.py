"""Figures: style, captions, labels and files, shared by everything that draws."""

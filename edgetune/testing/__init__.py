"""The fake board, public for the tests of edgetune and of its plug-ins."""

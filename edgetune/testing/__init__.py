"""Public fakes and contract test classes, for the tests of edgetune and of its plug-ins."""

"""The nouns: profile, plan, trace and operator table, and how they are read and written."""

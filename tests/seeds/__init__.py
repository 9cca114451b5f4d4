"""The features of the five source documents, each tried as a user would; `rows.py` says how."""

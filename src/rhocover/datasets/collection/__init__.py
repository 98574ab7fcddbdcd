"""Collections: Parquet parts and the manifest that names them; their rows, their spaces, and reading them."""

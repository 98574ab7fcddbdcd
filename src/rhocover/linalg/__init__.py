"""Linear algebra: orders of elimination, sparse Cholesky factors, normal equations, BLAS threads."""

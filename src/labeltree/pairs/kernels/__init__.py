"""The primitives as Triton kernels, for GPUs; imported only when used."""

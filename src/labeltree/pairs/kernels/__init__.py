"""The primitives as Triton kernels, for GPUs; nothing here is imported before it is used."""

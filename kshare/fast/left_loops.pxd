# C types for left_loops.py.


cdef class Loop:
    pass

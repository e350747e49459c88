# The C body of shown_names.py, inlined into compiled callers.

from cpython.object cimport PyTypeObject


cdef inline void show_as(type cls, const char *name) noexcept:
    (<PyTypeObject *> cls).tp_name = name

# The C body of first_step.py, inlined into compiled callers.

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF


cdef extern from *:
    ctypedef enum PySendResult:
        PYGEN_RETURN, PYGEN_ERROR, PYGEN_NEXT
    PySendResult PyIter_Send(object, object, PyObject**) except PYGEN_ERROR


cdef inline object first_step(object coroutine, object ended, list results):
    cdef PyObject* result = NULL
    cdef PySendResult how = PyIter_Send(coroutine, None, &result)
    cdef object yielded = <object> result
    Py_DECREF(yielded)
    if how != PYGEN_RETURN:
        return yielded
    if yielded is not None:
        results.append(yielded)
    return ended

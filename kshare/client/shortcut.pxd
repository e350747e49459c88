# The C body of shortcut.py, inlined into compiled callers.

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from kshare.client.awaiting cimport NextRecord
from kshare.client.record cimport ShareRecord


cdef extern from *:
    """
    static PyObject *kshare_next(PyObject *one) {
        PyObject *result = NULL;
        PySendResult how = Py_TYPE(one)->tp_as_async->am_send(one, Py_None, &result);
        if (how != PYGEN_RETURN) return result;
        PyErr_SetObject(PyExc_StopIteration, result);
        Py_DECREF(result);
        return NULL;
    }
    static void kshare_set_send(PyObject *kind, sendfunc send) {
        ((PyTypeObject *) kind)->tp_as_async->am_send = send;
        ((PyTypeObject *) kind)->tp_iternext = kshare_next;
    }
    """
    ctypedef enum PySendResult:
        PYGEN_RETURN, PYGEN_ERROR, PYGEN_NEXT
    ctypedef PySendResult (*sendfunc)(PyObject*, PyObject*, PyObject**)
    void kshare_set_send(object kind, sendfunc send)
    PySendResult PyIter_Send(object, PyObject*, PyObject**) except PYGEN_ERROR


cdef inline PySendResult send(PyObject* one, PyObject* value, PyObject** result) except PYGEN_ERROR:
    cdef ShareRecord record = (<NextRecord> one).take()
    if record is None:
        return PyIter_Send((<NextRecord> one).waiting(), value, result)
    Py_INCREF(record)
    result[0] = <PyObject*> record
    return PYGEN_RETURN


cdef inline void await_quickly(object kind) noexcept:
    kshare_set_send(kind, <sendfunc> send)

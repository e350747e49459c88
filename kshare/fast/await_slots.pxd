# The C body of await_slots.py, inlined into compiled callers.

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from kshare.fast.awaiting cimport NextRecord


cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030C0000
    static int kshare_has_history(PyObject *stop) {
        PyBaseExceptionObject *one = (PyBaseExceptionObject *) stop;
        return one->traceback || one->context || one->cause || one->notes || one->dict;
    }
    #endif
    static PyObject *kshare_raise(PyObject *stop, PyObject *record) {
    #if PY_VERSION_HEX >= 0x030C0000
        PyObject *raised;
        int is_known = stop != Py_None && stop != Py_False;
        int is_by_hand = stop == Py_False || (is_known && kshare_has_history(stop));
        if (is_known && !is_by_hand && Py_REFCNT(stop) == 1) {
            raised = Py_NewRef(stop);
        } else {
            raised = PyObject_CallNoArgs(PyExc_StopIteration);
            if (raised == NULL) return NULL;
        }
        Py_XSETREF(((PyStopIterationObject *) raised)->value, Py_NewRef(record));
        PyErr_SetRaisedException(Py_NewRef(raised));
        if (is_by_hand) {
            Py_SETREF(raised, Py_NewRef(Py_False));
        }
        return raised;
    #else
        PyErr_SetObject(PyExc_StopIteration, record);
        return Py_NewRef(stop);
    #endif
    }
    static void kshare_put(PyObject *kind, sendfunc send, iternextfunc next) {
        ((PyTypeObject *) kind)->tp_as_async->am_send = send;
        ((PyTypeObject *) kind)->tp_iternext = next;
    }
    """
    ctypedef enum PySendResult:
        PYGEN_RETURN, PYGEN_ERROR, PYGEN_NEXT
    ctypedef PySendResult (*sendfunc)(PyObject*, PyObject*, PyObject**)
    ctypedef PyObject* (*iternextfunc)(PyObject*)
    PySendResult PyIter_Send(object, PyObject*, PyObject**) except PYGEN_ERROR
    # Raises StopIteration, and returns what to pass as `stop` the next time: the exception, which is raised again if
    # nothing else refers to it then. `await` adds nothing to it. A caller of `next` adds a traceback, which keeps
    # frames alive: then False is returned, and from then on every exception is new and isn't kept.
    object kshare_raise(object stop, object record)
    void kshare_put(object kind, sendfunc send, iternextfunc next)


cdef inline PySendResult send(PyObject* one, PyObject* value, PyObject** result) except PYGEN_ERROR:
    cdef object record = (<NextRecord> one).take()
    if record is None:
        return PyIter_Send((<NextRecord> one).waiting(), value, result)
    Py_INCREF(record)
    result[0] = <PyObject*> record
    return PYGEN_RETURN


cdef inline PyObject* step(PyObject* one) except? NULL:
    cdef PyObject* result = NULL
    if send(one, <PyObject*> None, &result) == PYGEN_RETURN:
        stop(<NextRecord> one, <object> result)
        Py_DECREF(<object> result)
        return NULL
    return result


cdef inline void stop(NextRecord one, object record) noexcept:
    cdef object before = one.stop
    one.stop = None
    one.stop = kshare_raise(before, record)


cdef inline void await_quickly(object kind) noexcept:
    kshare_put(kind, <sendfunc> send, <iternextfunc> step)

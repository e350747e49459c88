# The C body of current_task.py, inlined into compiled callers.

cdef extern from *:
    """
    static PyObject *kshare_context(void) {
        PyObject *context = PyThreadState_Get()->context;
        return Py_NewRef(context == NULL ? Py_None : context);
    }
    """
    object kshare_context()


cdef inline object current_task():
    return kshare_context()

# The C body of current_task.py, inlined into compiled callers.
#
# Each step of a task is run in the task's context, and entering or leaving a context changes `context_ver`. While it
# stays the same, the same task runs, so it exists: no reference to it is kept.

cdef extern from *:
    """
    static PyObject *kshare_current_task(void) {
        static PyObject *find = NULL, *task = NULL;
        static uint64_t version, thread;
        PyThreadState *state = PyThreadState_Get();
        if (task != NULL && state->context_ver == version && state->id == thread) {
            return Py_NewRef(task);
        }
        if (find == NULL) {
            PyObject *module = PyImport_ImportModule("kshare.fast.current_task");
            if (module == NULL) {
                return NULL;
            }
            find = PyObject_GetAttrString(module, "current_task");
            Py_DECREF(module);
            if (find == NULL) {
                return NULL;
            }
        }
        task = PyObject_CallNoArgs(find);
        version = state->context_ver;
        thread = state->id;
        return task;
    }
    """
    object kshare_current_task()


cdef inline object current_task():
    return kshare_current_task()

/* The ledger's commit thread: pwritev + fdatasync (+ fsync of the folder) without the interpreter lock.
 *
 * One job at a time. submit() hands it over and returns; when it is durable, or has failed, the eventfd becomes
 * readable and finish() tells the outcome. Twin in Python, with the same face: writer.ThreadWriter.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_PARTS 512 /* buffers a job; below IOV_MAX */
#define NAME "ledger-writer" /* of the thread, as top -H and /proc show it; at most 15 bytes */

#define SLICE_NS 100000 /* the shortest that Linux gives */
#define NICE -10        /* about ten times the weight of others; audio servers ask for as much */

/* What sched_getattr(2) fills and sched_setattr(2) takes; glibc has no declaration before 2.41. */
typedef struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} scheduling;

/* Have the calling thread scheduled soon after each wait: in short slices, and before others where that is allowed.
 * A thread that wakes while others are busy on all processors interrupts one of them only if its own slice is the
 * shorter; else it waits for the timer's tick, 4 ms at 250 Hz, many times what a sync takes. And what needs more than
 * its slice (copying a block, for instance) waits for the slices of the others, unless it is the nicer one's turn.
 * Short slices: Linux 6.12 and later. The nice value: with CAP_SYS_NICE or RLIMIT_NICE, and only where nobody has
 * chosen another. Where either isn't to be had, nothing changes. */
static void request_prompt_wakeups(void)
{
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    scheduling wanted;
    if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0) != 0 || wanted.policy != SCHED_OTHER)
        return;
    wanted.size = sizeof wanted;
    wanted.runtime = SLICE_NS;
    int32_t nice = wanted.nice;
    if (nice == 0)
        wanted.nice = NICE;
    if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0)
        return;
    wanted.nice = nice;
    syscall(SYS_sched_setattr, 0, &wanted, 0);
#endif
}

typedef enum { IDLE, WAITING, DONE } job_state;

typedef struct {
    PyObject_HEAD
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int running, stopping, event_fd;
    job_state state;
    /* the job */
    int fd, names_fd, failed_errno;
    off_t offset;
    int part_count;
    struct iovec parts[MAX_PARTS];
    Py_buffer held[MAX_PARTS];
} Writer;

static int write_all(Writer *w)
{
    struct iovec *part = w->parts;
    int left = w->part_count;
    off_t offset = w->offset;
    while (left > 0) {
        ssize_t n = pwritev(w->fd, part, left, offset);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return errno;
        }
        offset += n;
        while (left > 0 && (size_t)n >= part->iov_len) {
            n -= part->iov_len;
            part++;
            left--;
        }
        if (left > 0) {
            part->iov_base = (char *)part->iov_base + n;
            part->iov_len -= n;
        }
    }
    if (fdatasync(w->fd) != 0)
        return errno; /* never retried: the kernel may have dropped the pages */
    if (w->names_fd >= 0 && fsync(w->names_fd) != 0)
        return errno;
    return 0;
}

static void *run(void *arg)
{
    Writer *w = arg;
    uint64_t one = 1;
    request_prompt_wakeups();
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (w->state != WAITING && !w->stopping)
            pthread_cond_wait(&w->changed, &w->mutex);
        if (w->state != WAITING)
            break;
        pthread_mutex_unlock(&w->mutex);
        int failed = write_all(w);
        pthread_mutex_lock(&w->mutex);
        w->failed_errno = failed;
        __atomic_store_n(&w->state, DONE, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&w->changed);
        if (write(w->event_fd, &one, sizeof one) < 0)
            w->failed_errno = errno;
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void drop_parts(Writer *w)
{
    for (int i = 0; i < w->part_count; i++)
        PyBuffer_Release(&w->held[i]);
    w->part_count = 0;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Writer *w = (Writer *)type->tp_alloc(type, 0);
    if (w == NULL)
        return NULL;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->event_fd < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(w);
        return NULL;
    }
    int failed = pthread_create(&w->thread, NULL, run, w);
    if (failed) {
        errno = failed;
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(w);
        return NULL;
    }
    pthread_setname_np(w->thread, NAME);
    w->running = 1;
    return (PyObject *)w;
}

static void stop(Writer *w)
{
    if (!w->running)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stopping = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    Py_BEGIN_ALLOW_THREADS
    pthread_join(w->thread, NULL);
    Py_END_ALLOW_THREADS
    w->running = 0;
    drop_parts(w);
    close(w->event_fd);
    w->event_fd = -1;
}

static void writer_dealloc(Writer *w)
{
    stop(w);
    if (w->event_fd >= 0)
        close(w->event_fd);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    Py_TYPE(w)->tp_free((PyObject *)w);
}

static PyObject *writer_submit(Writer *w, PyObject *args)
{
    int fd, names_fd;
    long long offset;
    PyObject *parts;
    if (!PyArg_ParseTuple(args, "iLO!i", &fd, &offset, &PyList_Type, &parts, &names_fd))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(parts);
    if (!w->running || w->state != IDLE || count > MAX_PARTS) {
        PyErr_SetString(PyExc_RuntimeError, "the writer is closed, busy, or was given too many parts");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyObject_GetBuffer(PyList_GET_ITEM(parts, i), &w->held[i], PyBUF_SIMPLE) != 0) {
            drop_parts(w);
            return NULL;
        }
        w->parts[i].iov_base = w->held[i].buf;
        w->parts[i].iov_len = w->held[i].len;
        w->part_count = i + 1;
    }
    w->fd = fd;
    w->offset = offset;
    w->names_fd = names_fd;
    pthread_mutex_lock(&w->mutex);
    w->state = WAITING;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    Py_RETURN_NONE;
}

/* finish(wait) -> None while the job runs, else its errno (0: durable) */
static PyObject *writer_finish(Writer *w, PyObject *args)
{
    int wait;
    uint64_t count;
    if (!PyArg_ParseTuple(args, "p", &wait))
        return NULL;
    if (w->state == IDLE) {
        PyErr_SetString(PyExc_RuntimeError, "no job was submitted");
        return NULL;
    }
    job_state state;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&w->mutex);
    while (wait && w->state == WAITING)
        pthread_cond_wait(&w->changed, &w->mutex);
    state = w->state;
    pthread_mutex_unlock(&w->mutex);
    Py_END_ALLOW_THREADS
    if (state == WAITING)
        Py_RETURN_NONE;
    if (read(w->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return PyErr_SetFromErrno(PyExc_OSError);
    w->state = IDLE;
    drop_parts(w);
    return PyLong_FromLong(w->failed_errno);
}

/* over() -> whether finish() would tell an outcome now; without a lock, to be asked often */
static PyObject *writer_over(Writer *w, PyObject *unused)
{
    return PyBool_FromLong(__atomic_load_n(&w->state, __ATOMIC_ACQUIRE) == DONE);
}

static PyObject *writer_close(Writer *w, PyObject *unused)
{
    stop(w);
    Py_RETURN_NONE;
}

static PyObject *writer_fileno(Writer *w, PyObject *unused)
{
    return PyLong_FromLong(w->event_fd);
}

static PyObject *run_soon(PyObject *module, PyObject *unused)
{
    request_prompt_wakeups();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"request_prompt_wakeups", run_soon, METH_NOARGS, "have the calling thread run sooner after each wait"},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef methods[] = {
    {"submit", (PyCFunction)writer_submit, METH_VARARGS,
     "submit(fd, offset, parts: list of buffers, names_fd): write, sync, and sync the folder unless names_fd is -1"},
    {"finish", (PyCFunction)writer_finish, METH_VARARGS, "finish(wait) -> errno, 0 when durable; None while it runs"},
    {"over", (PyCFunction)writer_over, METH_NOARGS, "whether the job in flight has ended"},
    {"close", (PyCFunction)writer_close, METH_NOARGS, "let the job in flight end and stop the thread"},
    {"fileno", (PyCFunction)writer_fileno, METH_NOARGS, "the eventfd"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject writer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "postroom.ledger.storage._writer.Writer",
    .tp_basicsize = sizeof(Writer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Commit thread: one write and sync at a time, signalled by an eventfd.",
    .tp_new = writer_new,
    .tp_dealloc = (destructor)writer_dealloc,
    .tp_methods = methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_writer", "The ledger's commit thread in C.", -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__writer(void)
{
    if (PyType_Ready(&writer_type) < 0)
        return NULL;
    PyObject *m = PyModule_Create(&module);
    if (m == NULL)
        return NULL;
    Py_INCREF(&writer_type);
    if (PyModule_AddObject(m, "Writer", (PyObject *)&writer_type) < 0) {
        Py_DECREF(&writer_type);
        Py_DECREF(m);
        return NULL;
    }
    return m;
}

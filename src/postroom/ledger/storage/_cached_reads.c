/* Bodies that the page cache has, of one file, in one call: where each begins, then all of them read, cut out and
 * checked. It never waits for the disk, and so keeps the interpreter lock. Twin in Python of `read`, with the same
 * face: cached_reads.py.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define START_BYTES 8
#define TRAILER_BYTES 4       /* the CRC behind each body */
#define STRETCH_BYTES 65536   /* of neighbours read by one call: stays in the processor's second cache until cut */
#define ALONE_BYTES 8192      /* what is as large is read to where it stays: copying it takes longer than a call */
#define ROW_BYTES 24          /* of a block table and of a packed file's index: key u64, offset u64, bytes u32, ... */
#define ROW_OFFSET 8
#define ROW_SIZE 16
#define NOWHERE (-1)

typedef struct {
    int64_t start;
    Py_ssize_t size; /* with the trailer */
    Py_ssize_t row;
} piece;

typedef struct {
    int fd;
    Py_ssize_t count;
    piece *pieces;
    int64_t gap, first, end;
    PyObject *crc32, *bodies, *damaged;
} job;

typedef enum { FAILED = -1, WOULD_WAIT, READ } outcome;

static uint64_t number_at(const unsigned char *at, int bytes)
{
    uint64_t number = 0;
    for (int byte = 0; byte < bytes; byte++)
        number |= (uint64_t)at[byte] << (8 * byte);
    return number;
}

/* One field of (serial, offset, length); an error is left for PyErr_Occurred. */
static uint64_t field_of(PyObject *place, Py_ssize_t field)
{
    if (!PyTuple_Check(place) || PyTuple_GET_SIZE(place) != 3) {
        PyErr_SetString(PyExc_TypeError, "a place is a tuple of three numbers");
        return 0;
    }
    return PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(place, field));
}

/* The last of the rows that begin at a key up to this one; -1 if none does. */
static Py_ssize_t row_of(const unsigned char *rows, Py_ssize_t count, uint64_t key)
{
    Py_ssize_t low = 0, high = count;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (number_at(rows + middle * ROW_BYTES, 8) <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* find_starts(wanted, rows, exact) -> for each place where it begins, as an i64; -1 where there is nothing of it */
static PyObject *find_starts(PyObject *module, PyObject *args)
{
    PyObject *wanted;
    Py_buffer table;
    int exact;
    if (!PyArg_ParseTuple(args, "O!y*p", &PyList_Type, &wanted, &table, &exact))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(wanted), rows = table.len / ROW_BYTES, row = NOWHERE;
    const unsigned char *at = NULL;
    uint64_t key = 0, next = 0; /* of the row, and of the one behind it; neighbours mostly share one */
    PyObject *found = PyBytes_FromStringAndSize(NULL, count * START_BYTES);
    char *out = found == NULL ? NULL : PyBytes_AS_STRING(found);
    for (Py_ssize_t i = 0; i < count && found != NULL; i++) {
        PyObject *place = PyList_GET_ITEM(wanted, i);
        uint64_t serial = field_of(place, 0);
        int64_t start = NOWHERE;
        if (row < 0 || serial < key || serial >= next) {
            row = row_of(table.buf, rows, serial);
            if (row >= 0) {
                at = (const unsigned char *)table.buf + row * ROW_BYTES;
                key = number_at(at, 8);
                next = row + 1 < rows ? number_at(at + ROW_BYTES, 8) : UINT64_MAX;
            }
        }
        if (row >= 0 && exact) {
            if (serial == key)
                start = (int64_t)number_at(at + ROW_OFFSET, 8);
        } else if (row >= 0) {
            uint64_t offset = PyErr_Occurred() ? 0 : field_of(place, 1);
            if (offset <= number_at(at + ROW_SIZE, 4))
                start = (int64_t)(number_at(at + ROW_OFFSET, 8) + offset);
        }
        memcpy(out + i * START_BYTES, &start, START_BYTES);
        if (PyErr_Occurred())
            Py_CLEAR(found);
    }
    PyBuffer_Release(&table);
    return found;
}

static int by_start(const void *a, const void *b)
{
    const piece *one = a, *other = b;
    if (one->start != other->start)
        return one->start < other->start ? -1 : 1;
    return (one->size > other->size) - (one->size < other->size);
}

/* What is there of `wanted`, in the order of the file. */
static int collect(job *j, PyObject *wanted, const char *starts)
{
    int sorted = 1;
    for (Py_ssize_t row = 0; row < PyList_GET_SIZE(wanted); row++) {
        piece *p = &j->pieces[j->count];
        memcpy(&p->start, starts + row * START_BYTES, START_BYTES);
        if (p->start < 0)
            continue;
        uint64_t length = field_of(PyList_GET_ITEM(wanted, row), 2);
        if (PyErr_Occurred())
            return 0;
        if (length > PY_SSIZE_T_MAX / 4 || p->start > INT64_MAX / 4) {
            PyErr_SetString(PyExc_ValueError, "a place lies beyond the end of any file");
            return 0;
        }
        p->size = (Py_ssize_t)length + TRAILER_BYTES;
        p->row = row;
        if (j->count > 0 && p->start < p[-1].start)
            sorted = 0;
        j->count++;
    }
    if (!sorted)
        qsort(j->pieces, j->count, sizeof(piece), by_start);
    return 1;
}

/* All of it, or nothing; READ, WOULD_WAIT also where the file ends before, or FAILED. */
static outcome read_all(int fd, struct iovec *parts, int count, int64_t start, Py_ssize_t size)
{
    ssize_t n = preadv2(fd, parts, count, start, RWF_NOWAIT);
    if (n == size)
        return READ;
    if (n >= 0 || errno == EAGAIN || errno == EOPNOTSUPP)
        return WOULD_WAIT;
    PyErr_SetFromErrno(PyExc_OSError);
    return FAILED;
}

/* Keep a body, which becomes the job's, if its CRC is the one that stands behind it. */
static int keep(job *j, const piece *p, PyObject *body, const unsigned char *trailer)
{
    PyObject *sum = PyObject_CallOneArg(j->crc32, body);
    if (sum == NULL) {
        Py_DECREF(body);
        return 0;
    }
    unsigned long crc = PyLong_AsUnsignedLong(sum);
    Py_DECREF(sum);
    if (crc == number_at(trailer, TRAILER_BYTES))
        return PyList_SetItem(j->bodies, p->row, body) == 0;
    Py_DECREF(body);
    PyObject *row = PyLong_FromSsize_t(p->row);
    int noted = row != NULL && PyList_Append(j->damaged, row) == 0;
    Py_XDECREF(row);
    return noted && !PyErr_Occurred();
}

/* One piece, to where it stays. */
static outcome read_alone(job *j, const piece *p)
{
    unsigned char trailer[TRAILER_BYTES];
    Py_ssize_t length = p->size - TRAILER_BYTES;
    PyObject *body = PyBytes_FromStringAndSize(NULL, length);
    if (body == NULL)
        return FAILED;
    struct iovec parts[] = {{PyBytes_AS_STRING(body), (size_t)length}, {trailer, TRAILER_BYTES}};
    outcome done = read_all(j->fd, parts, 2, p->start, p->size);
    if (done != READ) {
        Py_DECREF(body);
        return done;
    }
    return keep(j, p, body, trailer) ? READ : FAILED;
}

/* Neighbours, from one piece to before another, and cut them out. */
static outcome read_stretch(job *j, const piece *p, const piece *stop, int64_t end)
{
    unsigned char data[STRETCH_BYTES];
    int64_t start = p->start;
    struct iovec part = {data, (size_t)(end - start)};
    outcome done = read_all(j->fd, &part, 1, start, (Py_ssize_t)(end - start));
    for (; done == READ && p < stop; p++) {
        const unsigned char *at = data + (p->start - start);
        Py_ssize_t length = p->size - TRAILER_BYTES;
        PyObject *body = PyBytes_FromStringAndSize((const char *)at, length);
        if (body == NULL || !keep(j, p, body, at + length))
            return FAILED;
    }
    return done;
}

static outcome read_pieces(job *j)
{
    const piece *p = j->pieces, *last = p + j->count;
    outcome done = READ;
    while (p < last && done == READ) {
        int64_t start = p->start, end = start + p->size;
        const piece *stop = p + 1;
        while (p->size < ALONE_BYTES && stop < last && stop->size < ALONE_BYTES && stop->start <= end + j->gap) {
            int64_t further = stop->start + stop->size;
            if (further < end)
                further = end;
            if (further - start > STRETCH_BYTES)
                break;
            end = further;
            stop++;
        }
        done = stop == p + 1 ? read_alone(j, p) : read_stretch(j, p, stop, end);
        if (end > j->end)
            j->end = end;
        p = stop;
    }
    return done;
}

static int begin(job *j, Py_ssize_t count)
{
    j->pieces = PyMem_Malloc((count + 1) * sizeof(piece));
    j->bodies = PyList_New(count);
    j->damaged = PyList_New(0);
    PyObject *nothing = PyBytes_FromStringAndSize(NULL, 0);
    if (j->bodies != NULL && nothing != NULL)
        for (Py_ssize_t row = 0; row < count; row++)
            PyList_SET_ITEM(j->bodies, row, Py_NewRef(nothing));
    Py_XDECREF(nothing);
    if (j->pieces == NULL)
        PyErr_NoMemory();
    return j->pieces != NULL && j->bodies != NULL && j->damaged != NULL && nothing != NULL;
}

/* read(fd, wanted, starts, gap_bytes, crc32) -> see cached_reads.py */
static PyObject *read_cached(PyObject *module, PyObject *args)
{
    job j = {0};
    PyObject *wanted, *starts, *result = NULL;
    long long gap;
    if (!PyArg_ParseTuple(args, "iO!SLO", &j.fd, &PyList_Type, &wanted, &starts, &gap, &j.crc32))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(wanted);
    if (PyBytes_GET_SIZE(starts) != count * START_BYTES || gap < 0 || gap > STRETCH_BYTES) {
        PyErr_SetString(PyExc_ValueError, "there are not as many starts as places, or the gap is too large");
        return NULL;
    }
    j.gap = gap;
    if (begin(&j, count) && collect(&j, wanted, PyBytes_AS_STRING(starts))) {
        j.first = j.count > 0 ? j.pieces[0].start : 0;
        outcome done = read_pieces(&j);
        if (done == WOULD_WAIT)
            result = Py_NewRef(Py_None);
        else if (done == READ)
            result = Py_BuildValue("OOLL", j.bodies, j.damaged, (long long)j.first, (long long)j.end);
    }
    PyMem_Free(j.pieces);
    Py_XDECREF(j.bodies);
    Py_XDECREF(j.damaged);
    return result;
}

static PyMethodDef methods[] = {
    {"find_starts", find_starts, METH_VARARGS, "See cached_reads.py."},
    {"read", read_cached, METH_VARARGS, "See cached_reads.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_cached_reads", NULL, -1, methods};

PyMODINIT_FUNC PyInit__cached_reads(void)
{
    return PyModule_Create(&definition);
}

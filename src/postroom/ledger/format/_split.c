/* Records told apart by what they say in some fields of a byte, and other fields of theirs taken out, in one pass
 * over memory that is mostly read for the first time. Twin in Python, with the same face: kinds.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define BLOCK 512 /* records gone over again and again while they are in the processor's first cache */
#define MAX_FIELDS 16
#define WORD_BYTES 8
#define ANY_TYPE (-1)
#define TOO_MANY (-1)

typedef struct {
    Py_ssize_t at, width;
    Py_buffer out; /* for each kind as many values as there are records */
} field;

typedef struct {
    const uint8_t *records;
    Py_ssize_t count, size, at;
    uint64_t mask;
    int only;
    uint8_t *types;
    uint64_t *words;
    int64_t *counts;
    Py_ssize_t most, field_count;
    field fields[MAX_FIELDS];
} job;

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word = 0;
    for (int byte = 0; byte < WORD_BYTES; byte++)
        word |= (uint64_t)at[byte] << (8 * byte);
    return word;
}

/* Values of one field of the chosen records of a block. The width is a constant where this is inlined. */
static inline void take(const uint8_t *block, const uint32_t *chosen, Py_ssize_t count, size_t width, uint8_t *out)
{
    for (Py_ssize_t i = 0; i < count; i++)
        memcpy(out + i * width, block + chosen[i], width);
}

static void take_field(const field *f, const uint8_t *block, const uint32_t *chosen, Py_ssize_t count, Py_ssize_t before)
{
    uint8_t *out = (uint8_t *)f->out.buf + before * f->width;
    block += f->at;
    if (f->width == 8)
        take(block, chosen, count, 8, out);
    else if (f->width == 4)
        take(block, chosen, count, 4, out);
    else if (f->width == 2)
        take(block, chosen, count, 2, out);
    else
        take(block, chosen, count, 1, out);
}

static int is_wanted(uint64_t word, int only)
{
    return only == ANY_TYPE || (int)(word & 0xff) == only;
}

/* How many records of a block say `only` first; what each of them says first. */
static Py_ssize_t count_wanted(const uint64_t *words, Py_ssize_t count, int only, uint8_t *types)
{
    Py_ssize_t wanted = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        types[i] = (uint8_t)words[i];
        wanted += is_wanted(words[i], only);
    }
    return wanted;
}

/* Where in a block the records are that say `word`. */
static Py_ssize_t choose(const uint64_t *words, Py_ssize_t count, uint64_t word, uint32_t size, uint32_t *chosen)
{
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        chosen[found] = (uint32_t)i * size;
        found += words[i] == word;
    }
    return found;
}

/* The first word of a block that none of the kinds has. There is one. */
static uint64_t new_word(const job *j, const uint64_t *words, Py_ssize_t kinds)
{
    for (Py_ssize_t i = 0;; i++) {
        Py_ssize_t kind = 0;
        while (kind < kinds && j->words[kind] != words[i])
            kind++;
        if (kind == kinds && is_wanted(words[i], j->only))
            return words[i];
    }
}

/* What each record from `start` on says first. */
static void tell_types(const job *j, Py_ssize_t start)
{
    if (j->only != ANY_TYPE)
        for (Py_ssize_t i = start; i < j->count; i++)
            j->types[i] = (uint8_t)(word_at(j->records + i * j->size + j->at) & j->mask);
}

/* How many kinds there are; TOO_MANY if they are more than `most`. No step depends on which kind a record is of: the
 * processor could not foresee it. */
static Py_ssize_t split(job *j)
{
    uint64_t words[BLOCK];
    uint32_t chosen[BLOCK + 1];
    Py_ssize_t kinds = 0;
    for (Py_ssize_t start = 0; start < j->count; start += BLOCK) {
        Py_ssize_t here = j->count - start < BLOCK ? j->count - start : BLOCK, left = here;
        const uint8_t *block = j->records + start * j->size;
        for (Py_ssize_t i = 0; i < here; i++)
            words[i] = word_at(block + i * j->size + j->at) & j->mask;
        if (j->only != ANY_TYPE)
            left = count_wanted(words, here, j->only, j->types + start);
        for (Py_ssize_t kind = 0; left > 0; kind++) {
            if (kind == kinds) {
                if (kinds == j->most) {
                    tell_types(j, start + here);
                    return TOO_MANY;
                }
                j->words[kind] = new_word(j, words, kinds);
                j->counts[kind] = 0;
                kinds++;
            }
            Py_ssize_t count = choose(words, here, j->words[kind], (uint32_t)j->size, chosen);
            for (Py_ssize_t f = 0; f < j->field_count; f++)
                take_field(&j->fields[f], block, chosen, count, kind * j->count + j->counts[kind]);
            j->counts[kind] += count;
            left -= count;
        }
    }
    return kinds;
}

static int is_sound(const job *j, const Py_buffer *records, const Py_buffer *types, const Py_buffer *counts)
{
    if (j->size < WORD_BYTES || j->size > UINT32_MAX / BLOCK || records->len % j->size != 0)
        return 0;
    if (j->at < 0 || j->at > j->size - WORD_BYTES || j->only < ANY_TYPE || j->only > 0xff)
        return 0;
    if ((j->only != ANY_TYPE && types->len < j->count) || counts->len / WORD_BYTES < j->most)
        return 0;
    for (Py_ssize_t f = 0; f < j->field_count; f++) {
        const field *each = &j->fields[f];
        if (each->width != 1 && each->width != 2 && each->width != 4 && each->width != 8)
            return 0;
        if (each->at < 0 || each->at > j->size - each->width)
            return 0;
        if (j->most > 0 && each->out.len / each->width / j->most < j->count)
            return 0;
    }
    return 1;
}

static PyObject *py_split(PyObject *module, PyObject *args)
{
    job j = {0};
    Py_buffer records, types, words, counts;
    PyObject *fields, *result = NULL;
    unsigned long long mask;
    if (!PyArg_ParseTuple(args, "y*nnKiw*w*w*O!", &records, &j.size, &j.at, &mask, &j.only, &types, &words, &counts,
                          &PyTuple_Type, &fields))
        return NULL;
    Py_ssize_t wanted = PyTuple_GET_SIZE(fields);
    if (wanted > MAX_FIELDS) {
        PyErr_Format(PyExc_ValueError, "more than %d fields", MAX_FIELDS);
        goto done;
    }
    for (; j.field_count < wanted; j.field_count++) {
        field *f = &j.fields[j.field_count];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(fields, j.field_count), "nnw*", &f->at, &f->width, &f->out))
            goto done;
    }
    j.records = records.buf;
    j.count = j.size > 0 ? records.len / j.size : 0;
    j.mask = mask;
    j.types = types.buf;
    j.words = words.buf;
    j.counts = counts.buf;
    j.most = words.len / WORD_BYTES;
    if (!is_sound(&j, &records, &types, &counts)) {
        PyErr_SetString(PyExc_ValueError, "sizes of records, fields or results don't fit together");
        goto done;
    }
    Py_ssize_t kinds;
    Py_BEGIN_ALLOW_THREADS
    kinds = split(&j);
    Py_END_ALLOW_THREADS
    result = PyLong_FromSsize_t(kinds);
done:
    for (Py_ssize_t f = 0; f < j.field_count; f++)
        PyBuffer_Release(&j.fields[f].out);
    PyBuffer_Release(&records);
    PyBuffer_Release(&types);
    PyBuffer_Release(&words);
    PyBuffer_Release(&counts);
    return result;
}

static PyMethodDef methods[] = {
    {"split", py_split, METH_VARARGS, "See kinds.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_split", NULL, -1, methods};

PyMODINIT_FUNC PyInit__split(void)
{
    return PyModule_Create(&definition);
}

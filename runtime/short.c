/* The short way of a call, in C: `codegen.host.again` says what it is, `runtime.short` builds and loads this file.

   A Short belongs to one kernel (or executable). Called with the arguments of a call, it launches the kernel and returns True if the
   call has the form of an earlier one and nothing that is new in it (addresses, numbers) is wrong; else it has done nothing and
   returns False. It knows no structure of the driver's: configurations come made, by address. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* MOST_BYTES, MOST_PARAMETERS and MOST_ARRAYS of a kernel come from `runtime.short`. */

typedef int (*launch_t)(const void *config, void *function, void **parameters, void **extra);

/* dlpack.h 1.3: how a framework hands out a tensor's address and its current stream without Python calls. */
typedef struct { void *data; struct { int32_t type, id; } device; int32_t ndim; uint32_t dtype; int64_t *shape, *strides; uint64_t byte_offset; } Tensor;
typedef struct {
    struct { uint32_t major, minor; } version;
    void *earlier, *allocate, *from_object, *to_object;
    int (*tensor)(void *object, Tensor *made);
    int (*stream)(int32_t device_type, int32_t device, void **made);
} Exchange;
#define CUDA_DEVICE 2

typedef struct { Py_ssize_t place; uint64_t alignment; int64_t shift; } Array;           /* (address - shift) % alignment == 0 */
typedef struct { Py_ssize_t array, offset; int64_t shift; } Pointer;                      /* a kernel parameter: address - shift */
typedef struct { Py_ssize_t array, offset; } Map;
typedef struct { Py_ssize_t place, offset, fixed; char code; } Scalar;                   /* offset -1: not passed; fixed -1: any value */
typedef struct { Py_ssize_t first, second; } Pair;

typedef struct {
    PyObject_HEAD
    PyObject *same;          /* same(*arrays) -> bool; None: compare `expected` */
    PyObject *expected;      /* for each array (type, (name, value), ...) */
    PyObject *current;       /* current(device) -> handle of the stream */
    PyObject *device, *fixed, *encoders, *kept;
    const Exchange *exchange;      /* NULL: the framework has none */
    unsigned long long stream;
    void *config, *function;
    int ordinal;
    int64_t bytes[MOST_ARRAYS];
    uint64_t mapped[MOST_ARRAYS];      /* for each map, the address that `template` has it for */
    char template[MOST_BYTES];
} Form;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *forms;         /* a list, the one used last at the end */
    Py_ssize_t count, arrays, pointers, maps, scalars, pairs, parameters, size, most;
    Py_ssize_t offset[MOST_PARAMETERS];
    Array array[MOST_ARRAYS];
    Pointer pointer[MOST_PARAMETERS];
    Map map[MOST_ARRAYS];
    Scalar scalar[MOST_PARAMETERS];
    Pair pair[MOST_ARRAYS * MOST_ARRAYS / 2];
    launch_t launch;
} Short;

static PyObject *data_ptr, *data, *ptr, *device_id, *cuda_stream;      /* interned names */

/* ---- forms ------------------------------------------------------------------------------------------------------------------ */

static int form_traverse(Form *self, visitproc visit, void *arg) {
    Py_VISIT(self->same); Py_VISIT(self->expected); Py_VISIT(self->current); Py_VISIT(self->device);
    Py_VISIT(self->fixed); Py_VISIT(self->encoders); Py_VISIT(self->kept);
    return 0;
}

static int form_clear(Form *self) {
    Py_CLEAR(self->same); Py_CLEAR(self->expected); Py_CLEAR(self->current); Py_CLEAR(self->device);
    Py_CLEAR(self->fixed); Py_CLEAR(self->encoders); Py_CLEAR(self->kept);
    return 0;
}

static void form_dealloc(Form *self) {
    PyObject_GC_UnTrack(self);
    form_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject FormType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "kernelwright_short.Form", .tp_basicsize = sizeof(Form), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)form_dealloc, .tp_traverse = (traverseproc)form_traverse, .tp_clear = (inquiry)form_clear,
};

/* ---- one call --------------------------------------------------------------------------------------------------------------- */

/* A number into the parameter buffer. 1: done; 0: not as it is, let the long way look at it. */
static int put_scalar(char *at, char code, PyObject *value) {
    if (code == '?') {
        if (value != Py_True && value != Py_False) return 0;
        *at = value == Py_True;
        return 1;
    }
    if (code == 'e' || code == 'f' || code == 'd') {
        if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value)) return 0;
        double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred()) return 0;
        if (code == 'd') { memcpy(at, &number, 8); return 1; }
        return code == 'f' ? PyFloat_Pack4(number, at, PY_LITTLE_ENDIAN) == 0 : PyFloat_Pack2(number, at, PY_LITTLE_ENDIAN) == 0;
    }
    if (!PyLong_CheckExact(value)) return 0;
    if (code == 'Q') {
        unsigned long long number = PyLong_AsUnsignedLongLong(value);
        if (number == (unsigned long long)-1 && PyErr_Occurred()) return 0;
        memcpy(at, &number, 8);
        return 1;
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || (number == -1 && PyErr_Occurred())) return 0;
    switch (code) {
#define INTEGER(letter, type) case letter: { type held = (type)number; if (held != number) return 0; memcpy(at, &held, sizeof held); return 1; }
        INTEGER('b', int8_t) INTEGER('h', int16_t) INTEGER('i', int32_t) INTEGER('q', int64_t)
        INTEGER('B', uint8_t) INTEGER('H', uint16_t) INTEGER('I', uint32_t)
    }
    return 0;
}

/* The value of an attribute equals `wanted`: 1, 0, or -1 with an error. */
static int attribute_equals(PyObject *object, PyObject *name, PyObject *wanted) {
    PyObject *value = PyObject_GetAttr(object, name);
    if (value == NULL) return -1;
    int equal = PyObject_RichCompareBool(value, wanted, Py_EQ);
    Py_DECREF(value);
    return equal;
}

static int has_form(Short *self, Form *form, PyObject *const *arrays) {
    if (form->same != Py_None) {
        PyObject *told = PyObject_Vectorcall(form->same, arrays, self->arrays, NULL);
        if (told == NULL) return -1;
        Py_DECREF(told);
        return told == Py_True;
    }
    for (Py_ssize_t i = 0; i < self->arrays; ++i) {
        PyObject *expected = PyTuple_GET_ITEM(form->expected, i);
        if ((PyObject *)Py_TYPE(arrays[i]) != PyTuple_GET_ITEM(expected, 0)) return 0;
        for (Py_ssize_t k = 1; k < PyTuple_GET_SIZE(expected); ++k) {
            PyObject *pair = PyTuple_GET_ITEM(expected, k);
            int equal = attribute_equals(arrays[i], PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
            if (equal != 1) return equal;
        }
    }
    return 1;
}

static int read_address(Form *form, PyObject *array, uint64_t *address) {
    PyObject *held = NULL, *number;
    if (form->exchange != NULL) {
        Tensor made;
        if (form->exchange->tensor(array, &made) != 0) return 0;
        *address = (uint64_t)(uintptr_t)made.data + made.byte_offset;
        return made.device.type == CUDA_DEVICE && made.device.id == form->ordinal;
    }
    if (form->same != Py_None) {
        number = PyObject_CallMethodNoArgs(array, data_ptr);
    } else {
        held = PyObject_GetAttr(array, data);
        int there = held == NULL ? -1 : attribute_equals(held, device_id, form->device);
        number = there == 1 ? PyObject_GetAttr(held, ptr) : NULL;
        Py_XDECREF(held);
    }
    if (number == NULL) return 0;
    *address = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return !(*address == (uint64_t)-1 && PyErr_Occurred());
}

/* Whether the form launches on the stream that the call names (NULL: on its framework's current one). */
static int on_stream(Form *form, const unsigned long long *named) {
    if (named != NULL) return *named == form->stream;
    if (form->exchange != NULL) {
        void *made;
        if (form->exchange->stream(CUDA_DEVICE, form->ordinal, &made) != 0) return -1;
        return (unsigned long long)(uintptr_t)made == form->stream;
    }
    PyObject *told = PyObject_CallOneArg(form->current, form->device);
    if (told == NULL) return -1;
    unsigned long long stream = PyLong_AsUnsignedLongLong(told);
    Py_DECREF(told);
    return stream == form->stream && !PyErr_Occurred();
}

/* Whether the scalars that the launch depends on have the form's values. */
static int is_fixed(Short *self, Form *form, PyObject *const *args) {
    for (Py_ssize_t i = 0; i < self->scalars; ++i) {
        Scalar *s = &self->scalar[i];
        if (s->fixed >= 0) {
            int equal = PyObject_RichCompareBool(args[s->place], PyTuple_GET_ITEM(form->fixed, s->fixed), Py_EQ);
            if (equal != 1) return equal;
        }
    }
    return 1;
}

/* The form that these arguments have, with a reference; NULL if none (or with an error). It becomes the one used last. */
static Form *find_form(Short *self, PyObject *const *args, PyObject *const *arrays, const unsigned long long *named) {
    for (Py_ssize_t i = PyList_GET_SIZE(self->forms); i-- > 0;) {
        if (i >= PyList_GET_SIZE(self->forms)) continue;      /* what is called below may run other threads */
        Form *form = (Form *)Py_NewRef(PyList_GET_ITEM(self->forms, i));
        int has = has_form(self, form, arrays);
        if (has == 1) has = is_fixed(self, form, args);
        if (has == 1) has = on_stream(form, named);
        if (has == 1) {
            Py_ssize_t last = PyList_GET_SIZE(self->forms) - 1;
            if (i < last && PyList_GET_ITEM(self->forms, i) == (PyObject *)form) {
                PyObject *other = PyList_GET_ITEM(self->forms, last);
                PyList_SET_ITEM(self->forms, last, (PyObject *)form);
                PyList_SET_ITEM(self->forms, i, other);
            }
            return form;
        }
        Py_DECREF(form);
        if (has < 0) return NULL;
    }
    return NULL;
}

static int in_order(Short *self, Form *form, const uint64_t *address) {
    for (Py_ssize_t i = 0; i < self->arrays; ++i)
        if (address[i] == 0 || (address[i] - self->array[i].shift) % self->array[i].alignment != 0) return 0;
    for (Py_ssize_t i = 0; i < self->pairs; ++i) {
        Py_ssize_t a = self->pair[i].first, b = self->pair[i].second;
        int64_t apart = (int64_t)(address[a] - address[b]);
        if (-form->bytes[a] < apart && apart < form->bytes[b]) return 0;
    }
    return 1;
}

/* Tensor maps are made for one address; those for another come from their encoder, and stay in the template. An encoder may let
   other threads run, which may change the template: it is right only after a pass that calls none. */
static int put_maps(Short *self, Form *form, const uint64_t *address) {
    for (Py_ssize_t i = 0; i < self->maps; ++i) {
        uint64_t wanted = address[self->map[i].array];
        if (form->mapped[i] == wanted) continue;
        PyObject *number = PyLong_FromUnsignedLongLong(wanted);
        PyObject *bytes = number == NULL ? NULL : PyObject_CallOneArg(PyTuple_GET_ITEM(form->encoders, i), number);
        Py_XDECREF(number);
        if (bytes == NULL) return 0;
        memcpy(form->template + self->map[i].offset, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
        form->mapped[i] = wanted;
        Py_DECREF(bytes);
        i = -1;
    }
    return 1;
}

static int run(Short *self, PyObject *const *args, const unsigned long long *named) {
    PyObject *arrays[MOST_ARRAYS];
    uint64_t address[MOST_ARRAYS];
    alignas(64) char memory[MOST_BYTES];
    void *parameters[MOST_PARAMETERS];
    for (Py_ssize_t i = 0; i < self->arrays; ++i) arrays[i] = args[self->array[i].place];
    Form *form = find_form(self, args, arrays, named);
    if (form == NULL) return 0;
    int done = 0;
    for (Py_ssize_t i = 0; i < self->arrays; ++i)
        if (!read_address(form, arrays[i], &address[i])) goto end;
    if (!in_order(self, form, address) || !put_maps(self, form, address)) goto end;
    memcpy(memory, form->template, self->size);      /* no other thread runs from here to the launch, which has memory of its own */
    for (Py_ssize_t i = 0; i < self->scalars; ++i) {
        char unused[8];
        Scalar *s = &self->scalar[i];
        if (!put_scalar(s->offset < 0 ? unused : memory + s->offset, s->code, args[s->place])) goto end;
    }
    for (Py_ssize_t i = 0; i < self->pointers; ++i) {
        uint64_t value = address[self->pointer[i].array] - self->pointer[i].shift;
        memcpy(memory + self->pointer[i].offset, &value, 8);
    }
    for (Py_ssize_t i = 0; i < self->parameters; ++i) parameters[i] = memory + self->offset[i];
    Py_BEGIN_ALLOW_THREADS
    done = self->launch(form->config, form->function, parameters, NULL) == 0;
    Py_END_ALLOW_THREADS
end:
    Py_DECREF(form);
    return done;
}

/* The handle of the stream that a call names by `stream=`, an int or PyTorch's or CuPy's. */
static int read_stream(PyObject *value, unsigned long long *handle) {
    PyObject *number = PyLong_CheckExact(value) ? Py_NewRef(value) : PyObject_GetAttr(value, cuda_stream);
    if (number == NULL) {
        PyErr_Clear();
        number = PyObject_GetAttr(value, ptr);
    }
    if (number == NULL) return 0;
    *handle = PyLong_Check(number) ? PyLong_AsUnsignedLongLong(number) : (unsigned long long)-1;
    Py_DECREF(number);
    return *handle != (unsigned long long)-1;
}

/* The arguments are as many as the kernel takes, and perhaps `stream=`: 1 and `*named` is set to NULL or `handle`; else 0. */
static int is_call(Short *self, PyObject *const *args, Py_ssize_t count, PyObject *names, unsigned long long *handle,
                   const unsigned long long **named) {
    *named = NULL;
    if (count != self->count) return 0;
    if (names == NULL || PyTuple_GET_SIZE(names) == 0) return 1;
    if (PyTuple_GET_SIZE(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "stream") != 0) return 0;
    *named = handle;
    return read_stream(args[count], handle);
}

static PyObject *short_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
    Short *self = (Short *)callable;
    unsigned long long handle;
    const unsigned long long *named;
    int done = is_call(self, args, PyVectorcall_NARGS(flags), names, &handle, &named) && run(self, args, named);
    PyErr_Clear();      /* the long way meets the same problem, and tells it in its words */
    return PyBool_FromLong(done);
}

/* ---- making one ------------------------------------------------------------------------------------------------------------- */

static Py_ssize_t entry(PyObject *row, Py_ssize_t i) { return PyLong_AsSsize_t(PyTuple_GET_ITEM(row, i)); }

#define ROWS(field, count_, limit) \
    self->count_ = PyTuple_GET_SIZE(field); \
    if (self->count_ > (limit)) { PyErr_SetString(PyExc_ValueError, "more parameters than MOST_PARAMETERS or MOST_ARRAYS"); return -1; } \
    for (Py_ssize_t i = 0; i < self->count_; ++i)

static int short_init(Short *self, PyObject *args, PyObject *names) {
    PyObject *arrays, *pointers, *maps, *scalars, *pairs, *offsets;
    unsigned long long launch;
    if (!PyArg_ParseTuple(args, "nO!O!O!O!O!O!nnK", &self->count, &PyTuple_Type, &arrays, &PyTuple_Type, &pointers, &PyTuple_Type, &maps,
                          &PyTuple_Type, &scalars, &PyTuple_Type, &pairs, &PyTuple_Type, &offsets, &self->size, &self->most, &launch)) return -1;
    if (self->size > MOST_BYTES) { PyErr_SetString(PyExc_ValueError, "more bytes of parameters than MOST_BYTES"); return -1; }
    ROWS(arrays, arrays, MOST_ARRAYS) {
        PyObject *row = PyTuple_GET_ITEM(arrays, i);
        self->array[i] = (Array){entry(row, 0), (uint64_t)entry(row, 1), entry(row, 2)};
    }
    ROWS(pointers, pointers, MOST_PARAMETERS) {
        PyObject *row = PyTuple_GET_ITEM(pointers, i);
        self->pointer[i] = (Pointer){entry(row, 0), entry(row, 1), entry(row, 2)};
    }
    ROWS(maps, maps, MOST_ARRAYS) {
        PyObject *row = PyTuple_GET_ITEM(maps, i);
        self->map[i] = (Map){entry(row, 0), entry(row, 1)};
    }
    ROWS(scalars, scalars, MOST_PARAMETERS) {
        PyObject *row = PyTuple_GET_ITEM(scalars, i);
        self->scalar[i] = (Scalar){entry(row, 0), entry(row, 1), entry(row, 2), (char)entry(row, 3)};
    }
    ROWS(pairs, pairs, MOST_ARRAYS * MOST_ARRAYS / 2) {
        PyObject *row = PyTuple_GET_ITEM(pairs, i);
        self->pair[i] = (Pair){entry(row, 0), entry(row, 1)};
    }
    ROWS(offsets, parameters, MOST_PARAMETERS) self->offset[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(offsets, i));
    if (PyErr_Occurred()) return -1;
    self->launch = (launch_t)(uintptr_t)launch;
    self->vectorcall = short_call;
    Py_XSETREF(self->forms, PyList_New(0));
    return self->forms == NULL ? -1 : 0;
}

/* The function table in a capsule, if it is one that is known here and has what is needed. */
static const Exchange *exchange_of(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return NULL;
    const Exchange *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    return found->version.major == 1 && found->tensor != NULL && found->stream != NULL ? found : NULL;
}

/* add(same, expected, exchange, current, device, stream, config, function, template, fixed, bytes, encoders, mapped, kept) */
static PyObject *short_add(Short *self, PyObject *args) {
    PyObject *same, *expected, *exchange, *current, *device, *fixed, *bytes, *encoders, *mapped, *kept;
    unsigned long long stream, config, function;
    const char *template;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "OOOOOKKKy#O!O!O!O!O", &same, &expected, &exchange, &current, &device, &stream, &config, &function, &template, &size,
                          &PyTuple_Type, &fixed, &PyTuple_Type, &bytes, &PyTuple_Type, &encoders, &PyTuple_Type, &mapped, &kept)) return NULL;
    if (size != self->size || PyTuple_GET_SIZE(bytes) != self->arrays || PyTuple_GET_SIZE(encoders) != self->maps ||
        PyTuple_GET_SIZE(mapped) != self->maps) {
        PyErr_SetString(PyExc_ValueError, "the form is another kernel's");
        return NULL;
    }
    Form *form = PyObject_GC_New(Form, &FormType);
    if (form == NULL) return NULL;
    form->same = Py_NewRef(same); form->expected = Py_NewRef(expected); form->current = Py_NewRef(current);
    form->device = Py_NewRef(device); form->fixed = Py_NewRef(fixed); form->encoders = Py_NewRef(encoders); form->kept = Py_NewRef(kept);
    form->exchange = exchange_of(exchange);
    form->ordinal = (int)PyLong_AsLong(device);
    form->stream = stream;
    form->config = (void *)(uintptr_t)config;
    form->function = (void *)(uintptr_t)function;
    memcpy(form->template, template, size);
    for (Py_ssize_t i = 0; i < self->arrays; ++i) form->bytes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(bytes, i));
    for (Py_ssize_t i = 0; i < self->maps; ++i) form->mapped[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(mapped, i));
    PyObject_GC_Track(form);
    int failed = PyErr_Occurred() != NULL || PyList_Append(self->forms, (PyObject *)form) < 0;
    Py_DECREF(form);
    if (failed) return NULL;
    while (PyList_GET_SIZE(self->forms) > self->most)
        if (PyList_SetSlice(self->forms, 0, 1, NULL) < 0) return NULL;
    Py_RETURN_NONE;
}

/* knows(*args, stream=...): whether a form that is kept is that of these arguments. */
static PyObject *short_knows(Short *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    Form *form = NULL;
    PyObject *arrays[MOST_ARRAYS];
    unsigned long long handle;
    const unsigned long long *named;
    if (is_call(self, args, count, names, &handle, &named)) {
        for (Py_ssize_t i = 0; i < self->arrays; ++i) arrays[i] = args[self->array[i].place];
        form = find_form(self, args, arrays, named);
    }
    PyErr_Clear();
    int known = form != NULL;
    Py_XDECREF(form);
    return PyBool_FromLong(known);
}

static PyObject *short_len(Short *self, PyObject *unused) { return PyLong_FromSsize_t(PyList_GET_SIZE(self->forms)); }

static int short_traverse(Short *self, visitproc visit, void *arg) { Py_VISIT(self->forms); return 0; }
static int short_clear(Short *self) { Py_CLEAR(self->forms); return 0; }
static void short_dealloc(Short *self) {
    PyObject_GC_UnTrack(self);
    short_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef short_methods[] = {
    {"add", (PyCFunction)short_add, METH_VARARGS, "Keep the form of a call that has passed."},
    {"knows", (PyCFunction)(void (*)(void))short_knows, METH_FASTCALL | METH_KEYWORDS, "Whether the form of these arguments is kept."},
    {"count", (PyCFunction)short_len, METH_NOARGS, "How many forms are kept."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ShortType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "kernelwright_short.Short", .tp_basicsize = sizeof(Short),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Short, vectorcall), .tp_call = PyVectorcall_Call, .tp_new = PyType_GenericNew,
    .tp_init = (initproc)short_init, .tp_dealloc = (destructor)short_dealloc, .tp_traverse = (traverseproc)short_traverse,
    .tp_clear = (inquiry)short_clear, .tp_methods = short_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernelwright_short", "The short way of a call.", -1, NULL};

PyMODINIT_FUNC PyInit_kernelwright_short(void) {
    if (PyType_Ready(&FormType) < 0 || PyType_Ready(&ShortType) < 0) return NULL;
    data_ptr = PyUnicode_InternFromString("data_ptr");
    data = PyUnicode_InternFromString("data");
    ptr = PyUnicode_InternFromString("ptr");
    cuda_stream = PyUnicode_InternFromString("cuda_stream");
    device_id = PyUnicode_InternFromString("device_id");
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || data_ptr == NULL || data == NULL || ptr == NULL || device_id == NULL || cuda_stream == NULL || PyModule_AddObjectRef(made, "Short", (PyObject *)&ShortType) < 0) return NULL;
    return made;
}

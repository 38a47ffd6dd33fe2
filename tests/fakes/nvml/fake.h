/* What the parts of the stand-in share: the scenario, and the answers that are made from it. */
#ifndef GPUBURN_FAKE_NVML_H
#define GPUBURN_FAKE_NVML_H
#include <stddef.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, UNKNOWN = 999, GPUS = 64 };

typedef struct { int index; } Gpu;
typedef unsigned long long Big;

/* The value of "who name value" into out; OK, the error it stands for, or NOT_SUPPORTED where no line tells. */
int told(const char *who, const char *name, char *out, size_t size);
int recalled(const char *who, const char *name, char *out, size_t size); /* as the last call read the scenario */
int asked(const Gpu *gpu, const char *name, char *out, size_t size);
int number(const Gpu *gpu, const char *name, unsigned *out);
int big(const Gpu *gpu, const char *name, Big *out);
#endif

/* A stand-in for NVIDIA's libnvidia-ml.so.1, driven by the scenario file that GPUBURN_FAKE_NVML names (see scenario.c).

   Lines: "library driver VERSION", "library count N", "library init !CODE", and "GPU NAME VALUE"; "handle" stands for
   the getting of a GPU's handle. What no line tells is not supported (3).
   Only what pynvml calls for our readers is here (health.c has what speaks of wear and faults); anything else is
   "function not found", as with an old driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake.h"

typedef struct { Big total, free, used; } Memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } Pci;

static int ready;
static Gpu gpus[GPUS];

int asked(const Gpu *gpu, const char *name, char *out, size_t size) {
    char who[16];
    if (!ready) return UNINITIALIZED;
    snprintf(who, sizeof who, "%d", gpu->index);
    return told(who, name, out, size);
}

int big(const Gpu *gpu, const char *name, Big *out) {
    char text[64];
    int error = asked(gpu, name, text, sizeof text);
    if (!error) *out = strtoull(text, NULL, 10);
    return error;
}

int number(const Gpu *gpu, const char *name, unsigned *out) {
    Big value = 0;
    int error = big(gpu, name, &value);
    if (!error) *out = (unsigned)value;
    return error;
}

int nvmlInitWithFlags(unsigned flags) {
    char code[16];
    (void)flags;
    int error = told("library", "init", code, sizeof code);
    if (error && error != NOT_SUPPORTED) return error;
    ready++; /* counted, as NVML does */
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) { ready -= ready > 0; return OK; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) { return told("library", "driver", out, size); }

int nvmlSystemGetNVMLVersion(char *out, unsigned size) { return told("library", "nvml", out, size); }

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    char text[16];
    int error = told("library", "cuda", text, sizeof text);
    if (!error) *out = atoi(text);
    return error;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char text[16];
    int error = ready ? told("library", "count", text, sizeof text) : UNINITIALIZED;
    if (!error) *count = (unsigned)atoi(text);
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **out) {
    char text[16];
    if (index >= GPUS) return INVALID_ARGUMENT;
    gpus[index].index = (int)index;
    *out = &gpus[index];
    int error = asked(*out, "handle", text, sizeof text);
    return error == NOT_SUPPORTED ? OK : error;
}

int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned size) { return asked(gpu, "uuid", out, size); }
int nvmlDeviceGetSerial(Gpu *gpu, char *out, unsigned size) { return asked(gpu, "serial", out, size); }
int nvmlDeviceGetBoardPartNumber(Gpu *gpu, char *out, unsigned size) { return asked(gpu, "part", out, size); }
int nvmlDeviceGetName(Gpu *gpu, char *out, unsigned size) { return asked(gpu, "name", out, size); }
int nvmlDeviceGetVbiosVersion(Gpu *gpu, char *out, unsigned size) { return asked(gpu, "vbios", out, size); }

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *out) {
    memset(out, 0, sizeof *out);
    int error = asked(gpu, "pci", out->text, sizeof out->text);
    if (!error && sscanf(out->text, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return UNKNOWN;
    char id[16];
    if (!error && !asked(gpu, "pci_id", id, sizeof id)) out->id = (unsigned)strtoul(id, NULL, 16);
    return error;
}

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *out) {
    unsigned mib = 0;
    int error = number(gpu, "memory_mib", &mib);
    out->total = out->free = (Big)mib << 20;
    out->used = 0;
    if (!error && !number(gpu, "memory_used_mib", &mib)) out->used = (Big)mib << 20;
    return error;
}

int nvmlDeviceGetTemperature(Gpu *gpu, int sensor, unsigned *out) {
    return sensor ? INVALID_ARGUMENT : number(gpu, "temperature", out);
}

int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *out) { return number(gpu, "power_mw", out); }

int nvmlDeviceGetEnforcedPowerLimit(Gpu *gpu, unsigned *out) { return number(gpu, "power_limit_mw", out); }
int nvmlDeviceGetMemoryBusWidth(Gpu *gpu, unsigned *out) { return number(gpu, "bus_width", out); }

int nvmlDeviceGetMaxClockInfo(Gpu *gpu, int clock, unsigned *out) {
    return number(gpu, clock == 2 ? "max_mem_clock" : "max_other_clock", out);
}

int nvmlDeviceGetClockInfo(Gpu *gpu, int clock, unsigned *out) {
    return number(gpu, clock == 1 ? "sm_clock" : clock == 2 ? "mem_clock" : "graphics_clock", out);
}

const char *nvmlErrorString(int code) {
    switch (code) {
        case OK: return "The operation was successful";
        case UNINITIALIZED: return "Uninitialized";
        case INVALID_ARGUMENT: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case 9: return "Driver Not Loaded";
        case 10: return "Timeout";
        case 14: return "infoROM is corrupted";
        case 15: return "GPU is lost";
        case 16: return "GPU requires reset";
        case 18: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}

/* Events. Lines "GPU xid NUMBER" and "GPU dbe 1" are told in their order, each once in a process, for registered GPUs.
   "library events CODE" fails the set, "GPU events CODE" the registering of one GPU, "library wait CODE" the waiting;
   "GPU event_types MASK" is what it supports, 10 where no line tells: Xids (8) and double-bit errors (2). */
#ifndef WITHOUT_EVENTS /* as an old driver */
enum { XID = 8, DOUBLE_BIT = 2, TIMED_OUT = 10 };
typedef struct { unsigned long long wanted[GPUS]; int told; } Events;
typedef struct { Gpu *device; unsigned long long type, data; unsigned instance, compute; } Happened;
static Events events;

int nvmlEventSetCreate(Events **set) {
    char code[16];
    if (!ready) return UNINITIALIZED;
    if (!told("library", "events", code, sizeof code)) return atoi(code);
    memset(events.wanted, 0, sizeof events.wanted);
    *set = &events;
    return OK;
}

int nvmlEventSetFree(Events *set) { memset(set->wanted, 0, sizeof set->wanted); return OK; }

int nvmlDeviceGetSupportedEventTypes(Gpu *gpu, unsigned long long *types) {
    unsigned mask = XID | DOUBLE_BIT;
    int error = number(gpu, "event_types", &mask);
    *types = mask;
    return error == NOT_SUPPORTED ? OK : error;
}

int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long types, Events *set) {
    char code[16];
    if (!asked(gpu, "events", code, sizeof code)) return atoi(code);
    set->wanted[gpu->index] |= types;
    return OK;
}

int nvmlEventSetWait_v2(Events *set, Happened *out, unsigned patience) {
    const char *path = getenv("GPUBURN_FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512], name[64], code[16];
    unsigned long long value, type;
    int gpu, seen = 0, found = TIMED_OUT;
    if (patience) abort(); /* a sampler that waits here is blind meanwhile */
    if (!file) return UNKNOWN;
    if (!told("library", "wait", code, sizeof code)) found = atoi(code);
    while (found == TIMED_OUT && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%d %63s %llu", &gpu, name, &value) != 3 || gpu < 0 || gpu >= GPUS) continue;
        type = !strcmp(name, "xid") ? XID : !strcmp(name, "dbe") ? DOUBLE_BIT : 0;
        if (!(type & set->wanted[gpu]) || seen++ < set->told) continue;
        set->told++;
        gpus[gpu].index = gpu;
        memset(out, 0, sizeof *out);
        out->device = &gpus[gpu];
        out->type = type;
        out->data = type == XID ? value : 0;
        found = OK;
    }
    fclose(file);
    return found;
}
#endif

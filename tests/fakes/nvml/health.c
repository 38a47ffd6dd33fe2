/* The calls that speak of wear, faults and modes. Structures are laid out as nvml.h has them (checked against
   nvidia-ml-py's ctypes: c_nvmlFieldValue_t, c_nvmlGpuFabricInfo_v3_t, c_nvmlEccSramErrorStatus_v1_t and others). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake.h"

typedef struct {
    unsigned version;
    Big parity, secded, corrected, vparity, vsecded, vcorrected, bucket[5];
    unsigned exceeded;
} Sram;
typedef struct {
    uint32_t field, scope;
    int64_t at, latency;
    unsigned type;
    int result;
    union { double real; Big whole; } value;
} Field;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    uint32_t clique;
    unsigned char state;
    uint32_t mask;
    uint8_t summary;
} Fabric;
typedef struct { unsigned version; int margin; } Margin;
typedef struct { unsigned pid; Big used; unsigned gpu_instance, compute_instance; } Process;

/* "name A B ..." into that many numbers. */
static int several(const Gpu *gpu, const char *name, unsigned **out, int wanted) {
    char text[128], *rest = text;
    int error = asked(gpu, name, text, sizeof text);
    for (int i = 0; !error && i < wanted; i++) *out[i] = (unsigned)strtoul(rest, &rest, 10);
    return error;
}

int nvmlDeviceGetTotalEccErrors(Gpu *gpu, int type, int counter, Big *out) {
    static const char *names[2][2] = {
        {"ecc_corrected", "ecc_corrected_total"}, {"ecc_uncorrected", "ecc_uncorrected_total"}};
    return type > 1 || counter > 1 ? INVALID_ARGUMENT : big(gpu, names[type][counter], out);
}

int nvmlDeviceGetSramEccErrorStatus(Gpu *gpu, Sram *out) {
    if (out->version != 0x1000068) return 25;
    return number(gpu, "sram_exceeded", &out->exceeded);
}

int nvmlDeviceGetRemappedRows(Gpu *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    return several(gpu, "remapped", (unsigned *[]){corrected, uncorrected, pending, failed}, 4);
}

int nvmlDeviceGetRetiredPages_v2(Gpu *gpu, int cause, unsigned *count, Big *pages, Big *times) {
    unsigned held = 0;
    int error = number(gpu, cause ? "retired_double" : "retired_single", &held);
    if (error) return error;
    if (!pages || *count < held) { *count = held; return held ? TOO_SMALL : OK; }
    for (unsigned i = 0; i < held; i++) pages[i] = 0x1000ull * i, times[i] = i;
    *count = held;
    return OK;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Gpu *gpu, unsigned *out) { return number(gpu, "retire_pending", out); }
int nvmlDeviceGetCurrPcieLinkGeneration(Gpu *gpu, unsigned *out) { return number(gpu, "pcie_gen", out); }
int nvmlDeviceGetCurrPcieLinkWidth(Gpu *gpu, unsigned *out) { return number(gpu, "pcie_width", out); }
int nvmlDeviceGetMaxPcieLinkGeneration(Gpu *gpu, unsigned *out) { return number(gpu, "pcie_gen_max", out); }
int nvmlDeviceGetMaxPcieLinkWidth(Gpu *gpu, unsigned *out) { return number(gpu, "pcie_width_max", out); }

/* "links UP THERE": of so many links the first UP are active; untold: there are none. */
int nvmlDeviceGetNvLinkState(Gpu *gpu, unsigned link, unsigned *out) {
    unsigned there = 0, up = 0;
    int error = several(gpu, "links", (unsigned *[]){&up, &there}, 2);
    if (error) return error;
    if (link >= there) return INVALID_ARGUMENT;
    *out = link < up;
    return OK;
}

int nvmlDeviceGetNvLinkVersion(Gpu *gpu, unsigned link, unsigned *out) {
    (void)link;
    return number(gpu, "nvlink_version", out);
}

int nvmlDeviceGetNvLinkErrorCounter(Gpu *gpu, unsigned link, int counter, Big *out) {
    char name[32];
    (void)link;
    snprintf(name, sizeof name, "link_error_%d", counter);
    return big(gpu, name, out);
}

/* "fabric STATE STATUS SUMMARY [MASK]"; "fabric_struct 2": a driver that knows no struct after v2. */
int nvmlDeviceGetGpuFabricInfoV(Gpu *gpu, Fabric *out) {
    unsigned state = 0, status = 0, summary = 0, mask = 0, newest = 3;
    int error = several(gpu, "fabric", (unsigned *[]){&state, &status, &summary, &mask}, 4);
    if (error) return error;
    number(gpu, "fabric_struct", &newest);
    if (out->version == 0x3000028 && newest >= 3) out->summary = (uint8_t)summary;
    else if (out->version != 0x2000024) return 25;
    out->state = (unsigned char)state, out->status = (int)status, out->mask = mask;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(Gpu *gpu, Big *out) { return big(gpu, "reasons", out); }
int nvmlDeviceGetSupportedClocksEventReasons(Gpu *gpu, Big *out) { return big(gpu, "reasons_supported", out); }

static int field(const Gpu *gpu, const char *name, Big *out) {
    char who[16], text[64];
    snprintf(who, sizeof who, "%d", gpu->index);
    int error = recalled(who, name, text, sizeof text);
    if (!error) *out = strtoull(text, NULL, 10);
    return error;
}

/* Field N is told as "field_N", of every scope (link); a line "field_N.S" speaks of scope S alone. */
int nvmlDeviceGetFieldValues(Gpu *gpu, int count, Field *fields) {
    char name[48];
    int error = asked(gpu, "fields", name, sizeof name);
    if (error && error != NOT_SUPPORTED) return error;
    for (Field *one = fields; one < fields + count; one++) {
        snprintf(name, sizeof name, "field_%u.%u", one->field, one->scope);
        one->type = 3, one->result = field(gpu, name, &one->value.whole);
        snprintf(name, sizeof name, "field_%u", one->field);
        if (one->result == NOT_SUPPORTED) one->result = field(gpu, name, &one->value.whole);
    }
    return OK;
}

int nvmlDeviceGetPowerManagementDefaultLimit(Gpu *gpu, unsigned *out) { return number(gpu, "power_default_mw", out); }

int nvmlDeviceGetPowerManagementLimitConstraints(Gpu *gpu, unsigned *low, unsigned *high) {
    int error = number(gpu, "power_min_mw", low);
    return error ? error : number(gpu, "power_max_mw", high);
}

int nvmlDeviceGetTemperatureThreshold(Gpu *gpu, int which, unsigned *out) {
    static const char *names[] = {"shutdown_at", "slowdown_at", "memory_max_at", "gpu_max_at"};
    return which > 3 ? INVALID_ARGUMENT : number(gpu, names[which], out);
}

int nvmlDeviceGetMarginTemperature(Gpu *gpu, Margin *out) {
    if (out->version != 0x1000008) return 25;
    unsigned value = 0;
    int error = number(gpu, "margin", &value);
    if (!error) out->margin = (int)value;
    return error;
}

int nvmlDeviceGetNumFans(Gpu *gpu, unsigned *out) { return number(gpu, "fans", out); }
int nvmlDeviceGetFanSpeed_v2(Gpu *gpu, unsigned fan, unsigned *out) { (void)fan; return number(gpu, "fan", out); }
int nvmlDeviceGetPersistenceMode(Gpu *gpu, unsigned *out) { return number(gpu, "persistence", out); }

int nvmlDeviceGetEccMode(Gpu *gpu, unsigned *current, unsigned *pending) {
    return several(gpu, "ecc_mode", (unsigned *[]){current, pending}, 2);
}

int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *current, unsigned *pending) {
    return several(gpu, "mig_mode", (unsigned *[]){current, pending}, 2);
}

int nvmlDeviceGetVirtualizationMode(Gpu *gpu, unsigned *out) { return number(gpu, "virtualization", out); }
int nvmlDeviceGetInforomImageVersion(Gpu *gpu, char *out, unsigned size) { return asked(gpu, "inforom", out, size); }

int nvmlDeviceValidateInforom(Gpu *gpu) {
    char text[16];
    return asked(gpu, "inforom_valid", text, sizeof text);
}

/* "processes PID PID ...": each holds 1 GiB. */
static int running(const Gpu *gpu, const char *name, unsigned *count, Process *out) {
    char text[256], *rest = text, *end;
    unsigned found = 0, room = out ? *count : 0;
    int error = asked(gpu, name, text, sizeof text);
    if (error) return error;
    for (; strtoul(rest, &end, 10), end != rest; found++, rest = end)
        if (found < room) out[found] = (Process){(unsigned)strtoul(rest, NULL, 10), 1ull << 30, ~0u, ~0u};
    *count = found;
    return found > room ? TOO_SMALL : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned *count, Process *out) {
    return running(gpu, "processes", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Gpu *gpu, unsigned *count, Process *out) {
    return running(gpu, "graphics", count, out);
}

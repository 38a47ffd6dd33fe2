/* The scenario: lines "[@T] WHO NAME VALUE", read anew at every call, so that a test may change it as a process runs.

   T is in seconds; a line without it holds from the beginning. Of the lines that hold by now the one with the latest T
   answers, of several with the same T the first. Now is what "library now SECONDS" says (a test moves it by rewriting
   the file), else the real time since "library start UNIX", else 0.
   A value "!CODE" is that NVML error, "!hang" a call that never returns. NAME "*" stands for every question. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fake.h"

enum { LINES = 8192, TEXT = 1 << 20, WHO = GPUS + 1 };
typedef struct { double from; const char *name, *value; int next; } Line;

static char text[TEXT], words[TEXT], fresh[TEXT];
static size_t length;
static Line lines[LINES];
static int first[WHO], last[WHO], count;

static int place(const char *who) {
    int index = atoi(who);
    return !strcmp(who, "library") ? GPUS : index >= 0 && index < GPUS ? index : -1;
}

static void add(char *line) {
    double from = -1;
    char *rest = line;
    if (*rest == '@') from = strtod(rest + 1, &rest);
    char *who = strtok(rest, " \t"), *name = strtok(NULL, " \t"), *value = strtok(NULL, "\n");
    int at = who ? place(who) : -1;
    if (!value || at < 0 || count == LINES) return;
    lines[count] = (Line){from, name, value, -1};
    if (first[at] < 0) first[at] = count; else lines[last[at]].next = count;
    last[at] = count++;
}

static int load(void) {
    const char *path = getenv("GPUBURN_FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return UNKNOWN;
    size_t size = fread(fresh, 1, TEXT - 1, file);
    fclose(file);
    if (length && size == length && !memcmp(fresh, text, size)) return OK;
    memcpy(text, fresh, size);
    memcpy(words, fresh, size);
    length = size, words[size] = 0, count = 0;
    for (int at = 0; at < WHO; at++) first[at] = -1;
    for (char *line = words, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        add(line);
    }
    return OK;
}

static const char *value(int at, const char *name, double now) {
    const Line *best = NULL;
    for (int i = first[at]; i >= 0; i = lines[i].next) {
        const Line *one = &lines[i];
        if (one->from > now || (best && one->from <= best->from)) continue;
        if (!strcmp(one->name, name) || !strcmp(one->name, "*")) best = one;
    }
    return best ? best->value : NULL;
}

static double now(void) {
    const char *said = value(GPUS, "now", 0), *start = value(GPUS, "start", 0);
    struct timespec real;
    if (said) return strtod(said, NULL);
    if (!start) return 0;
    clock_gettime(CLOCK_REALTIME, &real);
    return (double)real.tv_sec + real.tv_nsec / 1e9 - strtod(start, NULL);
}

int told(const char *who, const char *name, char *out, size_t size) {
    return load() ? UNKNOWN : recalled(who, name, out, size);
}

int recalled(const char *who, const char *name, char *out, size_t size) {
    int at = place(who);
    if (at < 0) return UNKNOWN;
    const char *found = value(at, name, now());
    if (!found) return NOT_SUPPORTED;
    if (!strcmp(found, "!hang")) for (;;) sleep(3600);
    if (*found == '!') return atoi(found + 1);
    if (strlen(found) >= size) return TOO_SMALL;
    strcpy(out, found);
    return OK;
}

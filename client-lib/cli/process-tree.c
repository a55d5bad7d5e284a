#include "process-tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_CAPACITY = 64, PATH_BYTES = 64, LINE_BYTES = 512 };

struct pids {
    pid_t *items;
    size_t count, capacity;
};

/* Out of memory, the list ends here: the next pass finds the rest, after the first processes have ended. */
static void append(struct pids *pids, pid_t pid) {
    if (pids->count == pids->capacity) {
        size_t capacity = pids->capacity ? 2 * pids->capacity : FIRST_CAPACITY;
        pid_t *items = reallocarray(pids->items, capacity, sizeof(*items));
        if (!items)
            return;
        pids->items = items;
        pids->capacity = capacity;
    }
    pids->items[pids->count++] = pid;
}

static struct pids spared;

/* The pid of a child is no other process's before the child is reaped. */
static bool is_spared(pid_t pid, pid_t parent) {
    bool found = false;

    for (size_t i = 0; i < spared.count; i++)
        found = found || spared.items[i] == pid;
    return found && parent == getpid();
}

/* The number that a directory of /proc has as its name; 0: another file. */
static pid_t number_of(const char *name) {
    char *end;
    long number = strtol(name, &end, 10);

    return *end == '\0' && number > 0 && number <= INT32_MAX ? (pid_t) number : 0;
}

struct process {
    char name[PROCESS_TREE_NAME_BYTES];
    char state;
    pid_t parent;
};

static bool read_process(pid_t pid, struct process *ret) {
    char path[PATH_BYTES], line[LINE_BYTES];
    int parent;

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, line, sizeof(line) - 1);
    (void) close(fd);
    line[n > 0 ? n : 0] = '\0';
    /* "pid (name) state parent …": the name may contain any character. */
    char *name = strchr(line, '('), *end = strrchr(line, ')');
    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own pids are in range */
    if (!name || !end || sscanf(end + 1, " %c %d", &ret->state, &parent) != 2)
        return false;
    *end = '\0';
    (void) snprintf(ret->name, sizeof(ret->name), "%s", name + 1);
    ret->parent = parent;
    return true;
}

/* One thread's children; false when the kernel has no such file (CONFIG_PROC_CHILDREN). */
static bool append_children_of_thread(struct pids *pids, pid_t pid, pid_t thread) {
    char path[PATH_BYTES];
    int child;

    (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) pid, (int) thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own pids are in range */
    while (fscanf(file, "%d", &child) == 1)
        if (!is_spared(child, pid))
            append(pids, child);
    (void) fclose(file);
    return true;
}

static void append_children(struct pids *pids, pid_t pid) {
    char path[PATH_BYTES];
    const struct dirent *entry;

    (void) snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
    DIR *threads = opendir(path);
    if (!threads)
        return; /* ended, or hidden in /proc: its children become ours when it ends */
    while ((entry = readdir(threads)))
        if (number_of(entry->d_name) != 0)
            (void) append_children_of_thread(pids, pid, number_of(entry->d_name));
    (void) closedir(threads);
}

/* Without CONFIG_PROC_CHILDREN: reads all processes of the machine until no more of them belong to the
 * tree. */
static void append_by_parents(struct pids *pids) {
    const struct dirent *entry;
    struct process process;
    size_t before;

    do {
        DIR *processes = opendir("/proc");
        if (!processes)
            return;
        before = pids->count;
        while ((entry = readdir(processes))) {
            pid_t pid = number_of(entry->d_name);
            bool known = pid == 0, belongs = false;
            for (size_t i = 0; i < pids->count; i++)
                known = known || pids->items[i] == pid;
            if (known || !read_process(pid, &process) || is_spared(pid, process.parent))
                continue;
            for (size_t i = 0; i < pids->count; i++)
                belongs = belongs || pids->items[i] == process.parent;
            if (belongs)
                append(pids, pid);
        }
        (void) closedir(processes);
    } while (pids->count > before);
}

bool process_tree_is_known(void) {
    char own[PATH_BYTES], self[PATH_BYTES];
    ssize_t length = readlink("/proc/self", self, sizeof(self));
    int expected = snprintf(own, sizeof(own), "%d", (int) getpid());

    return length == expected && memcmp(self, own, (size_t) length) == 0;
}

/* This process first, then all of its descendants, if they are known. */
static struct pids list_tree(void) {
    char path[PATH_BYTES];
    struct pids pids = {0};

    append(&pids, getpid());
    if (!process_tree_is_known())
        return pids;
    (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) getpid(), (int) getpid());
    if (access(path, R_OK) != 0)
        append_by_parents(&pids);
    else
        for (size_t i = 0; i < pids.count; i++)
            append_children(&pids, pids.items[i]);
    return pids;
}

bool process_tree_spare_all_but(pid_t kept) {
    struct pids present = list_tree();
    struct process process;

    for (size_t i = 1; i < present.count; i++)
        if (present.items[i] != kept && read_process(present.items[i], &process) &&
            process.parent == getpid())
            append(&spared, present.items[i]);
    free(present.items);
    return spared.count > 0;
}

static void describe(pid_t pid, int error, struct process_tree_rest *ret) {
    struct process process = {.name = "?"};

    (void) read_process(pid, &process);
    *ret = (struct process_tree_rest){.pid = pid, .error = error};
    memcpy(ret->name, process.name, sizeof(ret->name));
}

int process_tree_signal(int number, pid_t group, struct process_tree_rest *ret_refused) {
    struct process_tree_rest refused = {0};
    struct pids pids = list_tree();
    int reached = 0;

    for (size_t i = 1; i < pids.count; i++) {
        pid_t pid = pids.items[i];
        if (group != 0 && getpgid(pid) != group)
            continue;
        /* The pid was not reused since the list was made: the kernel uses all other numbers first. */
        int error = kill(pid, number) < 0 ? errno : 0;
        reached += error != ESRCH;
        if (error == EPERM && refused.pid == 0)
            describe(pid, error, &refused);
    }
    free(pids.items);
    if (ret_refused)
        *ret_refused = refused;
    return reached;
}

bool process_tree_find_rest(struct process_tree_rest *ret) {
    struct process process;
    struct pids pids = list_tree();
    bool found = false;

    for (size_t i = 1; i < pids.count && !found; i++) {
        found = read_process(pids.items[i], &process) && process.state != 'Z';
        if (found)
            describe(pids.items[i], kill(pids.items[i], 0) < 0 ? errno : 0, ret);
    }
    free(pids.items);
    return found;
}

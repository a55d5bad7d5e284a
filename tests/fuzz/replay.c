/* replay DIRECTORY: runs a fuzz target over each file of its corpus, and over cuts and changes of it: the
 * fuzzer's part in builds without it. A finding ends the process. */

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "fuzz.h"
#include "tap.h"

enum { FILE_BYTES_MAX = 64 * 1024, CUTS_MAX = 64, CHANGES = 64 };

static uint32_t reached; /* goals, by the files as they are */

static size_t read_file(int directory, const char *name, uint8_t bytes[FILE_BYTES_MAX]) {
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, bytes, FILE_BYTES_MAX);

    must(length >= 0);
    (void) close(fd);
    return (size_t) length;
}

/* The same numbers on each machine. */
static uint32_t next_number(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void run_changed(const uint8_t *bytes, size_t length, uint32_t seed) {
    uint8_t *changed = (uint8_t *) fuzz_copy(bytes, length);

    for (unsigned i = 0; i < 1 + seed % 4 && length > 0; i++) {
        uint32_t number = next_number(&seed);
        changed[number % length] = (uint8_t) next_number(&seed);
    }
    (void) LLVMFuzzerTestOneInput(changed, length);
    free(changed);
}

static void run_file(int directory, const char *name) {
    static uint8_t bytes[FILE_BYTES_MAX];
    size_t length = read_file(directory, name, bytes);

    fuzz_reached = 0;
    (void) LLVMFuzzerTestOneInput(bytes, length);
    reached |= fuzz_reached;
    for (size_t cut = 0; cut < length; cut += 1 + length / CUTS_MAX)
        (void) LLVMFuzzerTestOneInput(bytes, cut);
    for (uint32_t seed = 0; seed < CHANGES; seed++)
        run_changed(bytes, length, seed);
    ok(true, "%s: neither the input nor cuts and changes of it break a promise", name);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void) fputs("usage: replay DIRECTORY\n", stderr);
        return EXIT_FAILURE;
    }
    DIR *directory = opendir(argv[1]);
    must(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.')
            run_file(dirfd(directory), entry->d_name);
    (void) closedir(directory);
    must(tap.checks > 0);
    for (unsigned goal = 0; fuzz_goals[goal]; goal++)
        ok(reached & UINT32_C(1) << goal, "the corpus reaches %s", fuzz_goals[goal]);
    return done_testing();
}

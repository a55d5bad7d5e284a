/* redlock: run commands under a lease, and look at the agent. */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char usage[] =
    "redlock [--socket PATH] COMMAND ...\n"
    "Runs commands under leases from the local redlockd agent.\n"
    "\n"
    "  run [OPTION]... NAME -- COMMAND...   run COMMAND while holding the lease NAME\n"
    "  acquire --for PID NAME               hold the lease NAME as long as process PID lives\n"
    "  hold [OPTION]... NAME                hold the lease NAME for a service: wait, lead, step down\n"
    "  status                               the agent's state and numbers\n"
    "  nodes                                the Redis nodes, and why one does not vote\n"
    "  leases                               who holds and who waits on this host\n"
    "  leader NAME                          who holds NAME, on whichever host\n"
    "  watch NAME...                        the same at each change, until it is stopped\n"
    "  check [NAME]                         is a quorum there? is NAME held?\n"
    "\n"
    "'redlock COMMAND --help' tells more. --version prints the version. The socket is that of --socket, "
    "else\n"
    "of $REDLOCK_SOCKET, else " REDLOCK_DEFAULT_SOCKET ".\n"
    "\n"
    "Exit status: 0 done, or COMMAND's own; 1 the name is held; 64 usage; 69 no agent; 75 no quorum; 77 "
    "denied;\n"
    "124 waited too long; 125 the lease was lost and COMMAND stopped; 126, 127 COMMAND can't be run.\n";

/* The first that this word may mean; NULL: none. */
static const struct option *find_option(const struct option *known, const char *word) {
    if (strncmp(word, "--", 2) != 0)
        return NULL;
    for (; known->name; known++)
        if (strncmp(known->name, word + 2, strcspn(word + 2, "=")) == 0)
            return known;
    return NULL;
}

/* Of a letter within a word getopt is not past that word: then only the letter is known to be wrong. */
static void complain_of_option(const char *command, int option, const struct option *known,
                               const char *word) {
    const char letter[] = {'-', (char) optopt, '\0'}, *trouble = "unknown option";
    const struct option *meant = find_option(known, word);

    if (option == ':')
        trouble = "a value is missing after";
    else if (optopt == 0)
        trouble = meant ? "ambiguous option" : trouble;
    else if (meant && meant->val == optopt && meant->has_arg == no_argument && strchr(word, '='))
        trouble = "no value belongs to";
    else
        word = letter;
    cli_complain("%s: %s '%s'; 'redlock %s --help' lists the options", command, trouble,
                 strncmp(word, "--", 2) == 0 ? word : letter, command);
}

int cli_option(int argc, char **argv, const char *short_options, const struct option *known) {
    opterr = 0; /* getopt's own words go to the terminal unfiltered, and without ours in front */
    int option = getopt_long(argc, argv, short_options, known, NULL);

    if (option == '?' || option == ':')
        complain_of_option(argv[0], option, known, argv[optind - 1]);
    return option;
}

int cli_connect(const struct cli *cli, struct redlock **ret) {
    int error = redlock_connect(cli->socket_path, ret);

    if (error == REDLOCK_OK)
        return STATUS_DONE;
    const char *path = cli->socket_path ? cli->socket_path : getenv("REDLOCK_SOCKET");
    if (!path)
        path = REDLOCK_DEFAULT_SOCKET;
    if (error == REDLOCK_AGENT_AWAY)
        cli_complain("%s: no agent there (%s); is redlockd running?", path, strerror(errno));
    else
        cli_complain("%s: %s%s", path, redlock_strerror(error),
                     error == REDLOCK_NO_ANSWER ? "; is it stopped, or stuck?" : "");
    return error == REDLOCK_NO_MEMORY ? STATUS_SYSTEM : STATUS_NO_AGENT;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const struct cli *cli, int argc, char **argv);
    } commands[] = {
        {"run", cli_run},       {"acquire", cli_acquire}, {"hold", cli_hold},
        {"status", cli_status}, {"nodes", cli_nodes},     {"leases", cli_leases},
        {"leader", cli_leader}, {"watch", cli_watch},     {"check", cli_check},
    };
    struct cli cli = {0};
    int at = 1;

    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--help") == 0) {
            (void) fputs(usage, stdout);
            return STATUS_DONE;
        }
        if (strcmp(argv[at], "--version") == 0) {
            (void) puts("redlock " REDLOCK_VERSION);
            return STATUS_DONE;
        }
        if (strcmp(argv[at], "--socket") == 0) {
            if (++at == argc) {
                cli_complain("--socket: expected PATH; 'redlock --help' lists what there is");
                return STATUS_USAGE;
            }
            cli.socket_path = argv[at];
        } else if (strncmp(argv[at], "--socket=", strlen("--socket=")) == 0) {
            cli.socket_path = argv[at] + strlen("--socket=");
        } else {
            cli_complain("unknown option '%s'; 'redlock --help' lists what there is", argv[at]);
            return STATUS_USAGE;
        }
    }
    for (size_t i = 0; at < argc && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[at], commands[i].name) == 0)
            return commands[i].run(&cli, argc - at, argv + at);
    if (at < argc)
        cli_complain("unknown command '%s'; 'redlock --help' lists what there is", argv[at]);
    else
        (void) fputs(usage, stderr);
    return STATUS_USAGE;
}

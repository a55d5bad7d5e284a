/* redlock: runs commands under leases, and shows the agent's state. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli.h"

static const char usage[] =
    "redlock [--socket PATH] COMMAND ...\n"
    "Runs commands under leases from the local redlockd agent.\n"
    "\n"
    "  run [OPTION]... NAME -- COMMAND...   run COMMAND while holding the lease NAME\n"
    "  acquire --for PID NAME               hold the lease NAME as long as process PID lives\n"
    "  release NAME                         end what 'redlock acquire' left\n"
    "  hold [OPTION]... NAME                hold the lease NAME for a service: wait, lead, step down\n"
    "  status                               the agent's state and numbers\n"
    "  metrics                              the same and more, as OpenMetrics text\n"
    "  top                                  rates, latest grants, slow nodes, heavy users, each second\n"
    "  nodes                                the Redis nodes, and why one does not vote\n"
    "  leases                               the holders and waiters of this host\n"
    "  leader NAME                          the holder of NAME, on any host\n"
    "  watch NAME...                        the same at each change, until it is stopped\n"
    "  history NAME                         what happened to NAME on this host, and why\n"
    "  check [NAME]                         test agent and nodes, or whether NAME is held\n"
    "  whoami [NAME]                        what the agent's rules allow you\n"
    "\n"
    "See 'redlock help COMMAND'. -V, --version prints the version. The socket is that of --socket, "
    "else\n"
    "of $REDLOCK_SOCKET, else " REDLOCK_DEFAULT_SOCKET ".\n"
    "\n"
    "Exit status: 0 done, or COMMAND's own; 1 the name is held; 64 usage; 69 no agent; 75 no quorum; 77 "
    "denied;\n"
    "124 waited too long; 125 the lease was lost and COMMAND stopped; 126, 127 COMMAND can't be run.\n";

const char *cli_socket_path(const struct cli *cli) {
    const char *path = secure_getenv("REDLOCK_SOCKET");

    if (cli->socket_path)
        return cli->socket_path;
    return path && *path ? path : REDLOCK_DEFAULT_SOCKET;
}

int cli_not_connected(const struct cli *cli, int error) {
    const char *path = cli_socket_path(cli);

    if (error == REDLOCK_AGENT_AWAY && (errno == EACCES || errno == EPERM)) {
        cli_complain("%s: permission denied: use the socket's group, or root (ls -l shows the permissions)",
                     path);
        return STATUS_DENIED;
    }
    if (error == REDLOCK_AGENT_AWAY)
        cli_complain("%s: no agent there (%s); is redlockd running?", path, strerror(errno));
    else
        cli_complain("%s: %s%s", path, redlock_strerror(error),
                     error == REDLOCK_NO_ANSWER ? "; is it stopped, or stuck?"
                     : error == REDLOCK_QUOTA   ? ": the agent's connections, or this user's share of them"
                                                : "");
    return cli_status_of(error);
}

int cli_connect(const struct cli *cli, struct redlock **ret) {
    int error = redlock_connect(cli->socket_path, ret);

    return error == REDLOCK_OK ? STATUS_DONE : cli_not_connected(cli, error);
}

/* The exit status; -1: unknown command. */
static int run_command(const struct cli *cli, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const struct cli *cli, int argc, char **argv);
    } commands[] = {
        {"run", cli_run},       {"acquire", cli_acquire}, {"release", cli_release}, {"hold", cli_hold},
        {"status", cli_status}, {"nodes", cli_nodes},     {"leases", cli_leases},   {"leader", cli_leader},
        {"watch", cli_watch},   {"history", cli_history}, {"check", cli_check},     {"metrics", cli_metrics},
        {"whoami", cli_whoami}, {"top", cli_top},
    };

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[0], commands[i].name) == 0)
            return commands[i].run(cli, argc, argv);
    return -1;
}

static int help(const struct cli *cli, const char *command) {
    char word[] = "--help";
    char *argv[] = {(char *) command, word, NULL};

    int status = command ? run_command(cli, 2, argv) : STATUS_DONE;
    if (!command)
        (void) fputs(usage, stdout);
    if (status < 0)
        cli_complain("unknown command '%s'; see 'redlock --help'", command);
    return status < 0 ? STATUS_USAGE : status;
}

/* The options before the command. -1, and the command's index; or the exit status. */
static int read_options(struct cli *cli, int argc, char **argv, int *at) {
    for (; *at < argc && argv[*at][0] == '-'; ++*at) {
        const char *word = argv[*at];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return help(cli, NULL);
        if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
            (void) puts("redlock " REDLOCK_VERSION);
            return STATUS_DONE;
        }
        if (strcmp(word, "--socket") == 0) {
            cli->socket_path = ++*at < argc ? argv[*at] : "";
        } else if (strncmp(word, "--socket=", strlen("--socket=")) == 0) {
            cli->socket_path = word + strlen("--socket=");
        } else {
            cli_complain("unknown option '%s'; see 'redlock --help'", word);
            return STATUS_USAGE;
        }
        if (cli->socket_path && !*cli->socket_path) {
            cli_complain("--socket: expected PATH; see 'redlock --help'");
            return STATUS_USAGE;
        }
    }
    return -1;
}

/* If a standard descriptor is closed, the connection to the agent would get its number, and the agent
 * would receive the output. The descriptors opened here fail like closed ones, and commands inherit them
 * closed. */
static void occupy_standard_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void) open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

/* Without memory for a buffer of its own, stdio writes a part of a line and reports no error. */
static void give_output_buffer(void) {
    static char buffer[BUFSIZ];

    (void) setvbuf(stdout, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof(buffer));
}

int main(int argc, char **argv) {
    struct cli cli = {0};
    int at = 1;

    /* A core dump would contain the secrets of leases. Programs that redlock starts may dump core: execve(2)
     * resets the attribute. */
    (void) prctl(PR_SET_DUMPABLE, 0);
    occupy_standard_descriptors();
    give_output_buffer();
    int status = read_options(&cli, argc, argv, &at);
    if (status < 0 && at < argc && strcmp(argv[at], "help") == 0)
        status = help(&cli, at + 1 < argc && strcmp(argv[at + 1], "help") != 0 ? argv[at + 1] : NULL);
    if (status < 0 && at < argc) {
        status = run_command(&cli, argc - at, argv + at);
        if (status < 0)
            cli_complain("unknown command '%s'; see 'redlock --help'", argv[at]);
    } else if (status < 0) {
        (void) fputs(usage, stderr);
    }
    return cli_flush(status < 0 ? STATUS_USAGE : status);
}

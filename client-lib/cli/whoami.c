/* redlock whoami: the user as the agent knows it, the rule for a name, and what it allows. */

#include <getopt.h>

#include "cli.h"
#include "listing.h"
#include "options.h"

int cli_whoami(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock whoami [--json] [NAME]\n"
        "The user and process that the agent takes you for, the rule of redlockd.conf(5) that counts for\n"
        "NAME (without NAME: for requests that concern no name), what it allows, its limits in ms, and\n"
        "what you have of the agent's quotas.\n";
    struct redlock *connection = NULL;
    bool json = false;
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &json}};

    int status = options_read(rows, 1, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (!options_end(argc, argv, 1))
        return STATUS_USAGE;
    const char *name = optind < argc ? argv[optind] : NULL;
    status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    int error = listing_request(connection, (const char *const[]){"WHOAMI", name, NULL}, LISTING_MAP,
                                json ? listing_print_json : listing_print_map, NULL);
    if (error != REDLOCK_OK)
        status = cli_failed(connection, error, name ? name : "whoami");
    redlock_close(connection);
    return status;
}

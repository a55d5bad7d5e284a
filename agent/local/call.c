#include "local/call.h"

#include "local/argument.h"
#include "local/reply.h"

bool call_has_name(const struct call *call) {
    const char *fault = argument_name_fault(call->arguments[0].text, call->arguments[0].length);

    if (fault)
        reply_error(call->session, "BADNAME", "%s", fault);
    return !fault;
}

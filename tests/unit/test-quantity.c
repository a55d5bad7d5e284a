/* Whole numbers with a unit. */

#include "base/quantity.h"
#include "tap.h"

int main(void) {
    char buffer[QUANTITY_BYTES_MAX];

    is_int(quantity_read("10s", quantity_times), 10000000, "a time in seconds");
    is_int(quantity_read("1500us", quantity_times), 1500, "and in microseconds");
    is_int(quantity_read("10", quantity_times), -1, "a time needs a unit");
    is_int(quantity_read("s", quantity_times), -1, "and a number");
    is_int(quantity_read("1 s", quantity_times), -1, "without a blank between them");
    is_int(quantity_read("-1s", quantity_times), -1, "and without a sign");
    is_int(quantity_read("10k", quantity_counts), 10000, "a count");
    is_int(quantity_read("10k", quantity_plain), -1, "a plain number has no unit");
    is_int(quantity_read("9223372036854775807", quantity_plain), INT64_MAX, "the largest number");
    is_int(quantity_read("9223372036854775808", quantity_plain), INT64_MAX, "and one that is too large");
    is_int(quantity_read("200000000d", quantity_times), INT64_MAX, "too large by its unit");
    is_string(quantity_show_ms(60000, buffer), "1m", "a time is shown with its largest unit");
    is_string(quantity_show_ms(1500, buffer), "1500ms", "that leaves a whole number");
    return done_testing();
}

/* race_hook: the function that ThreadSanitizer calls with each report, after printing it. Linked only into our own
   programs: the library must not take the reports of the program that it is linked into. */
#include "race.h"

__attribute__((visibility("default"))) void __tsan_on_report(void *report);

void __tsan_on_report(void *report) { race_report(report); }

bool race_hooked(void) { return true; }

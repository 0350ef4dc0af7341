/* A libnvidia-ml.so.1 with one device, that of the stand-in driver. Its multiprocessors run at 1980 MHz, and its memory
   clock is unknown. Used like stand_in_cuda. */
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz);

enum { FAILED = 999, CLOCK_SM = 1, SM_MHZ = 1980 };
static int running;
static char device;

int nvmlInit_v2(void) {
    running++;
    return 0;
}

int nvmlShutdown(void) {
    running--;
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **result) {
    *result = &device;
    return running == 1 && strcmp(bus, "0000:28:00.0") == 0 ? 0 : FAILED;
}

int nvmlDeviceGetClockInfo(void *asked, int kind, unsigned *mhz) {
    *mhz = SM_MHZ;
    return asked == &device && kind == CLOCK_SM ? 0 : FAILED;
}

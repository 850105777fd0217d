/* SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/exit.h"

#define PATH_BYTES 4096

/* As built, or as installed, beside this program. */
static bool find(const char *module, char *path)
{
    static const char *const places[] = {"../lib/commands",
                                         "../" PERSEUS_LIBDIR "/perseus/commands"};
    char program[PATH_BYTES];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    program[bytes > 0 ? bytes : 0] = '\0';
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
        int length = snprintf(path, PATH_BYTES, "%.*s/%s/%s.so", (int)(slash - program), program,
                              places[i], module);
        if (length < PATH_BYTES && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

int prs_module_run(const char *module, const char *function, int argc, char **argv)
{
    char path[PATH_BYTES];
    if (!find(module, path)) {
        fprintf(stderr,
                "perseus: this command's module, commands/%s.so, is not beside the program%s\n",
                module,
                strcmp(module, "cuda") == 0
                    ? "; it is built where nvcc is (install NVIDIA's CUDA toolkit, build again)"
                    : "");
        return PRS_EXIT_FAILED;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* for good: it may have threads */
    void *symbol = library != NULL ? dlsym(library, function) : NULL;
    if (symbol == NULL) {
        fprintf(stderr, "perseus: this command cannot be loaded here: %s; install that library\n",
                dlerror());
        return PRS_EXIT_FAILED;
    }
    int (*run)(int argc, char **argv);
    memcpy(&run, &symbol, sizeof run);
    return run(argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool report(const struct prs_output *output, int error)
{
    fprintf(stderr, "perseus: cannot write %s %s: %s; give a path that can be written\n",
            output->option, output->path, strerror(error));
    return false;
}

/* By device and inode: two paths may mean one file. What is no regular file may be shared. */
static bool is_one_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Appending: what is in the file stays until the command has something better. */
static bool can_append(const struct prs_output *output)
{
    FILE *file = fopen(output->path, "ae");
    if (file == NULL) {
        return report(output, errno);
    }
    fclose(file);
    return true;
}

bool prs_output_check(const struct prs_output *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (outputs[i].path == NULL) {
            continue;
        }
        if (!can_append(&outputs[i])) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            if (outputs[k].path != NULL && is_one_file(outputs[k].path, outputs[i].path)) {
                fprintf(stderr, "perseus: %s and %s both name %s; give each a file of its own\n",
                        outputs[k].option, outputs[i].option, outputs[i].path);
                return false;
            }
        }
    }
    return true;
}

FILE *prs_output_open(const struct prs_output *output)
{
    FILE *file = fopen(output->path, "we");
    if (file == NULL) {
        report(output, errno);
    }
    return file;
}

bool prs_output_close(const struct prs_output *output, FILE *file)
{
    bool has_failed = ferror(file) != 0;
    int error = errno; /* of the write before: who writes stops there, or fails again and again */
    if (fclose(file) != 0 && !has_failed) {
        has_failed = true;
        error = errno;
    }
    return has_failed ? report(output, error) : true;
}

void prs_output_begin(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) { /* the lowest that is free, so open takes this one */
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

/* Closing tells what a network file system found out late. */
bool prs_output_end_stdout(void)
{
    bool has_failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0 || has_failed || fclose(stdout) != 0) {
        fprintf(stderr, "perseus: cannot write standard output: %s\n",
                errno != 0 ? strerror(errno) : "writing failed");
        return false;
    }
    return true;
}

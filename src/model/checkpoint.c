/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/file_map.h"

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"
#define ENDING      ".safetensors"

/* A file that is open. */
struct shard {
    char name[256]; /* beside the index; unused without one */
    struct prs_file_map map;
    struct prs_safetensors *file;
    struct shard *next;
};

struct prs_checkpoint {
    char path[PATH_MAX];
    json_t *index; /* NULL: one file */
    json_t *files; /* of the index: tensor to file; borrowed */
    struct shard *shards;
};

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), own = strlen(ending);
    return length >= own && strcmp(text + length - own, ending) == 0;
}

/* ---- files ---- */

static enum perseus_status open_shard(struct prs_checkpoint *checkpoint, const char *path,
                                      const char *name, const struct prs_log *log,
                                      struct shard **out)
{
    struct shard *shard = calloc(1, sizeof *shard);
    if (shard == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory to read %s", path);
    }
    snprintf(shard->name, sizeof shard->name, "%s", name);
    enum perseus_status status = prs_file_map_init(&shard->map, path, log);
    if (status == PERSEUS_OK) {
        status = prs_safetensors_create(path, shard->map.bytes, shard->map.size, log, &shard->file);
    }
    if (status != PERSEUS_OK) {
        prs_file_map_finish(&shard->map);
        free(shard);
        return status;
    }
    shard->next = checkpoint->shards;
    checkpoint->shards = shard;
    *out = shard;
    return PERSEUS_OK;
}

/* The open file that has `tensor`, as the index says. */
static enum perseus_status shard_of(struct prs_checkpoint *checkpoint, const char *tensor,
                                    const struct prs_log *log, struct shard **out)
{
    *out = checkpoint->shards;
    if (checkpoint->index == NULL) {
        return PERSEUS_OK;
    }
    const char *name = json_string_value(json_object_get(checkpoint->files, tensor));
    if (name == NULL) {
        void *entry = json_object_iter(checkpoint->files);
        return prs_fail(log, PERSEUS_NOT_FOUND, "%s lists no tensor %s; it lists for example %s",
                        checkpoint->path, tensor,
                        entry != NULL ? json_object_iter_key(entry) : "none");
    }
    while (*out != NULL && strcmp((*out)->name, name) != 0) {
        *out = (*out)->next;
    }
    if (*out != NULL) {
        return PERSEUS_OK;
    }
    if (strchr(name, '/') != NULL || !ends_with(name, ENDING) ||
        strlen(name) >= sizeof checkpoint->shards->name) {
        return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                        "%s: tensor %s is in \"%.64s\"; a .safetensors file beside the index is "
                        "needed: save the model as safetensors",
                        checkpoint->path, tensor, name);
    }
    char path[PATH_MAX + sizeof checkpoint->shards->name];
    const char *slash = strrchr(checkpoint->path, '/');
    int folder = slash != NULL ? (int)(slash - checkpoint->path) + 1 : 0;
    snprintf(path, sizeof path, "%.*s%s", folder, checkpoint->path, name);
    return open_shard(checkpoint, path, name, log, out);
}

static enum perseus_status read_index(struct prs_checkpoint *checkpoint, const struct prs_log *log)
{
    json_error_t error;
    checkpoint->index = json_load_file(checkpoint->path, JSON_REJECT_DUPLICATES, &error);
    checkpoint->files = json_object_get(checkpoint->index, "weight_map");
    if (checkpoint->index == NULL) {
        return prs_fail(log, PERSEUS_PROTOCOL, "%s: line %d: expected JSON: %s", checkpoint->path,
                        error.line, error.text);
    }
    return json_is_object(checkpoint->files)
               ? PERSEUS_OK
               : prs_fail(
                     log, PERSEUS_PROTOCOL,
                     "%s: expected an object \"weight_map\" of tensors and their files: is this "
                     "the index of a model (" INDEX_NAME ")?",
                     checkpoint->path);
}

/* ---- life ---- */

static enum perseus_status refuse_container(const char *path, const struct prs_log *log)
{
    static const struct {
        const char *ending, *what;
    } others[] = {
        {".bin", "PyTorch's pickle"},
        {".pt", "PyTorch's pickle"},
        {".pth", "PyTorch's pickle"},
        {".ckpt", "PyTorch's pickle"},
        {".gguf", "llama.cpp's"},
        {".npz", "an archive of arrays"},
        {".msgpack", "Flax's msgpack"},
        {".onnx", "ONNX"},
        {".h5", "HDF5"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (ends_with(path, others[i].ending)) {
            return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                            "weights %s: this container (%s) is not read: save the model as "
                            "safetensors (transformers' save_pretrained does)",
                            path, others[i].what);
        }
    }
    return PERSEUS_OK;
}

/* A folder stands for the index in it, or the one file. */
static void find_in_folder(struct prs_checkpoint *checkpoint, const char *path)
{
    struct stat about;
    snprintf(checkpoint->path, sizeof checkpoint->path, "%s", path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        snprintf(checkpoint->path, sizeof checkpoint->path, "%s/" INDEX_NAME, path);
        if (access(checkpoint->path, R_OK) != 0) {
            snprintf(checkpoint->path, sizeof checkpoint->path, "%s/" SINGLE_NAME, path);
        }
    }
}

enum perseus_status prs_checkpoint_open(const char *path, const struct prs_log *log,
                                        struct prs_checkpoint **out)
{
    struct prs_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    struct shard *only;
    if (checkpoint == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory to read %s", path);
    }
    find_in_folder(checkpoint, path);
    enum perseus_status status = refuse_container(path, log);
    if (status == PERSEUS_OK) {
        status = ends_with(checkpoint->path, ".json")
                     ? read_index(checkpoint, log)
                     : open_shard(checkpoint, checkpoint->path, "", log, &only);
    }
    if (status != PERSEUS_OK) {
        prs_checkpoint_close(checkpoint);
        return status;
    }
    *out = checkpoint;
    return PERSEUS_OK;
}

void prs_checkpoint_close(struct prs_checkpoint *checkpoint)
{
    if (checkpoint == NULL) {
        return;
    }
    while (checkpoint->shards != NULL) {
        struct shard *shard = checkpoint->shards;
        checkpoint->shards = shard->next;
        prs_safetensors_destroy(shard->file);
        prs_file_map_finish(&shard->map);
        free(shard);
    }
    json_decref(checkpoint->index);
    free(checkpoint);
}

/* ---- tensors ---- */

bool prs_checkpoint_has(const struct prs_checkpoint *checkpoint, const char *tensor)
{
    return checkpoint->index != NULL ? json_object_get(checkpoint->files, tensor) != NULL
                                     : prs_safetensors_has(checkpoint->shards->file, tensor);
}

enum perseus_status prs_checkpoint_find(struct prs_checkpoint *checkpoint, const char *tensor,
                                        const struct prs_log *log, struct prs_tensor *out)
{
    struct shard *shard;
    enum perseus_status status = shard_of(checkpoint, tensor, log, &shard);
    return status == PERSEUS_OK ? prs_safetensors_find(shard->file, tensor, log, out) : status;
}

const char *prs_checkpoint_path(const struct prs_checkpoint *checkpoint)
{
    return checkpoint->path;
}

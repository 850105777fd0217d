/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cluster.h"

#include <stdlib.h>

static enum perseus_status build_further(const struct sim_pe_config *first, uint32_t index,
                                         struct sim_cluster *cluster)
{
    struct sim_pe_config config = *first;
    enum perseus_status status = PERSEUS_OK;
    config.beside = cluster->pes[index];
    for (uint32_t i = 1; i < cluster->channels && status == PERSEUS_OK; i++) {
        status = sim_pe_create(&config, &cluster->further[index * (cluster->channels - 1) + i - 1]);
    }
    return status;
}

static enum perseus_status build_pes(const struct sim_cluster_config *config,
                                     struct sim_cluster *cluster)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < config->n_pes && status == PERSEUS_OK; i++) {
        void *context = config->context_of != NULL ? config->context_of(config->context, i) : NULL;
        struct sim_pe_config pe = {.platform = config->platform,
                                   .timeline = cluster->timeline,
                                   .net = cluster->net,
                                   .rank = i % config->job_pes,
                                   .n_pes = config->job_pes,
                                   .ordering = config->ordering,
                                   .stock = config->stock,
                                   .piece_bytes = config->piece_bytes,
                                   .mode = config->mode,
                                   .words_bytes = config->words_bytes,
                                   .heap_bytes = config->heap_bytes,
                                   .ring_slots = config->ring_slots,
                                   .written = config->written,
                                   .completed = config->completed,
                                   .context = context,
                                   .log = config->log};
        status = sim_pe_create(&pe, &cluster->pes[i]);
        if (status == PERSEUS_OK) {
            status = build_further(&pe, i, cluster);
        }
    }
    return status;
}

static enum perseus_status connect(const struct sim_cluster_config *config,
                                   struct sim_cluster *cluster)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < config->n_pes && status == PERSEUS_OK; i++) {
        size_t job = i - i % config->job_pes;
        unsigned char *directory = cluster->directory + job * SIM_DIRECTORY_STRIDE;
        unsigned char *windows = cluster->windows + job * SIM_WINDOWS_STRIDE;
        status = sim_pe_export(cluster->pes[i], directory, windows);
        for (uint32_t channel = 0; channel < cluster->channels; channel++) {
            sim_pe_set_directory(sim_cluster_channel(cluster, i, channel), directory, windows);
        }
    }
    uint32_t node_pes = config->platform->pes_per_node;
    for (uint32_t i = 0; i < config->n_pes && config->meet && status == PERSEUS_OK; i++) {
        uint32_t self = i % config->job_pes;
        for (uint32_t peer = 0; peer < config->job_pes && status == PERSEUS_OK; peer++) {
            bool is_far = peer / node_pes != self / node_pes;
            for (uint32_t c = 0; is_far && c < cluster->channels && status == PERSEUS_OK; c++) {
                status = sim_pe_meet(sim_cluster_channel(cluster, i, c), peer);
            }
        }
    }
    return status;
}

enum perseus_status sim_cluster_create(const struct sim_cluster_config *config,
                                       struct sim_cluster *out)
{
    *out = (struct sim_cluster){.n_pes = config->n_pes,
                                .job_pes = config->job_pes,
                                .channels = config->channels > 0 ? config->channels : 1};
    enum perseus_status status = prs_timeline_create(&out->timeline);
    if (status == PERSEUS_OK) {
        status =
            prs_sim_net_create(&config->platform->fabric, config->seed, out->timeline, &out->net);
    }
    out->pes = calloc(config->n_pes, sizeof *out->pes);
    out->further = calloc((size_t)config->n_pes * out->channels, sizeof *out->further);
    out->directory = calloc(config->n_pes, SIM_DIRECTORY_STRIDE);
    out->windows = calloc(config->n_pes, SIM_WINDOWS_STRIDE);
    if (out->pes == NULL || out->further == NULL || out->directory == NULL ||
        out->windows == NULL) {
        status = PERSEUS_OUT_OF_MEMORY;
    }
    if (status == PERSEUS_OUT_OF_MEMORY) {
        prs_fail(config->log, status, "no memory for a cluster of %u PEs", config->n_pes);
    }
    if (status == PERSEUS_OK) {
        status = build_pes(config, out);
    }
    if (status == PERSEUS_OK) {
        status = connect(config, out);
    }
    if (status != PERSEUS_OK) {
        sim_cluster_destroy(out);
    }
    return status;
}

struct sim_pe *sim_cluster_channel(const struct sim_cluster *cluster, uint32_t pe, uint32_t turn)
{
    uint32_t channel = turn % cluster->channels;
    return channel == 0 ? cluster->pes[pe]
                        : cluster->further[pe * (cluster->channels - 1) + channel - 1];
}

void sim_cluster_destroy(struct sim_cluster *cluster)
{
    uint32_t n_further = cluster->n_pes * (cluster->channels - 1);
    for (uint32_t i = 0; cluster->further != NULL && i < n_further; i++) {
        sim_pe_destroy(cluster->further[i]);
    }
    for (uint32_t i = 0; cluster->pes != NULL && i < cluster->n_pes; i++) {
        sim_pe_destroy(cluster->pes[i]);
    }
    prs_sim_net_destroy(cluster->net);
    prs_timeline_destroy(cluster->timeline);
    free(cluster->pes);
    free(cluster->further);
    free(cluster->directory);
    free(cluster->windows);
    *cluster = (struct sim_cluster){0};
}

void sim_cluster_stats(const struct sim_cluster *cluster, struct perseus_stats *out)
{
    *out = (struct perseus_stats){0};
    for (uint32_t i = 0; i < cluster->n_pes * cluster->channels; i++) {
        const uint32_t pe = i / cluster->channels, channel = i % cluster->channels;
        struct perseus_stats one;
        prs_orderer_stats(sim_pe_orderer(sim_cluster_channel(cluster, pe, channel)),
                          PRS_ORDER_ALL_PEERS, &one);
        out->puts += one.puts;
        out->put_bytes += one.put_bytes;
        out->signals += one.signals;
        out->signal_messages += one.signal_messages;
        out->fences += one.fences;
        out->fence_flags += one.fence_flags;
        out->drains += one.drains;
        out->drain_ns += one.drain_ns;
        out->again += one.again;
        out->deferred += one.deferred;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* perseus sim: a cluster that is not here, in virtual time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/options.h"
#include "kit/tool_log.h"
#include "sim/command.h"

struct options {
    struct prs_sim_job job;
    bool check, compare, fit, presets, fields;
    const char *show;
};

static const char *apply_setting(const char *word, void *target)
{
    struct prs_sim_job *job = target;
    char name[SIM_NAME_MAX];
    const char *equals = strchr(word, '=');
    char *end = NULL;
    if (equals == NULL || (size_t)(equals - word) >= sizeof name) {
        return "fields as fabric.hop_ns=5, separated by commas";
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
    double value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end != '\0' ||
        sim_platform_set(&job->platform, name, value, &job->log) != PERSEUS_OK) {
        return "fields of --fields, each with a number that it can have";
    }
    return NULL;
}

/* The file of a fitted preset says which command printed it. */
static const char *origin_of(const char *name, const char *text)
{
    size_t length = strlen(name), ending = strlen("-base");
    bool is_base = length > ending && strcmp(name + length - ending, "-base") == 0;
    return strstr(text, "\n# Printed by perseus sim --fit ") != NULL ? "fitted"
           : is_base                                                 ? "not fitted"
                                                                     : "estimate";
}

static int list_presets(void)
{
    const char *name;
    for (uint32_t i = 0; (name = sim_preset_name(i)) != NULL; i++) {
        const char *text = sim_preset_text(name); /* the licence, then a line on what it is */
        const char *line = strchr(text, '\n') + 1;
        printf("%-21s %-10s %.*s\n", name, origin_of(name, text), (int)strcspn(line + 2, "\n"),
               line + 2);
    }
    return PRS_EXIT_OK;
}

static int list_fields(const struct prs_sim_job *job)
{
    struct sim_field field;
    for (uint32_t i = 0; sim_platform_field(i, &field); i++) {
        double value = 0;
        (void)sim_platform_get(&job->platform, field.name, &value);
        printf("%-28s %10.5g   %s\n", field.name, value, field.help);
    }
    return PRS_EXIT_OK;
}

static int show_preset(const struct prs_command *command, const char *name)
{
    const char *text = sim_preset_text(name);
    if (text == NULL) {
        return prs_command_mistake(command, "there is no preset %s", name);
    }
    fputs(text, stdout);
    return PRS_EXIT_OK;
}

/* Given without a value. */
static const char *parse_switch(const char *text, void *target)
{
    (void)text;
    *(const char **)target = "1";
    return NULL;
}

enum { N_PLAIN = 19, N_OPTIONS = N_PLAIN + PRS_SIM_DIMENSIONS };

static void fill_options(struct options *options, struct prs_option rows[N_OPTIONS])
{
    struct prs_sim_job *job = &options->job;
    const struct prs_option all[N_PLAIN] = {
        {"compare", NULL, "every published number beside the simulated one", prs_parse_on,
         &options->compare},
        {"fit", NULL, "fit the scenario's platform to the paper's numbers", prs_parse_on,
         &options->fit},
        {"fit-on", "FIGURES", "fit to these figures only (5,7); the others show how it holds",
         prs_parse_text, &job->fit_on},
        {"calibrate", "FILE",
         "fit the scenario's fabric to a file of perseus bench put-signal --json", prs_parse_text,
         &job->calibrate},
        {"rounds", "N", "of a fit (default 100)", prs_parse_count, &job->rounds},
        {"write", "FILE", "the scenario that a fit found", prs_parse_text, &job->write.path},
        {"scenario", "NAME", "a preset or a scenario file (default slingshot11-a100)",
         prs_parse_text, &job->scenario},
        {"set", "FIELD=N,...", "changes fields of the scenario", prs_parse_text, &job->settings},
        {"presets", NULL, "lists the presets, and which are fitted and which estimates",
         prs_parse_on, &options->presets},
        {"show", "PRESET", "prints a preset's file, to begin one's own with", prs_parse_text,
         &options->show},
        {"fields", NULL, "lists the fields of a scenario, with their values", prs_parse_on,
         &options->fields},
        {"check", NULL, "hostile schedules on every mode; a failure shows the least that fails",
         prs_parse_on, &options->check},
        {"schedules", "N", "of a check (default 2000)", prs_parse_count, &job->schedules},
        {"figure", "ID", "a figure of the paper: 1, 5a, 5b, 5c, 7, 8, 9, 10, alltoall",
         prs_parse_text, &job->figure},
        {"plot", "FILE.svg", "draws the figure with gnuplot, published points beside ours",
         prs_parse_text, &job->plot},
        {"csv", "FILE", "the figure's points", prs_parse_text, &job->csv.path},
        {"sweep", "NAME=V,...", "runs over one of the options from --model on, or a field",
         prs_parse_text, &job->sweep},
        {"seed", "N", "of all chance (default 1)", prs_parse_seed, &job->seed},
        {"json", "FILE", "write the results as JSON", prs_parse_text, &job->json.path},
    };
    memcpy(rows, all, sizeof all);
    for (uint32_t i = 0; i < PRS_SIM_DIMENSIONS; i++) {
        const struct prs_sim_dimension *of = &prs_sim_dimensions[i];
        rows[N_PLAIN + i] = (struct prs_option){
            of->name, of->argument, of->help, of->argument == NULL ? parse_switch : prs_parse_text,
            &job->dimensions[i]};
    }
}

static int run(const struct prs_command *command, struct options *options)
{
    struct prs_sim_job *job = &options->job;
    const struct prs_output outputs[] = {job->json, job->csv, job->write};
    if (options->presets) {
        return list_presets();
    }
    if (options->show != NULL) {
        return show_preset(command, options->show);
    }
    if (sim_platform_load(job->scenario, &job->log, &job->platform) != PERSEUS_OK) {
        return PRS_EXIT_USAGE;
    }
    const char *wrong =
        job->settings == NULL ? NULL : prs_parse_words(job->settings, apply_setting, job);
    if (wrong != NULL) {
        return prs_command_mistake(command, "--set takes %s", wrong);
    }
    if (!prs_output_check(outputs, sizeof outputs / sizeof outputs[0])) {
        return PRS_EXIT_FAILED;
    }
    if (options->fields) {
        return list_fields(job);
    }
    if (job->plot != NULL && job->figure == NULL) {
        return prs_command_mistake(command, "--plot draws a --figure");
    }
    return options->check        ? prs_sim_check(job)
           : options->compare    ? prs_sim_compare(job)
           : options->fit        ? prs_sim_fit(job)
           : job->calibrate      ? prs_sim_calibrate(job)
           : job->figure != NULL ? prs_sim_figure(job)
           : job->dimensions[PRS_SIM_DIMENSION_MODEL] != NULL
               ? prs_sim_whatif(job)
               : prs_command_mistake(
                     command, "one of --calibrate, --check, --compare, --fit, --figure, --model, "
                              "--presets, --show and --fields");
}

int prs_tool_sim(int argc, char **argv)
{
    struct options options = {.job = {.scenario = "slingshot11-a100",
                                      .seed = 1,
                                      .rounds = 100,
                                      .schedules = 2000,
                                      .csv = {.option = "--csv"},
                                      .json = {.option = "--json"},
                                      .write = {.option = "--write"},
                                      .log = prs_tool_log()}};
    struct prs_option rows[N_OPTIONS];
    int exit_code = PRS_EXIT_OK;
    fill_options(&options, rows);
    const struct prs_command command = {
        .name = "perseus sim",
        .summary = "Runs the production ring, orderer and proxy on a cluster in virtual time.\n"
                   "docs/simulator.md says what is modelled, what is not, and how far to trust it.",
        .options = rows,
        .n_options = N_OPTIONS};
    if (!prs_command_parse(&command, argc, argv, NULL, &exit_code)) {
        return exit_code;
    }
    return run(&command, &options);
}

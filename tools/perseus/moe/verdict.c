/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/verdict.h"

#include <math.h>

/* What counts as a difference between two medians of one run. */
#define GAIN_MIN  1.1  /* of communication */
#define TOTAL_MIN 1.02 /* of a total */
#define NOISE     0.97 /* less than this of a ceiling is below it */
/* Proxies stood still for so much of a forward's communication. */
#define STALL_MIN 0.2

/* A variant and its result. */
struct entry {
    const struct prs_moe_variant *variant;
    const struct prs_moe_result *result;
};

struct facts {
    struct entry vanilla, grouped, ordered, both; /* the fastest of each role in communication */
    struct entry lead;                            /* both levers, or the only one there is */
    struct entry lead_total;                      /* the same, by total */
    struct entry fastest;                         /* in communication, of all but ceilings */
    struct entry first;                           /* in total, of all but ceilings */
    struct entry collective;
    double ceiling; /* communication of the lowest one; NaN: none */
};

static bool is_better(double value, const struct entry *than, double (*of)(const struct entry *))
{
    return than->result == NULL || value < of(than);
}

static double comm_of(const struct entry *entry)
{
    return entry->result->comm;
}

static double total_of(const struct entry *entry)
{
    return entry->result->total;
}

static void take(struct entry *best, const struct entry *entry, double (*of)(const struct entry *))
{
    if (is_better(of(entry), best, of)) {
        *best = *entry;
    }
}

static struct facts facts_of(const struct prs_moe_results *results)
{
    struct facts facts = {.ceiling = (double)NAN};
    struct entry grouped = {NULL, NULL}, both = {NULL, NULL}; /* by total */
    for (uint32_t i = 0; i < results->n_variants; i++) {
        const struct entry entry = {&results->variants[i], &results->result[i]};
        if (!entry.result->is_run) {
            continue;
        }
        if (entry.variant->role == PRS_MOE_CEILING) {
            facts.ceiling = fmin(facts.ceiling, entry.result->comm); /* ignores the NaN */
            continue;
        }
        struct entry *const roles[] = {[PRS_MOE_VANILLA] = &facts.vanilla,
                                       [PRS_MOE_GROUPED] = &facts.grouped,
                                       [PRS_MOE_ORDERED] = &facts.ordered,
                                       [PRS_MOE_BOTH] = &facts.both};
        if (entry.variant->role != PRS_MOE_OTHER) {
            take(roles[entry.variant->role], &entry, comm_of);
        } else if (entry.variant->number == PERSEUS_MOE_COLLECTIVE) {
            facts.collective = entry;
        }
        if (entry.variant->role == PRS_MOE_GROUPED) {
            take(&grouped, &entry, total_of);
        } else if (entry.variant->role == PRS_MOE_BOTH) {
            take(&both, &entry, total_of);
        }
        take(&facts.fastest, &entry, comm_of);
        take(&facts.first, &entry, total_of);
    }
    facts.lead = facts.both.result != NULL ? facts.both : facts.grouped;
    facts.lead_total = both.result != NULL ? both : grouped;
    return facts;
}

static double gain_of(const struct facts *facts, const struct entry *entry)
{
    return facts->vanilla.result->comm / entry->result->comm;
}

/* ---- what was in the way ---- */

static bool always(const struct facts *facts)
{
    (void)facts;
    return true;
}

static bool sends_nothing(const struct facts *facts)
{
    return facts->vanilla.result->fences == 0;
}

static bool helps(const struct facts *facts)
{
    return gain_of(facts, &facts->lead) >= GAIN_MIN;
}

static bool stalls(const struct facts *facts)
{
    return facts->vanilla.result->stall >= STALL_MIN * facts->vanilla.result->comm;
}

static bool stalls_and_helps(const struct facts *facts)
{
    return stalls(facts) && helps(facts);
}

static void say_nothing_sent(const struct facts *facts, FILE *to)
{
    fprintf(to,
            "Signaling was no bottleneck: no signal left a node; communication takes %.2f ms.\n",
            facts->vanilla.result->comm);
}

static void say_fences(const struct facts *facts, FILE *to)
{
    fprintf(
        to,
        "The bottleneck was the fence of every put-with-signal: %.0f drains held up the proxies "
        "for %.2f ms each of a forward.\n",
        facts->vanilla.result->drains, facts->vanilla.result->stall);
}

static void say_stall_stays(const struct facts *facts, FILE *to)
{
    fprintf(to,
            "Proxies stood still for %.2f ms each of a vanilla forward (%.0f drains), yet "
            "communication takes %.2f ms with %s and %.2f ms without: what a drain waits for, the "
            "others wait for too.\n",
            facts->vanilla.result->stall, facts->vanilla.result->drains, facts->lead.result->comm,
            facts->lead.variant->name, facts->vanilla.result->comm);
}

static void say_signals(const struct facts *facts, FILE *to)
{
    fprintf(to,
            "Signaling was in the way, but not by standing proxies (%.2f ms each of a vanilla "
            "forward).\n",
            facts->vanilla.result->stall);
}

static void say_no_bottleneck(const struct facts *facts, FILE *to)
{
    fprintf(
        to,
        "Signaling was no bottleneck: communication takes %.2f ms in the vanilla way and %.2f ms "
        "with %s.\n",
        facts->vanilla.result->comm, facts->lead.result->comm, facts->lead.variant->name);
}

/* ---- what the levers do ---- */

static bool is_only_lever(const struct facts *facts)
{
    return facts->both.result == NULL;
}

static const struct entry *better_lever(const struct facts *facts)
{
    return facts->grouped.result->comm < facts->ordered.result->comm ? &facts->grouped
                                                                     : &facts->ordered;
}

static const char *lever_name(const struct facts *facts)
{
    return better_lever(facts) == &facts->grouped ? "Decoupled signaling (fewer fences)"
                                                  : "Ordering without a drain (cheap fences)";
}

static bool one_does_more(const struct facts *facts)
{
    const struct entry *lever = better_lever(facts);
    return gain_of(facts, lever) >= GAIN_MIN &&
           gain_of(facts, lever) > TOTAL_MIN * gain_of(facts, &facts->both);
}

static bool is_slower(const struct facts *facts)
{
    return gain_of(facts, &facts->lead) <= 1 / GAIN_MIN;
}

static void say_only_lever(const struct facts *facts, FILE *to)
{
    fprintf(to,
            "No ordering but drain was asked for, or is kept here: decoupled signaling is the only "
            "lever; with it communication is %.1f times as fast.\n",
            gain_of(facts, &facts->grouped));
}

static void say_one_does_more(const struct facts *facts, FILE *to)
{
    const struct entry *lever = better_lever(facts);
    fprintf(to,
            "%s alone makes communication %.1f times as fast (%.2f instead of %.2f ms); the other "
            "lever adds nothing to that (both: %.2f ms).\n",
            lever_name(facts), gain_of(facts, lever), lever->result->comm,
            facts->vanilla.result->comm, facts->both.result->comm);
}

static void say_both(const struct facts *facts, FILE *to)
{
    fprintf(to,
            "%s alone makes communication %.1f times as fast, both levers %.1f times: %.2f instead "
            "of %.2f ms.\n",
            lever_name(facts), gain_of(facts, better_lever(facts)), gain_of(facts, &facts->both),
            facts->both.result->comm, facts->vanilla.result->comm);
}

static void say_slower(const struct facts *facts, FILE *to)
{
    fprintf(to, "With %s communication is slower than in the vanilla way: %.2f against %.2f ms.\n",
            facts->lead.variant->name, facts->lead.result->comm, facts->vanilla.result->comm);
}

static void say_nothing(const struct facts *facts, FILE *to)
{
    (void)facts, (void)to;
}

/* ---- how far it is from the ceiling ---- */

static bool has_no_ceiling(const struct facts *facts)
{
    return isnan(facts->ceiling);
}

static bool is_above_ceiling(const struct facts *facts)
{
    return facts->fastest.result->comm < NOISE * facts->ceiling;
}

static void say_above_ceiling(const struct facts *facts, FILE *to)
{
    fprintf(to,
            "%s communicates in %.2f ms, the same puts without any order took %.2f: times of this "
            "run scatter more than ordering costs.\n",
            facts->fastest.variant->name, facts->fastest.result->comm, facts->ceiling);
}

static void say_ceiling(const struct facts *facts, FILE *to)
{
    fprintf(to, "%s comes closest to the ceiling, puts that nothing orders: %.2f times %.2f ms.\n",
            facts->fastest.variant->name, facts->fastest.result->comm / facts->ceiling,
            facts->ceiling);
}

/* ---- whole forwards ---- */

static bool is_first(const struct facts *facts, const struct entry *entry)
{
    return entry->result != NULL && entry->result == facts->first.result;
}

/* The first, or as good as that. */
static bool leads(const struct facts *facts)
{
    return facts->lead_total.result->total <= TOTAL_MIN * facts->first.result->total;
}

static bool leads_in_name(const struct facts *facts)
{
    return is_first(facts, &facts->lead_total);
}

static bool collective_leads(const struct facts *facts)
{
    return is_first(facts, &facts->collective);
}

static void say_lead(const struct facts *facts, FILE *to)
{
    fprintf(to, "%s has the best total: %.2f ms, %.2f times as fast as the vanilla way's %.2f.\n",
            facts->lead_total.variant->name, facts->lead_total.result->total,
            facts->vanilla.result->total / facts->lead_total.result->total,
            facts->vanilla.result->total);
}

static void say_even(const struct facts *facts, FILE *to)
{
    fprintf(to, "In total %s (%.2f ms) and %s (%.2f ms) are as good as each other.\n",
            facts->first.variant->name, facts->first.result->total, facts->lead_total.variant->name,
            facts->lead_total.result->total);
}

static void say_collective(const struct facts *facts, FILE *to)
{
    fprintf(
        to,
        "The best total is collective's: %.2f ms, against %.2f with %s. Tiles overlap less here "
        "than they cost.\n",
        facts->collective.result->total, facts->lead_total.result->total,
        facts->lead_total.variant->name);
}

static void say_other(const struct facts *facts, FILE *to)
{
    fprintf(to, "The best total is %s's: %.2f ms, against %.2f with %s.\n",
            facts->first.variant->name, facts->first.result->total, facts->lead_total.result->total,
            facts->lead_total.variant->name);
}

static bool is_communication(const struct facts *facts)
{
    return facts->first.result->comm > facts->first.result->total / 2;
}

static void say_communication(const struct facts *facts, FILE *to)
{
    fprintf(to, "Of these %.2f ms communication takes the most.\n", facts->first.result->total);
}

static void say_experts(const struct facts *facts, FILE *to)
{
    fprintf(to, "Of these %.2f ms computing experts takes the most.\n", facts->first.result->total);
}

/* ---- the sentences ---- */

enum { CASES_MAX = 5 };

static const struct {
    bool (*holds)(const struct facts *facts);
    void (*say)(const struct facts *facts, FILE *to);
} sentences[][CASES_MAX] = {
    {{sends_nothing, say_nothing_sent},
     {stalls_and_helps, say_fences},
     {stalls, say_stall_stays},
     {helps, say_signals},
     {always, say_no_bottleneck}},
    {{sends_nothing, say_nothing},
     {is_only_lever, say_only_lever},
     {one_does_more, say_one_does_more},
     {helps, say_both},
     {is_slower, say_slower}},
    {{sends_nothing, say_nothing},
     {has_no_ceiling, say_nothing},
     {is_above_ceiling, say_above_ceiling},
     {always, say_ceiling}},
    {{leads_in_name, say_lead},
     {leads, say_even},
     {collective_leads, say_collective},
     {always, say_other}},
    {{is_communication, say_communication}, {always, say_experts}},
};

void prs_moe_verdict(const struct prs_moe_results *results, FILE *to)
{
    const struct facts facts = facts_of(results);
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        for (int at = 0; at < CASES_MAX && sentences[i][at].holds != NULL; at++) {
            if (sentences[i][at].holds(&facts)) {
                sentences[i][at].say(&facts, to);
                break;
            }
        }
    }
}

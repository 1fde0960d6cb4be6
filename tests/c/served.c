#include "served.h"

#include "base/sn_status.h"
#include "check.h"
#include "pool/sn_prepare.h"

#define MAX_PIXELS 4096

static sn_plan plans[SERVED_PLANS];
static sn_scratch scratch;

void served_begin(void)
{
    plans_make(plans);
    plans_make_sounds(plans + N_PLANS, 1);
    CHECK_EQUAL(sn_scratch_init(&scratch, MAX_PIXELS), 0, "memory");
}

void served_end(void)
{
    sn_scratch_free(&scratch);
}

static sn_context context_of(uint32_t plan)
{
    static const uint64_t path_at[1];
    sn_context context = {.plan = &plans[plan], .paths = "/no such file", .path_at = path_at, .seed = 1};

    CHECK_EQUAL(sn_plan_output_size(context.plan, &context.height, &context.width), 0, "plan %u", plan);
    context.item_bytes = plan_item_bytes(context.plan, context.height, context.width);
    context.beside_bytes = context.plan->has_moves ? sizeof(sn_moves) : 0;
    return context;
}

uint32_t served_copy_bytes(uint32_t plan)
{
    sn_context context = context_of(plan);

    return (uint32_t)sn_context_copy_bytes(&context);
}

static void *zeroes(size_t bytes)
{
    void *made = calloc(1, bytes ? bytes : 1);

    CHECK(made);
    return made;
}

int served_prepare(const served *sample)
{
    static sn_header head;
    static _Atomic uint64_t committed[SN_GROUP / 64], groups[1];
    sn_slot slots[2] = {sample->source, sample->target};
    sn_context context = context_of(sample->plan);
    uint32_t granules = sample->granules + sn_granules_for(sn_context_copy_bytes(&context));
    sn_segment segment = {.head = &head,
                          .slots = slots,
                          .committed = committed,
                          .groups = groups,
                          .n_slots = 2,
                          .n_granules = granules,
                          .n_samples = 1,
                          .payload = aligned_alloc(SN_GRANULE, (size_t)granules * SN_GRANULE)};
    sn_batch batch = {.context = &context, .n_places = 1};
    sn_batch_item place = {.batch = &batch};
    uint8_t *out = zeroes(context.item_bytes);

    CHECK(segment.payload && sample->length <= (size_t)granules * SN_GRANULE);
    memset(segment.payload, 0, (size_t)granules * SN_GRANULE);
    size_t at = (size_t)(sn_slot_payload(&segment, &slots[0]) - segment.payload);
    size_t room = (size_t)granules * SN_GRANULE - at;
    if (sample->length)
        memcpy(segment.payload + at, sample->bytes, sample->length < room ? sample->length : room);
    context.segment = &segment;
    batch.places = &place;
    batch.beside = zeroes(context.beside_bytes);
    batch.erasures = zeroes(sizeof(sn_erasure) * (sn_plan_erasures(context.plan) + 1));
    place.item = (sn_item){.source = (uint8_t)sample->form,
                           .keep = (uint8_t)sample->keep,
                           .role = SN_ALONE,
                           .source_slot = 0,
                           .target_slot = sample->stages ? 1 : SN_NONE};
    slots[0].form = (uint8_t)sample->form;
    atomic_store(&slots[0].state, SN_SLOT_READY);
    atomic_store(&slots[1].state, SN_SLOT_WRITING);
    CHECK_EQUAL(sn_prepare(&scratch, &context, &place, out), 0, "no file is fetched");
    int status = place.status;
    CHECK(status == 0 || status == SN_E_FOR_PILLOW || atomic_load(&place.settled));
    CHECK(!sample->stages || status == SN_E_FOR_PILLOW ||
          sn_slot_state(&slots[1]) == (status == 0 ? SN_SLOT_READY : SN_SLOT_FAILED));
    free(place.kept);
    free(place.message);
    free(place.file.bytes);
    free(batch.beside);
    free(batch.erasures);
    free(segment.payload);
    free(out);
    return status;
}

#include "plans.h"

#include "check.h"

static sn_op resize(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_RESIZE, .size = {height, width}};
}

static sn_op center_crop(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_CENTER_CROP, .size = {height, width}};
}

static sn_op random_resized_crop(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_RANDOM_RESIZED_CROP,
                   .random_resized_crop = {.size = {height, width}, .scale = {0.08, 1.0}, .ratio = {3.0 / 4, 4.0 / 3}}};
}

static sn_op flip(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_HFLIP, .chance = {0.5}};
}

static sn_op vertical_flip(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_VFLIP, .chance = {0.5}};
}

static sn_op pad(void)
{
    return (sn_op){.kind = SN_OP_PAD, .pad = {.padding = {3, 1, 0, 2}, .border = {.mode = SN_PAD_EDGE}}};
}

static sn_op random_crop(uint32_t height, uint32_t width)
{
    return (sn_op){.kind = SN_OP_RANDOM_CROP, .random_crop = {.size = {height, width}, .pad_if_needed = 1}};
}

static sn_op jitter(void)
{
    return (sn_op){.kind = SN_OP_COLOR_JITTER,
                   .color_jitter = {
                       .brightness = {0.6, 1.4}, .contrast = {0.6, 1.4}, .saturation = {0.6, 1.4}, .hue = {-0.1, 0.1}}};
}

static sn_op grayscale(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_GRAYSCALE, .chance = {0.2}};
}

static sn_op affine(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_AFFINE,
                   .random_affine = {.degrees = {-40, 40},
                                     .translate = {0.2, 0.1},
                                     .scale = {0.5, 1.5},
                                     .shear = {-20, 20, -5, 5},
                                     .warp = {.filter = SN_WARP_BICUBIC}}};
}

static sn_op apply(uint32_t span)
{
    return (sn_op){.kind = SN_OP_RANDOM_APPLY, .span = span, .chance = {0.5}};
}

static sn_op gaussian_blur(void)
{
    return (sn_op){.kind = SN_OP_GAUSSIAN_BLUR, .gaussian_blur = {.kernel = {5, 7}, .sigma = {0.1, 2}}};
}

static sn_op sharpness(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_ADJUST_SHARPNESS, .random_adjust_sharpness = {.p = 1, .factor = 1.7}};
}

static sn_op rand_augment(void)
{
    return (sn_op){.kind = SN_OP_RAND_AUGMENT,
                   .rand_augment = {{.filter = SN_WARP_BILINEAR}, .num_ops = 2, .magnitude = 9, .bins = 31}};
}

static sn_op keep_ratio(uint32_t kind)
{
    return (sn_op){.kind = kind,
                   .resize_keep_ratio = {.size = {40, 34},
                                         .longest = 0.5,
                                         .filter = kind == SN_OP_RESIZE_KEEP_RATIO ? SN_BICUBIC : SN_EITHER,
                                         .p = 0.5,
                                         .scale = {0.8, 1},
                                         .by_area = 1,
                                         .aspect_p = 0.5,
                                         .ratio = {0.9, 1.1}}};
}

/* Chains of one operation each, of all that there are. */
static sn_op timm(uint32_t kind)
{
    sn_op op = {.kind = kind,
                .timm = {.warp = {.filter = SN_WARP_EITHER},
                         .num_layers = 2,
                         .distinct = kind == SN_OP_TIMM_AUGMENT,
                         .deviation = 0.5,
                         .most = 10,
                         .share = 0.45,
                         .alpha = 1,
                         .chains = {.count = SN_N_TIMM_OPERATIONS}}};

    for (uint16_t k = 0; k < SN_N_TIMM_OPERATIONS; k++)
        op.timm.chains.parts[k] = (sn_part){k, 1, 1.0f / SN_N_TIMM_OPERATIONS, 0.8f, 9};
    return op;
}

static sn_op aug_mix(void)
{
    return (sn_op){.kind = SN_OP_AUG_MIX,
                   .aug_mix = {{.filter = SN_WARP_BILINEAR}, .severity = 3, .width = 3, .all_ops = 1, .alpha = 1}};
}

static sn_op perspective(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_PERSPECTIVE, .random_perspective = {{.filter = SN_WARP_BILINEAR}, 0.7, 0.5}};
}

static sn_op elastic(void)
{
    return (sn_op){.kind = SN_OP_ELASTIC_TRANSFORM,
                   .elastic_transform = {{.filter = SN_WARP_BILINEAR}, {50, 20}, {2, 3}}};
}

static sn_op zoom_out(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_ZOOM_OUT, .random_zoom_out = {0.5, {1, 2}, {.fill = {9, 8, 7}}}};
}

static sn_op shortest_size(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_SHORTEST_SIZE, .random_shortest_size = {{2, {30, 44}}, .max_size = 60}};
}

static sn_op scale_jitter(void)
{
    return (sn_op){.kind = SN_OP_SCALE_JITTER, .scale_jitter = {{30, 36}, .scale = {0.5, 2}}};
}

static void append(sn_plan *plan, sn_op op, int in_head)
{
    plan->ops[plan->n_ops++] = op;
    plan->n_head += (uint32_t)in_head;
}

void plans_make(sn_plan plans[N_PLANS])
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};

    memset(plans, 0, N_PLANS * sizeof *plans);
    append(&plans[PLAN_TRAIN], random_resized_crop(37, 41), 0); /* rows end amid a vector */
    append(&plans[PLAN_TRAIN], flip(), 0);
    append(&plans[PLAN_TRAIN_2], random_resized_crop(32, 32), 0);
    append(&plans[PLAN_TRAIN_2], flip(), 0);
    append(&plans[PLAN_EVAL], resize(40, 0), 1);
    append(&plans[PLAN_EVAL], center_crop(35, 35), 1);
    append(&plans[PLAN_EVAL], flip(), 0);
    append(&plans[PLAN_TWO], resize(50, 60), 1);
    append(&plans[PLAN_TWO], random_resized_crop(24, 33), 0);
    append(&plans[PLAN_TWO], flip(), 0);
    append(&plans[PLAN_COLOUR], pad(), 1);
    append(&plans[PLAN_COLOUR], random_crop(29, 31), 0);
    append(&plans[PLAN_COLOUR], vertical_flip(), 0);
    append(&plans[PLAN_COLOUR], jitter(), 0);
    append(&plans[PLAN_COLOUR], grayscale(), 0);
    append(&plans[PLAN_RECIPE], center_crop(33, 38), 1);
    append(&plans[PLAN_RECIPE], affine(), 0);
    append(&plans[PLAN_RECIPE], apply(2), 0);
    append(&plans[PLAN_RECIPE], gaussian_blur(), 0);
    append(&plans[PLAN_RECIPE], sharpness(), 0);
    append(&plans[PLAN_RECIPE], rand_augment(), 0);
    append(&plans[PLAN_RECIPE], flip(), 0);
    append(&plans[PLAN_TIMM], keep_ratio(SN_OP_RANDOM_RESIZE_KEEP_RATIO), 0);
    append(&plans[PLAN_TIMM], random_crop(36, 30), 0);
    append(&plans[PLAN_TIMM], flip(), 0);
    append(&plans[PLAN_TIMM], random_resized_crop(31, 33), 0);
    plans[PLAN_TIMM].ops[3].random_resized_crop.filter = SN_EITHER;
    append(&plans[PLAN_TIMM], timm(SN_OP_TIMM_AUGMENT), 0);
    plans[PLAN_TIMM].erase = (sn_erase){.probability = 0.5,
                                        .scale = {0.02, 0.33},
                                        .ratio = {0.3, 3.3},
                                        .fewest = 1,
                                        .most = 3,
                                        .noise = SN_NOISE_COLOURS,
                                        .deviation = {1, 1, 1}};
    append(&plans[PLAN_MIX], keep_ratio(SN_OP_RESIZE_KEEP_RATIO), 1);
    append(&plans[PLAN_MIX], center_crop(29, 32), 1);
    append(&plans[PLAN_MIX], perspective(), 0);
    append(&plans[PLAN_MIX], aug_mix(), 0);
    append(&plans[PLAN_MIX], timm(SN_OP_TIMM_AUG_MIX), 0);
    append(&plans[PLAN_MIX], elastic(), 0);
    append(&plans[PLAN_MIX], flip(), 0);
    append(&plans[PLAN_SIZES], zoom_out(), 0);
    append(&plans[PLAN_SIZES], shortest_size(), 0);
    append(&plans[PLAN_SIZES], scale_jitter(), 0);
    append(&plans[PLAN_SIZES], random_crop(28, 30), 0);
    plans[PLAN_COLOUR].decode = SN_DECODE_FAST;
    plans[PLAN_COLOUR].apply_orientation = 1;
    plans[PLAN_COLOUR].erase =
        (sn_erase){.probability = 0.5, .scale = {0.02, 0.33}, .ratio = {0.3, 3.3}, .noise = 1, .deviation = {1, 1, 1}};

    plans[PLAN_TRAIN].dtype = plans[PLAN_TWO].dtype = plans[PLAN_RECIPE].dtype = plans[PLAN_TIMM].dtype = SN_FLOAT32;
    plans[PLAN_TRAIN_2].dtype = plans[PLAN_EVAL].dtype = plans[PLAN_MIX].dtype = plans[PLAN_SIZES].dtype = SN_UINT8;
    plans[PLAN_COLOUR].dtype = SN_BFLOAT16;
    for (int i = 0; i < N_PLANS; i++) {
        plans[i].channels_last = i == PLAN_TRAIN_2 || i == PLAN_TWO || i == PLAN_SIZES;
        plans[i].divisor = 255;
        memcpy(plans[i].mean, mean, sizeof mean);
        memcpy(plans[i].std, std, sizeof std);
        CHECK_EQUAL(sn_plan_check(&plans[i]), 0, "plan %d", i);
    }
}

static sn_op mono(void)
{
    return (sn_op){.kind = SN_OP_MONO};
}

static sn_op resample(uint32_t rate, uint32_t window)
{
    sn_op op;

    sn_op_begin(&op, SN_OP_RESAMPLE);
    op.resample.rate = rate;
    op.resample.window = window;
    return op;
}

static sn_op time_crop(uint32_t frames, uint32_t start, uint32_t is_centered)
{
    return (sn_op){.kind = SN_OP_TIME_CROP, .time_crop = {frames, start, is_centered}};
}

static sn_op random_time_crop(uint32_t frames)
{
    return (sn_op){.kind = SN_OP_RANDOM_TIME_CROP, .random_time_crop = {frames}};
}

static sn_op gain(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_GAIN, .random_gain = {0.7, {-6, 6}}};
}

static sn_op polarity(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_POLARITY, .chance = {0.5}};
}

static sn_op noise(void)
{
    return (sn_op){.kind = SN_OP_RANDOM_NOISE, .random_noise = {0.6, {3, 30}}};
}

static sn_op time_shift(uint32_t rollover)
{
    return (sn_op){.kind = SN_OP_RANDOM_TIME_SHIFT, .random_time_shift = {0.7, {-0.4, 0.3}, rollover}};
}

void plans_make_sounds(sn_plan plans[N_SOUND_PLANS], uint32_t channels)
{
    memset(plans, 0, N_SOUND_PLANS * sizeof *plans);
    append(&plans[SOUND_CROP], mono(), 1);
    append(&plans[SOUND_CROP], resample(8000, SN_SINC_HANN), 1);
    append(&plans[SOUND_CROP], random_time_crop(701), 0);
    append(&plans[SOUND_CHANGED], mono(), 1);
    append(&plans[SOUND_CHANGED], resample(22050, SN_SINC_KAISER), 1);
    append(&plans[SOUND_CHANGED], random_time_crop(2000), 0);
    append(&plans[SOUND_CHANGED], gain(), 0);
    append(&plans[SOUND_CHANGED], polarity(), 0);
    append(&plans[SOUND_CHANGED], noise(), 0);
    append(&plans[SOUND_CHANGED], time_shift(0), 0);
    append(&plans[SOUND_STEREO], resample(11025, SN_SINC_HANN), 1);
    append(&plans[SOUND_STEREO], time_crop(1500, 0, 1), 1);
    append(&plans[SOUND_STEREO], resample(16000, SN_SINC_HANN), 1);
    append(&plans[SOUND_STEREO], mono(), 1);
    append(&plans[SOUND_STEREO], time_shift(1), 0);
    append(&plans[SOUND_STEREO], noise(), 0);
    append(&plans[SOUND_STEREO], random_time_crop(900), 0);
    append(&plans[SOUND_CUT], time_crop(640, 333, 0), 0);
    append(&plans[SOUND_CUT], gain(), 0);
    plans[SOUND_CROP].dtype = plans[SOUND_STEREO].dtype = SN_FLOAT32;
    plans[SOUND_CHANGED].dtype = SN_FLOAT16;
    plans[SOUND_CUT].dtype = SN_BFLOAT16;
    for (int i = 0; i < N_SOUND_PLANS; i++) {
        plans[i].is_sound = 1;
        plans[i].channels = channels;
        plans[i].divisor = 1;
        plans[i].std[0] = plans[i].std[1] = plans[i].std[2] = 1;
        CHECK_EQUAL(sn_plan_check(&plans[i]), 0, "plan %d of sounds", i);
    }
}

size_t plan_item_bytes(const sn_plan *plan, uint32_t height, uint32_t width)
{
    return sn_plan_item_bytes(plan, height, width);
}

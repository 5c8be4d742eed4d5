/* Files of PyTorch: what is accepted must be readable to its last byte. */
#include "fuzz/mutate.h"

#include <string.h>
#include <zlib.h>

#include "model/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_torch_file *file;
    rc_status status = rc_torch_file_parse("input", data, size, &file);
    FUZZ_EXPECT((status == RC_OK) == (file != NULL));
    volatile unsigned sum = 0; /* so that the bytes are read */
    for (int i = 0; file != NULL && i < rc_torch_file_count(file); i++) {
        const rc_named_tensor *tensor = rc_torch_file_at(file, i);
        const uint8_t *bytes = tensor->data;
        size_t count = rc_named_tensor_bytes(tensor);
        FUZZ_EXPECT(tensor->dims <= RC_TENSOR_DIMS && strlen(tensor->name) <= size);
        if (count > 0)
            sum = sum + bytes[0] + bytes[count - 1];
        for (int k = 0; k < i; k++)
            FUZZ_EXPECT(strcmp(rc_torch_file_at(file, k)->name, tensor->name) != 0);
    }
    rc_torch_file_close(file);
    return 0;
}

/* ---- the mutator: takes the archive apart, changes an entry, puts it together with the right checksums ----------- */

enum { LOCAL = 30, ENTRY = 46, END = 22, MOST_ENTRIES = 64, ROOM = 1 << 17 };
typedef struct entry {
    size_t name, name_size; /* in the input */
    size_t at, size;        /* in `room`, unpacked */
    bool deflated;
} entry;
typedef struct archive {
    entry entries[MOST_ENTRIES];
    int count;
    fuzz_input room;
} archive;

static size_t get(const uint8_t *from, int bytes)
{
    size_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (size_t)from[i] << (8 * i);
    return value;
}

static void put(uint8_t *to, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* Appends the unpacked bytes of an entry to `room`. */
static bool unpack(const fuzz_input *in, size_t at, size_t packed, entry *e, fuzz_input *room)
{
    if (at > in->size || packed > in->size - at)
        return false;
    e->at = room->size;
    if (!e->deflated) {
        e->size = packed;
        return fuzz_replace(room, room->size, 0, in->bytes + at, packed);
    }
    z_stream z = {.next_in = in->bytes + at,
                  .avail_in = (uInt)packed,
                  .next_out = room->bytes + room->size,
                  .avail_out = (uInt)(room->limit - room->size)};
    if (inflateInit2(&z, -15) != Z_OK)
        return false;
    int end = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    e->size = z.total_out;
    room->size += e->size;
    return end == Z_STREAM_END;
}

static bool take_apart(const fuzz_input *in, archive *a)
{
    size_t end = in->size < END ? 0 : in->size - END;
    while (end > 0 && memcmp(in->bytes + end, "PK\5\6", 4) != 0)
        end--;
    if (end == 0)
        return false;
    size_t at = get(in->bytes + end + 16, 4);
    for (size_t left = get(in->bytes + end + 10, 2); left > 0 && a->count < MOST_ENTRIES; left--) {
        if (at >= end || end - at < ENTRY || memcmp(in->bytes + at, "PK\1\2", 4) != 0)
            return a->count > 0;
        entry e = {
            .name = at + ENTRY, .name_size = get(in->bytes + at + 28, 2), .deflated = get(in->bytes + at + 10, 2) == 8};
        size_t local = get(in->bytes + at + 42, 4);
        if (e.name_size > end - e.name || local >= in->size || in->size - local < LOCAL)
            return a->count > 0;
        size_t bytes = local + LOCAL + get(in->bytes + local + 26, 2) + get(in->bytes + local + 28, 2);
        if (unpack(in, bytes, get(in->bytes + at + 20, 4), &e, &a->room))
            a->entries[a->count++] = e;
        at += ENTRY + e.name_size + get(in->bytes + at + 30, 2) + get(in->bytes + at + 32, 2);
    }
    return a->count > 0;
}

/* One of the entries; those behind it in `room` move. */
static void change(archive *a)
{
    int which = (int)fuzz_roll(&a->room, (size_t)a->count);
    for (int i = 0; i < a->count && !fuzz_one_in(&a->room, 4); i++) /* the pickle, most of the time */
        if (a->entries[i].size > 2 && a->room.bytes[a->entries[i].at] == 0x80)
            which = i;
    entry *e = &a->entries[which];
    if (fuzz_one_in(&a->room, 10)) {
        *e = a->entries[--a->count];
        return;
    }
    if (fuzz_one_in(&a->room, 10) && a->count < MOST_ENTRIES) {
        a->entries[a->count++] = *e;
        return;
    }
    if (fuzz_one_in(&a->room, 6))
        e->deflated = !e->deflated;
    size_t old = e->size;
    bool pickle = e->size > 0 && a->room.bytes[e->at] == 0x80;
    e->size = pickle ? fuzz_mutate_pickle(&a->room, e->at, old) : fuzz_mutate_part(&a->room, e->at, old);
    for (int i = 0; i < a->count; i++)
        if (a->entries[i].at > e->at)
            a->entries[i].at += e->size - old;
}

/* Appends an entry to `out` and its line of the directory to `directory`. */
static bool write_entry(const fuzz_input *in, const archive *a, const entry *e, fuzz_input *out, fuzz_input *directory)
{
    static uint8_t packed[ROOM];
    const uint8_t *bytes = a->room.bytes + e->at;
    size_t size = e->size;
    if (e->deflated) {
        z_stream z = {
            .next_in = a->room.bytes + e->at, .avail_in = (uInt)e->size, .next_out = packed, .avail_out = ROOM};
        if (deflateInit2(&z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
            return false;
        int end = deflate(&z, Z_FINISH);
        deflateEnd(&z);
        if (end != Z_STREAM_END)
            return false;
        bytes = packed;
        size = z.total_out;
    }
    uint8_t head[ENTRY] = {'P', 'K', 1, 2}, local[LOCAL] = {'P', 'K', 3, 4};
    put(head + 10, e->deflated ? 8 : 0, 2);
    put(head + 16, crc32(0, a->room.bytes + e->at, (uInt)e->size), 4);
    put(head + 20, size, 4);
    put(head + 24, e->size, 4);
    put(head + 28, e->name_size, 2);
    put(head + 42, out->size, 4);
    memcpy(local + 8, head + 10, 20); /* from the method to the length of the name */
    return fuzz_replace(out, out->size, 0, local, LOCAL) &&
           fuzz_replace(out, out->size, 0, in->bytes + e->name, e->name_size) &&
           fuzz_replace(out, out->size, 0, bytes, size) && fuzz_replace(directory, directory->size, 0, head, ENTRY) &&
           fuzz_replace(directory, directory->size, 0, in->bytes + e->name, e->name_size);
}

static bool put_together(fuzz_input *in, const archive *a)
{
    static uint8_t out_bytes[ROOM], directory_bytes[ROOM];
    fuzz_input out = fuzz_input_of(out_bytes, 0, in->limit < ROOM ? in->limit : ROOM, 0);
    fuzz_input directory = fuzz_input_of(directory_bytes, 0, ROOM, 0);
    for (int i = 0; i < a->count; i++)
        if (!write_entry(in, a, &a->entries[i], &out, &directory))
            return false;
    uint8_t end[END] = {'P', 'K', 5, 6};
    put(end + 8, (size_t)a->count, 2);
    put(end + 10, (size_t)a->count, 2);
    put(end + 12, directory.size, 4);
    put(end + 16, out.size, 4);
    if (fuzz_one_in(in, 8) && directory.size > 4) /* a claim of the directory that is wrong */
        directory.bytes[4 + fuzz_roll(in, directory.size - 4)] = (uint8_t)fuzz_odd_number(in);
    return fuzz_replace(&out, out.size, 0, directory.bytes, directory.size) &&
           fuzz_replace(&out, out.size, 0, end, END) && fuzz_replace(in, 0, in->size, out.bytes, out.size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    static uint8_t room[ROOM];
    static archive a;
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    a.count = 0;
    a.room = fuzz_input_of(room, 0, ROOM, seed + 1);
    if (fuzz_one_in(&in, 12))
        return LLVMFuzzerMutate(data, size, limit);
    if (!take_apart(&in, &a)) {
        fuzz_mutate_pickle(&in, 0, in.size); /* a file of before there were archives */
        return in.size;
    }
    change(&a);
    return put_together(&in, &a) ? in.size : LLVMFuzzerMutate(data, size, limit);
}

/* A reader of zip archives in memory, as PyTorch writes them: entries as they are or deflated. The directory at the end
 * comes from strangers: every place and size that it claims is checked, and what an entry unpacks to is bounded and
 * compared with its checksum. Archives of more than one file and encrypted ones are refused. Of zip64 (archives of more
 * than 4 GB or 65535 entries) it reads all that PyTorch writes. */
#ifndef RC_DATA_ZIP_H
#define RC_DATA_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rc_zip rc_zip;

/* Does it begin as an archive does? */
bool rc_zip_is(const uint8_t *data, size_t size);

/* `name` is what messages call the archive; it and the bytes must live as long as the archive. */
rc_status rc_zip_parse(const char *name, const uint8_t *data, size_t size, rc_zip **zip);
void rc_zip_free(rc_zip *zip); /* NULL is fine */

int rc_zip_count(const rc_zip *zip);
/* Not ended by a zero byte. */
const char *rc_zip_name(const rc_zip *zip, int index, size_t *length);
/* -1: there is none of that name. */
int rc_zip_find(const rc_zip *zip, const char *name, size_t length);
/* The bytes of an entry, which live as long as the archive. */
rc_status rc_zip_read(rc_zip *zip, int index, const uint8_t **data, size_t *size);

#endif

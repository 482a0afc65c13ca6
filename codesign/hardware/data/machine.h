/* A host's access to the machine. `simulated.cpp` stands behind it in simulation; on a board, writes to mapped registers do. */
#ifndef MACHINE_H
#define MACHINE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct machine_status {
  int code;        /* 0: the launch has ended; otherwise why not */
  uint64_t cycles; /* from start until the machine rests */
  char text[256];  /* for people */
};

/* The machine after a reset, and memory of so many bytes beside it. */
int machine_open(uint64_t dram_bytes);
/* That memory, as the host sees it. */
unsigned char *machine_dram(void);
/* What the launches that follow may touch: pairs of a first byte and an end. */
void machine_regions(const uint32_t *pairs, size_t count);
/* A register or an entry of a table. */
void machine_write(uint32_t address, uint32_t data);
/* Start, and wait until the machine rests. Words are those of its instruction queues, none for a machine of loop nests. */
int machine_run(const uint64_t *array_words, size_t array_count, const uint64_t *dma_words, size_t dma_count, struct machine_status *status);

#ifdef __cplusplus
}
#endif
#endif

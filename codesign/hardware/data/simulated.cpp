// A host's access to the simulated machine. The environment variable MEMORY_TIMING may say the memory beside it, as six, nine or twelve numbers: latency,
// cycles a beat, requests (0: any number), what goes wrong (1 error, 2 order, 3 silence, 4 nothing there, 5 strange tag, 6 answered twice), with which request of
// a launch, whether it is one that writes; then cycles until a write's response, cycles of a hundred in which a channel stalls, and the seed of these; then
// cycles by which latencies are drawn longer, the seed of these, and whether beats of several requests alternate where answers come by tag.
#include <cstdlib>
#include <memory>
#include "bench.hpp"
#include "machine.h"

static std::unique_ptr<Bench> bench;
constexpr uint64_t limit_cycles = 4000000000ull;  // a launch that takes longer is stuck

int machine_open(uint64_t dram_bytes) {
  bench = std::make_unique<Bench>();
  bench->memory.assign(dram_bytes + BUS_BYTES, 0xA5);
  const char* told = getenv("MEMORY_TIMING");
  if (!told) return 0;
  unsigned long long n[12] = {0, 0, 0, 0, 0, 0, 1};
  const int got = sscanf(told, "%llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu", n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, n + 11);
  if ((got != 6 && got != 9 && got != 12) || !n[0] || !n[1] || !n[6] || n[7] > 99) {
    fprintf(stderr, "MEMORY_TIMING wants six, nine or twelve numbers, the first two and the seventh at least 1, the eighth at most 99, got '%s'\n", told);
    return 1;
  }
  bench->timing = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11]};
  return 0;
}

unsigned char* machine_dram(void) { return bench->memory.data(); }

void machine_regions(const uint32_t* pairs, size_t count) {
  bench->regions.clear();
  for (size_t i = 0; i < count; i++) bench->regions.push_back({pairs[2 * i], pairs[2 * i + 1]});
}

void machine_write(uint32_t address, uint32_t data) { bench->write(address, data); }

int machine_run(const uint64_t* array_words, size_t array_count, const uint64_t* dma_words, size_t dma_count, machine_status* status) {
  *status = machine_status{};
  try {
    status->cycles = bench->run({array_words, array_words + array_count}, {dma_words, dma_words + dma_count}, limit_cycles);
  } catch (const Stopped& stopped) {
    status->code = stopped.code;
    snprintf(status->text, sizeof status->text, "%s", stopped.text.c_str());
  }
  return status->code;
}

// A host's access to the simulated machine.
#include <memory>
#include "bench.hpp"
#include "machine.h"

static std::unique_ptr<Bench> bench;
constexpr uint64_t limit_cycles = 4000000000ull;  // a launch that takes longer is stuck

int machine_open(uint64_t dram_bytes) {
  bench = std::make_unique<Bench>();
  bench->memory.assign(dram_bytes + BUS_BYTES, 0xA5);
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

// Runs one image on a machine. Usage: simulation INPUT OUTPUT. INPUT is written by codesign (binary, little-endian):
//   u64 latency, cycles a beat, requests (0: any number), trouble (1 error, 2 order, 3 silence, 4 nothing there, 5 strange tag, 6 answered twice), its request,
//   whether it is one that writes, cycles until a response, cycles of a hundred that stall and the seed of these, cycles by which latencies are drawn longer and
//   the seed of these, whether beats of several requests alternate, limit, register writes, array words, dma words, memory bytes, regions; writes as u32 address, u32 data; words as u64;
//   regions as u64 first, u64 end; the memory. OUTPUT: the memory, then of every byte
//   the cycle in which it was last written (u32, 0 for never); counters go to the standard output.
// Compiled with -DTRACED it takes WAVES and then first and end of windows of cycles, whose signals are written into that file.
#include "bench.hpp"

template <class T> static std::vector<T> take(FILE* f, size_t n) {
  std::vector<T> v(n);
  if (n && fread(v.data(), sizeof(T), n, f) != n) stop(3, "the input ends early");
  return v;
}

static void print(const Bench& bench, uint64_t cycles, double seconds) {
  printf("cycles %llu\nseconds %.6f\n", (unsigned long long)cycles, seconds);
  printf("multiplied %llu\nbegun %llu\nwritten %llu\nsummed %llu\n", (unsigned long long)bench.multiplied, (unsigned long long)bench.begun,
         (unsigned long long)bench.written, (unsigned long long)bench.summed);
  for (size_t i = 0; i < bench.regions.size(); i++)
    printf("region %zu %llu %llu\n", i, (unsigned long long)bench.loaded[i], (unsigned long long)bench.stored[i]);
  for (size_t i = 0; i < bench.feeds.size(); i++)
    if (bench.feeds[i]) printf("feed %zu %zu %zu %llu\n", i / (2 * (WINDOWS)), i / (WINDOWS) % 2, i % (WINDOWS), (unsigned long long)bench.feeds[i]);
}

static int simulate(const char* input, const char* output, char** traced, int numbers) {
  FILE* f = fopen(input, "rb");
  if (!f) return 2;
  Bench bench;
  auto timing = take<uint64_t>(f, 12), head = take<uint64_t>(f, 6);
  bench.timing = {timing[0], timing[1], timing[2], timing[3], timing[4], timing[5], timing[6], timing[7], timing[8], timing[9], timing[10], timing[11]};
  auto writes = take<uint32_t>(f, 2 * head[1]);
  auto array_words = take<uint64_t>(f, head[2]), dma_words = take<uint64_t>(f, head[3]);
  bench.regions = take<Region>(f, head[5]);
  bench.memory = take<unsigned char>(f, head[4]);
  fclose(f);
  bench.memory.resize(bench.memory.size() + BUS_BYTES);
  bench.when.resize(bench.memory.size());
  for (size_t i = 0; i < writes.size(); i += 2) bench.write(writes[i], writes[i + 1]);
#ifdef TRACED
  for (int i = 1; i + 1 < numbers; i += 2) bench.traced.push_back({strtoull(traced[i], nullptr, 10), strtoull(traced[i + 1], nullptr, 10)});
  if (numbers) bench.open_waves(traced[0]);
#endif
  const auto started = std::chrono::steady_clock::now();
  const uint64_t cycles = bench.run(array_words, dma_words, head[0]);
#ifdef TRACED
  if (numbers) bench.close_waves();
#endif
  (void)traced; (void)numbers;
  print(bench, cycles, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  f = fopen(output, "wb");
  if (!f) return 2;
  fwrite(bench.memory.data(), 1, bench.memory.size() - BUS_BYTES, f);
  fwrite(bench.when.data(), 4, bench.when.size() - BUS_BYTES, f);
  fclose(f);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    return simulate(argv[1], argv[2], argv + 3, argc - 3);
  } catch (const Stopped& stopped) {
    fprintf(stderr, "%s\n", stopped.text.c_str());
    return stopped.code;
  }
}

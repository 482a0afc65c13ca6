// What stands around a machine in a simulation: a memory that answers in time or not, and counters of what the machine does.
// Usage: simulation INPUT OUTPUT. INPUT is written by codesign (binary, little-endian):
//   u64 latency, cycles a beat, requests (0: any number), trouble (1 error, 2 order, 3 silence), its request, limit, writes, array words,
//   dma words, memory bytes, regions; writes as u32 address, u32 data; words as u64;
//   regions as u64 first, u64 end; the memory. OUTPUT: the memory, then of every byte
//   the cycle in which it was last written (u32, 0 for never); counters go to the standard output.
// The machine stands in a module that registers every input. So the next cycle's inputs are set while a cycle's outputs are read, and
// each cycle's logic is evaluated once, after the clock's edge.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>
#include "verilated.h"
#include "Vtop.h"

#ifndef BUS_BYTES
#error "compile with -DBUS_BYTES=n"
#endif
#ifndef WINDOWS
#error "compile with -DWINDOWS=n"
#endif

static std::vector<uint64_t> feeds(3 * 2 * (WINDOWS)), loaded, stored;
struct Region { uint64_t first, end; };
static std::vector<Region> regions;

static size_t owner(uint64_t at) {
  for (size_t i = 0; i < regions.size(); i++)
    if (regions[i].first <= at && at < regions[i].end) return i;
  fprintf(stderr, "a burst at DRAM address 0x%llx, where no tensor lies\n", (unsigned long long)at);
  exit(5);
}

// One direction of the memory: bursts are served one after another, in the order of their requests.
struct Burst { uint64_t at, beats, tag, first; };
struct Channel {
  uint64_t latency, beat_cycles, requests, next = 0, served = 0;
  std::deque<Burst> waiting;
  bool takes() const { return !requests || waiting.size() < requests; }
  bool serves(uint64_t cycle) const { return !waiting.empty() && cycle >= waiting.front().first && cycle >= next; }
  void ask(uint64_t cycle, uint64_t at, uint64_t beats, uint64_t tag) { owner(at); waiting.push_back({at, beats, tag, cycle + latency}); }
  void beat(uint64_t cycle) {
    Burst& b = waiting.front();
    b.at += BUS_BYTES; next = cycle + beat_cycles;
    if (!--b.beats) { waiting.pop_front(); served++; }
  }
};

template <class T> static std::vector<T> take(FILE* f, size_t n) {
  std::vector<T> v(n);
  if (n && fread(v.data(), sizeof(T), n, f) != n) exit(3);
  return v;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* f = fopen(argv[1], "rb");
  if (!f) return 2;
  auto timing = take<uint64_t>(f, 5), head = take<uint64_t>(f, 6);
  const uint64_t trouble = timing[3], trouble_at = timing[4], limit = head[0];
  Channel r{timing[0], timing[1], timing[2]}, w{timing[0], timing[1], timing[2]};
  auto writes = take<uint32_t>(f, 2 * head[1]);
  auto array_words = take<uint64_t>(f, head[2]), dma_words = take<uint64_t>(f, head[3]);
  regions = take<Region>(f, head[5]);
  auto memory = take<unsigned char>(f, head[4]);
  fclose(f);
  memory.resize(memory.size() + BUS_BYTES);
  std::vector<uint32_t> when(memory.size());
  loaded.resize(regions.size()); stored.resize(regions.size());

  VerilatedContext context;
  Vtop top(&context);
  auto step = [&] { top.clk = 0; top.eval(); top.clk = 1; top.eval(); };
  top.rst = 1; top.start = 0; top.cfg_we = 0; top.r_valid = 0; top.r_error = 0; top.w_error = 0; top.w_ready = 0; top.ar_ready = 0; top.aw_ready = 0;
  step();
  top.rst = 0; top.cfg_we = 1;
  for (size_t i = 0; i < writes.size(); i += 2) { top.cfg_addr = writes[i]; top.cfg_data = writes[i + 1]; step(); }
  top.cfg_we = 0; top.start = 1; step(); top.start = 0;
  uint64_t cycles = 0, multiplied = 0, begun = 0, written = 0, summed = 0;
  std::vector<uint64_t> asked;
  size_t aq = 0, dq = 0;
  (void)aq; (void)dq;
  bool rv = false, wr = false, ar = true, aw = true;  // what the machine sees in the cycle at hand
  auto next = [&](uint64_t cycle) {
    const uint64_t fails = r.served == trouble_at ? trouble : 0;
    rv = r.serves(cycle) && fails != 3; wr = w.serves(cycle); ar = r.takes(); aw = w.takes();
    top.r_valid = rv; top.w_ready = wr; top.ar_ready = ar; top.aw_ready = aw; top.r_error = rv && fails == 1;
    if (rv) { memcpy(&top.r_data, &memory[r.waiting.front().at], BUS_BYTES); top.r_tag = r.waiting.front().tag ^ (fails == 2); }
#ifdef QUEUES
    top.aq_valid = aq < array_words.size(); top.aq_word = top.aq_valid ? array_words[aq] : 0;
    top.dq_valid = dq < dma_words.size(); top.dq_word = top.dq_valid ? dma_words[dq] : 0;
#endif
    step();
  };
  auto started = std::chrono::steady_clock::now();
  next(0);
  for (;;) {
    if (!top.busy) break;
    if (rv) { loaded[owner(r.waiting.front().at)] += top.ev_loaded; if (top.r_ready) r.beat(cycles); }
    if (wr && top.w_valid) {
      unsigned char strobe[(BUS_BYTES + 7) / 8]; memcpy(strobe, &top.w_strb, sizeof strobe);
      size_t n = 0;
      while (n < BUS_BYTES && (strobe[n / 8] >> (n % 8) & 1)) n++;
      const uint64_t wa = w.waiting.front().at;
      stored[owner(wa)] += n; memcpy(&memory[wa], &top.w_data, n);
      for (size_t i = 0; i < n; i++) when[wa + i] = cycles + 1;
      w.beat(cycles);
    }
    if (top.ar_valid && ar) { r.ask(cycles, top.ar_addr, top.ar_beats, top.ar_tag); asked.push_back(top.ar_addr); }
    if (top.aw_valid && aw) w.ask(cycles, top.aw_addr, top.aw_beats, 0);
    for (int port = 0; port < 3; port++)
      if (top.ev_feed >> port & 1) feeds[(port * 2 + top.ev_fill) * (WINDOWS) + top.ev_window]++;
    if (top.ev_go && !top.ev_drain) {
      const uint64_t active = uint64_t(top.ev_rows) * top.ev_cols + top.ev_last;
      multiplied += active; if (top.ev_first) begun += active;
    }
    if (top.ev_write) { const int n = __builtin_popcountll(top.ev_write); written += n; if (top.ev_read) summed += n; }
#ifdef QUEUES
    if (top.aq_ready) aq++;
    if (top.dq_ready) dq++;
#endif
    next(cycles + 1);
    if (++cycles > limit) { fprintf(stderr, "the machine is still busy after %llu cycles\n", (unsigned long long)limit); return 4; }
  }
  if (top.read_fault || top.write_fault) {
    static const char* const why[] = {"", "was answered with an error", "was answered out of turn", "was not answered in time"};
    const uint64_t number = top.read_fault ? top.reads_done : top.writes_done;
    fprintf(stderr, "the machine stopped: %s request %llu", top.read_fault ? "read" : "write", (unsigned long long)number);
    if (top.read_fault && number < asked.size()) fprintf(stderr, " (DRAM address 0x%llx)", (unsigned long long)asked[number]);
    fprintf(stderr, " %s\n", why[top.read_fault ? top.read_fault : top.write_fault]);
    return 6;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  printf("cycles %llu\nseconds %.6f\n", (unsigned long long)cycles, seconds);
  printf("multiplied %llu\nbegun %llu\nwritten %llu\nsummed %llu\n", (unsigned long long)multiplied, (unsigned long long)begun,
         (unsigned long long)written, (unsigned long long)summed);
  for (size_t i = 0; i < regions.size(); i++)
    printf("region %zu %llu %llu\n", i, (unsigned long long)loaded[i], (unsigned long long)stored[i]);
  for (size_t i = 0; i < feeds.size(); i++)
    if (feeds[i]) printf("feed %zu %zu %zu %llu\n", i / (2 * (WINDOWS)), i / (WINDOWS) % 2, i % (WINDOWS), (unsigned long long)feeds[i]);
  f = fopen(argv[2], "wb");
  if (!f) return 2;
  fwrite(memory.data(), 1, memory.size() - BUS_BYTES, f);
  fwrite(when.data(), 4, when.size() - BUS_BYTES, f);
  fclose(f);
  return 0;
}

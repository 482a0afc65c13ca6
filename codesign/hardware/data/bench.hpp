// What stands around a machine in a simulation: a memory that answers in time or not, rules of its port, counters of what the machine does.
// `testbench.cpp` runs one image with it, `host/simulated.cpp` is a host's access to the machine.
// The machine stands in a module that registers every input. So the next cycle's inputs are set while a cycle's outputs are read, and
// each cycle's logic is evaluated once, after the clock's edge.
#pragma once
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>
#include "verilated.h"
#ifdef TRACED
#include "verilated_vcd_c.h"
#endif
#include "Vtop.h"

#if !defined(BUS_BYTES) || !defined(BURST_BYTES) || !defined(OUTSTANDING) || !defined(WINDOWS)
#error "compile with -DBUS_BYTES=n -DBURST_BYTES=n -DOUTSTANDING=n -DWINDOWS=n"
#endif
#ifdef AXI_PORT
constexpr bool axi_port = true;  // a burst's beats are aligned, and it stays within 4 KB
#else
constexpr bool axi_port = false;  // a burst and its beats begin at any byte
#endif
constexpr uint64_t page_bytes = 4096;

// Why a simulation ended early, and the exit status that says so.
struct Stopped { int code; std::string text; };

[[noreturn]] static void stop(int code, const char* format, ...) {
  char text[256];
  va_list list;
  va_start(list, format); vsnprintf(text, sizeof text, format, list); va_end(list);
  throw Stopped{code, text};
}

struct Region { uint64_t first, end; };
struct Timing {
  uint64_t latency = 14, beat_cycles = 1, requests = 0, trouble = 0, trouble_at = 0, of_writes = 0, response_cycles = 1, stall_percent = 0, stall_seed = 0;
  // Bit by channel (AR, R, AW, W, B): it does not begin to answer in that cycle.
  unsigned stalled(uint64_t cycle) const {
    if (!stall_percent) return 0;
    uint64_t z = (stall_seed << 40 ^ cycle) * 0x9E3779B97F4A7C15ull;  // splitmix64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull; z = (z ^ z >> 27) * 0x94D049BB133111EBull; z ^= z >> 31;
    unsigned found = 0;
    for (unsigned k = 0; k < 5; k++) found |= unsigned((z >> 12 * k & 0xFFF) * 100 < stall_percent << 12) << k;
    return found;
  }
};
constexpr unsigned answer_code(uint64_t trouble) { return trouble == 1 ? 2 : trouble == 4 ? 3 : 0; }  // RRESP, BRESP: SLVERR, DECERR, OKAY

// One direction of the memory: bursts are served one after another, in the order of their requests.
struct Burst { uint64_t at, beats, tag, first; };
struct Channel {
  Timing timing;
  uint64_t next = 0, served = 0, answered = 0;
  std::deque<Burst> waiting;
  std::deque<uint64_t> due;  // by burst written whose data have moved, the cycle of its response
  bool responds = false;
  std::vector<uint64_t> asked;
  bool takes() const { return !timing.requests || waiting.size() + due.size() < timing.requests; }
  bool serves(uint64_t cycle) const { return !waiting.empty() && cycle >= waiting.front().first && cycle >= next; }
  void ask(uint64_t cycle, uint64_t at, uint64_t beats, uint64_t tag) {
    waiting.push_back({at, beats, tag, cycle + timing.latency});
    asked.push_back(at);
  }
  uint64_t base() const { const uint64_t at = waiting.front().at; return axi_port ? at / BUS_BYTES * BUS_BYTES : at; }  // of the beat's first byte lane
  void beat(uint64_t cycle) {
    Burst& b = waiting.front();
    b.at = base() + BUS_BYTES; next = cycle + timing.beat_cycles;
    if (--b.beats) return;
    waiting.pop_front(); served++;
    if (responds) due.push_back(cycle + timing.response_cycles);
  }
};

// The rules of the port, by number as in the documentation.
class Protocol {
  struct Request { bool held = false; uint64_t at = 0, beats = 0, tag = 0; } read, write;
  struct Beat { bool held = false, last = false; unsigned char data[BUS_BYTES], strobe[(BUS_BYTES + 7) / 8]; } beat;

  static void request(const char* channel, uint64_t cycle, Request& kept, bool valid, bool ready, const Channel& c, uint64_t at, uint64_t beats, uint64_t tag) {
    const unsigned long long when = cycle, where = at;
    if (kept.held && !(valid && kept.at == at && kept.beats == beats && kept.tag == tag))
      stop(7, "rule P1 in cycle %llu: a request of channel %s changed before it was taken", when, channel);
    kept = {valid && !ready, at, beats, tag};
    if (!valid) return;
    const uint64_t first = axi_port ? at / BUS_BYTES * BUS_BYTES : at;
    if (!beats || beats > (BURST_BYTES) / (BUS_BYTES))
      stop(7, "rule P2 in cycle %llu: a burst of channel %s at 0x%llx has %llu beats", when, channel, where, (unsigned long long)beats);
    if (axi_port && first / page_bytes != (first + beats * BUS_BYTES - 1) / page_bytes)
      stop(7, "rule P3 in cycle %llu: a burst of channel %s at 0x%llx crosses 4 KB", when, channel, where);
    if (c.waiting.size() + c.due.size() >= OUTSTANDING)
      stop(7, "rule P4 in cycle %llu: channel %s has more than %d requests under way", when, channel, OUTSTANDING);
    if (axi_port && tag) stop(7, "rule P4 in cycle %llu: a request has the identifier %llu", when, (unsigned long long)tag);
    for (const Burst& b : c.waiting)
      if (*channel == 'r' && !axi_port && b.tag == tag) stop(7, "rule P4 in cycle %llu: the tag %llu is under way twice", when, (unsigned long long)tag);
  }

 public:
  void cycle(uint64_t now, const Vtop& top, const Channel& r, const Channel& w, bool rv, bool wr, bool ar, bool aw) {
    request("read", now, read, top.ar_valid, ar, r, top.ar_addr, top.ar_beats, top.ar_tag);
    request("write", now, write, top.aw_valid, aw, w, top.aw_addr, top.aw_beats, 0);
    const unsigned long long when = now;
    if (beat.held && !(top.w_valid && beat.last == bool(top.w_last) && !memcmp(beat.data, &top.w_data, BUS_BYTES) && !memcmp(beat.strobe, &top.w_strb, sizeof beat.strobe)))
      stop(7, "rule P1 in cycle %llu: a beat to be written changed before it was taken", when);
    beat.held = top.w_valid && !wr;
    if (beat.held) {
      beat.last = top.w_last;
      memcpy(beat.data, &top.w_data, BUS_BYTES); memcpy(beat.strobe, &top.w_strb, sizeof beat.strobe);
    }
    if (top.w_valid && w.waiting.empty()) stop(7, "rule P5 in cycle %llu: a beat to be written belongs to no request", when);
    if (top.w_valid && bool(top.w_last) != (w.waiting.front().beats == 1))
      stop(7, "rule P5 in cycle %llu: the last beat of a burst is not where it is marked", when);
#ifdef AXI_PORT
    const bool failed = top.r_resp >> 1;
#else
    const bool failed = top.r_error;
#endif
    if (rv && top.r_ready && !top.read_fault && (top.r_tag != r.waiting.front().tag || failed))
      stop(7, "rule P6 in cycle %llu: a beat that failed, or that answers another request, was taken", when);
  }
  static void end(const Channel& r, const Channel& w) {
    if (!r.waiting.empty() || !w.waiting.empty() || !w.due.empty()) stop(7, "rule P6: the machine ended while requests were under way");
  }
};

// A machine, its memory and what it counts.
class Bench {
  VerilatedContext context;
  Vtop top{&context};

  void step() { top.clk = 0; top.eval(); top.clk = 1; top.eval(); }

#ifdef TRACED
  VerilatedVcdC waves;
  size_t window = 0;
  void trace(uint64_t cycle) {  // signals as they stand in that cycle
    while (window < traced.size() && cycle >= traced[window].end) window++;
    if (window < traced.size() && cycle >= traced[window].first) waves.dump(cycle);
  }
#else
  void trace(uint64_t) {}
#endif

  size_t owner(uint64_t at) const {
    for (size_t i = 0; i < regions.size(); i++)
      if (regions[i].first <= at && at < regions[i].end) return i;
    stop(5, "a burst at DRAM address 0x%llx, where no tensor lies", (unsigned long long)at);
  }

  void fault(const Channel& r, const Channel& w) const {
    static const char* const why[] = {"", "was answered with an error", "was answered out of turn", "was not answered in time", "has an address where nothing lies"};
    const bool reads = top.read_fault;
    const Channel& c = reads ? r : w;
    const uint64_t number = (reads ? top.reads_done : top.writes_done) - (reads ? reads_before : writes_before);
    const std::string at = number < c.asked.size() ? " (DRAM address 0x" + hex(c.asked[number]) + ")" : "";
    stop(6, "the machine stopped: %s request %llu%s %s", reads ? "read" : "write", (unsigned long long)number, at.c_str(),
         why[reads ? top.read_fault : top.write_fault]);
  }

  static std::string hex(uint64_t value) { char text[20]; snprintf(text, sizeof text, "%llx", (unsigned long long)value); return text; }

  void count() {
    for (int port = 0; port < 3; port++)
      if (top.ev_feed >> port & 1) feeds[(port * 2 + top.ev_fill) * (WINDOWS) + top.ev_window]++;
    if (top.ev_go && !top.ev_drain) {
      const uint64_t active = uint64_t(top.ev_rows) * top.ev_cols + top.ev_last - top.ev_resting;
      multiplied += active; if (top.ev_first) begun += active;
    }
    if (top.ev_write) { const int n = __builtin_popcountll(top.ev_write); written += n; if (top.ev_read) summed += n; }
  }

  void store(Channel& w, uint64_t cycle) {
    unsigned char strobe[(BUS_BYTES + 7) / 8], data[BUS_BYTES];
    memcpy(strobe, &top.w_strb, sizeof strobe); memcpy(data, &top.w_data, BUS_BYTES);
    const uint64_t base = w.base();
    uint64_t& moved = stored[owner(w.waiting.front().at)];
    for (size_t i = 0; i < BUS_BYTES; i++)
      if (strobe[i / 8] >> (i % 8) & 1) { memory.at(base + i) = data[i]; if (!when.empty()) when[base + i] = uint32_t(cycle + 1); moved++; }
    w.beat(cycle);
  }

  // What the memory says of a beat read, and of a burst written.
  void respond(unsigned read, bool answers, unsigned write) {
#ifdef AXI_PORT
    top.r_resp = read; top.b_valid = answers; top.b_resp = write;
#else
    top.r_error = read > 0; top.w_error = write > 0;
    (void)answers;
#endif
  }

  uint64_t reads_before = 0, writes_before = 0;  // requests of earlier runs: the machine's status counts on

 public:
  Timing timing;
  std::vector<Region> regions;                // where tensors lie: a burst elsewhere is a fault of the machine
  std::vector<unsigned char> memory;          // DRAM, and a beat more
  std::vector<uint32_t> when;                 // by byte the cycle of the last write, if wanted
  std::vector<uint64_t> feeds = std::vector<uint64_t>(3 * 2 * (WINDOWS)), loaded, stored;
  uint64_t multiplied = 0, begun = 0, written = 0, summed = 0;
  std::vector<Region> traced;                 // cycles whose signals are written down, in order

#ifdef TRACED
  void open_waves(const char* path) { context.traceEverOn(true); top.trace(&waves, 99); waves.open(path); }
  void close_waves() { waves.close(); }
#endif

  Bench() {
    top.rst = 1; top.start = 0; top.cfg_we = 0; top.r_valid = 0; top.w_ready = 0; top.ar_ready = 0; top.aw_ready = 0;
    respond(0, false, 0);
    step();
    top.rst = 0;
  }

  void write(uint32_t address, uint32_t data) { top.cfg_we = 1; top.cfg_addr = address; top.cfg_data = data; step(); top.cfg_we = 0; }

  // From `start` until the machine rests: the cycles in which it was busy.
  uint64_t run(const std::vector<uint64_t>& array_words, const std::vector<uint64_t>& dma_words, uint64_t limit) {
    loaded.assign(regions.size(), 0); stored.assign(regions.size(), 0);
    Channel r{timing}, w{timing};
    w.responds = axi_port;
    Protocol protocol;
    reads_before = top.reads_done; writes_before = top.writes_done;
    const Timing& t = timing;
    top.start = 1; step(); top.start = 0;
    size_t aq = 0, dq = 0;
    (void)aq; (void)dq; (void)array_words; (void)dma_words;
    bool rv = false, wr = false, ar = true, aw = true, bv = false;  // what the machine sees in the cycle at hand
    bool r_kept = false, b_kept = false;                            // an answer that is not taken stays
    auto next = [&](uint64_t cycle) {
      const unsigned still = t.stalled(cycle);
      const uint64_t fails = !t.of_writes && r.served == t.trouble_at ? t.trouble : 0;
      const uint64_t write_fails = t.of_writes && (axi_port ? w.answered : w.served) == t.trouble_at ? t.trouble : 0;
      rv = r.serves(cycle) && fails != 3 && (r_kept || !(still & 2));
      wr = w.serves(cycle) && (axi_port || write_fails != 3) && !(still & 8);
      bv = !w.due.empty() && cycle >= w.due.front() && write_fails != 3 && (b_kept || !(still & 16));
      ar = r.takes() && !(still & 1); aw = w.takes() && !(still & 4);
      top.r_valid = rv; top.w_ready = wr; top.ar_ready = ar; top.aw_ready = aw;
      respond(rv ? answer_code(fails) : 0, bv, (axi_port ? bv : wr) ? answer_code(write_fails) : 0);
      if (rv) { memcpy(&top.r_data, &memory[r.base()], BUS_BYTES); top.r_tag = r.waiting.front().tag ^ (fails == 2); }
#ifdef QUEUES
      top.aq_valid = aq < array_words.size(); top.aq_word = top.aq_valid ? array_words[aq] : 0;
      top.dq_valid = dq < dma_words.size(); top.dq_word = top.dq_valid ? dma_words[dq] : 0;
#endif
      step();
      trace(cycle);
    };
    uint64_t cycles = 0;
    next(0);
    auto drains = [&] {  // a machine that has stopped with a fault takes what is still to come
      return axi_port && (top.read_fault || top.write_fault) && t.trouble != 3 && !(r.waiting.empty() && w.waiting.empty() && w.due.empty());
    };
    while (top.busy || drains()) {
      protocol.cycle(cycles, top, r, w, rv, wr, ar, aw);
      r_kept = rv && !top.r_ready;
#ifdef AXI_PORT
      b_kept = bv && !top.b_ready;
      if (bv && top.b_ready) { w.due.pop_front(); w.answered++; }
#endif
      if (rv) { loaded[owner(r.waiting.front().at)] += top.ev_loaded; if (top.r_ready) r.beat(cycles); }
      if (wr && top.w_valid) store(w, cycles);
      if (top.ar_valid && ar) { owner(top.ar_addr); r.ask(cycles, top.ar_addr, top.ar_beats, top.ar_tag); }
      if (top.aw_valid && aw) { owner(top.aw_addr); w.ask(cycles, top.aw_addr, top.aw_beats, 0); }
      count();
#ifdef QUEUES
      if (top.aq_ready) aq++;
      if (top.dq_ready) dq++;
#endif
      next(cycles + 1);
      if (++cycles > limit) stop(4, "the machine is still busy after %llu cycles", (unsigned long long)limit);
    }
    if (top.read_fault || top.write_fault) fault(r, w);
    Protocol::end(r, w);
    return cycles;
  }
};

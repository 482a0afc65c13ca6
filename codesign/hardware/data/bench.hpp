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
#ifdef BY_TAG
constexpr bool by_tag = true;  // requests may be answered in any order
#else
constexpr bool by_tag = false;
#endif
constexpr uint64_t spread_period = 1024;  // requests after which drawn latencies come again
enum Trouble : uint64_t { no_trouble, failed_answer, wrong_order, silence, nowhere, strange_tag, again };

static uint64_t mixed(uint64_t z) {  // splitmix64
  z *= 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull; z = (z ^ z >> 27) * 0x94D049BB133111EBull; return z ^ z >> 31;
}

struct Timing {
  uint64_t latency = 14, beat_cycles = 1, requests = 0, trouble = 0, trouble_at = 0, of_writes = 0, response_cycles = 1, stall_percent = 0, stall_seed = 0;
  uint64_t spread = 0, spread_seed = 0, interleaves = 0;
  // Bit by channel (AR, R, AW, W, B): it does not begin to answer in that cycle.
  unsigned stalled(uint64_t cycle) const {
    if (!stall_percent) return 0;
    const uint64_t z = mixed(stall_seed << 40 ^ cycle);
    unsigned found = 0;
    for (unsigned k = 0; k < 5; k++) found |= unsigned((z >> 12 * k & 0xFFF) * 100 < stall_percent << 12) << k;
    return found;
  }
  // By how many cycles the answer to a request read (kind 0), written (1), or a response (2) comes later.
  uint64_t longer(uint64_t kind, uint64_t number) const { return spread ? mixed(spread_seed << 40 ^ kind << 32 ^ number % spread_period) % (spread + 1) : 0; }
};
constexpr unsigned answer_code(uint64_t trouble) { return trouble == 1 ? 2 : trouble == 4 ? 3 : 0; }  // RRESP, BRESP: SLVERR, DECERR, OKAY

// One direction of the memory: bursts are served one after another, in the order of their requests or, by tag, of their first beats.
struct Burst { uint64_t number, at, beats, tag, first, moved; };
struct Due { uint64_t cycle, number, tag; };
class Channel {
  bool spoilt(uint64_t number) const {  // it cannot be answered now, while others can
    const uint64_t found = troubled(number);
    return found == silence || (found == strange_tag && free_tag() == no_tag);
  }
  bool chooses(const Burst& a, const Burst& b) const {  // a before b
    if (timing.interleaves && a.moved != b.moved) return a.moved < b.moved;
    return a.first != b.first ? a.first < b.first : a.number < b.number;
  }

 public:
  Timing timing;
  uint64_t kind = 0, next = 0;
  bool responds = false;
  std::deque<Burst> waiting;
  std::deque<Due> due;  // of bursts whose data have moved, the cycle of its response
  bool has = false, extra = false, answers = false, repeats = false;  // a burst and a response are at hand; they are one too many
  Burst hand{};
  Due answer{};
  std::vector<uint64_t> asked;
  static constexpr uint64_t no_tag = ~uint64_t(0);

  Channel(const Timing& t, uint64_t k, bool r) : timing(t), kind(k), responds(r) {}
  bool takes() const { return !timing.requests || waiting.size() + due.size() < timing.requests; }
  uint64_t troubled(uint64_t number) const { return timing.of_writes == kind && number == timing.trouble_at ? timing.trouble : no_trouble; }
  uint64_t free_tag() const {  // one that no request under way has
    unsigned bits = 1;
    while ((1 << bits) < (OUTSTANDING)) bits++;
    for (uint64_t tag = 0; tag < (1ull << bits); tag++) {
      bool used = false;
      for (const Burst& b : waiting) used |= b.tag == tag;
      for (const Due& d : due) used |= d.tag == tag;
      if (!used) return tag;
    }
    return no_tag;
  }
  bool serves(uint64_t cycle) {
    if (!has && !waiting.empty() && cycle >= next) {
      if (!by_tag || kind) { hand = waiting.front(); has = true; }
      else for (const Burst& b : waiting)
        if (b.first <= cycle && !spoilt(b.number) && (!has || chooses(b, hand))) { hand = b; has = true; }
    }
    return has && cycle >= hand.first && cycle >= next;
  }
  void ask(uint64_t cycle, uint64_t at, uint64_t beats, uint64_t tag) {
    const uint64_t number = asked.size();
    waiting.push_back({number, at, beats, tag, cycle + timing.latency + timing.longer(kind, number), 0});
    asked.push_back(at);
  }
  uint64_t base() const { return axi_port ? hand.at / BUS_BYTES * BUS_BYTES : hand.at; }  // of the beat's first byte lane
  void beat(uint64_t cycle) {
    hand.at = base() + BUS_BYTES; hand.moved = cycle + 1; hand.beats--; next = cycle + timing.beat_cycles;
    for (size_t i = 0; i < waiting.size(); i++)
      if (waiting[i].number == hand.number && !extra) {
        waiting[i] = hand;
        if (hand.beats) has = !(by_tag && !kind && timing.interleaves);
        else { waiting.erase(waiting.begin() + i); has = false; }
        break;
      }
    if (hand.beats) return;
    if (responds) due.push_back({cycle + timing.response_cycles + timing.longer(2, hand.number), hand.number, hand.tag});
    has = extra = troubled(hand.number) == again && !extra && !responds;
    if (extra) { hand.beats = 1; hand.at -= BUS_BYTES; }
  }
  bool response(uint64_t cycle) {  // whether one may be given in that cycle; it stays until it is taken
    if (answers) return true;
    for (size_t i = 0; i < due.size() && (by_tag || !i); i++) {
      const Due& d = due[i];
      const bool sooner = !answers || d.cycle < answer.cycle || (d.cycle == answer.cycle && d.number < answer.number);
      if (d.cycle <= cycle && !spoilt(d.number) && sooner) { answer = d; answers = true; }
    }
    return answers;
  }
  void responded() {
    answers = false;
    if (repeats) { repeats = false; return; }
    for (size_t i = 0; i < due.size(); i++)
      if (due[i].number == answer.number) { due.erase(due.begin() + i); break; }
    answers = repeats = troubled(answer.number) == again;
  }
};

static uint64_t write_tag(const Vtop& top) {
#if defined(AXI_PORT) && defined(BY_TAG)
  return top.aw_tag;
#else
  (void)top;
  return 0;
#endif
}

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
    if (axi_port && !by_tag) {
      if (tag) stop(7, "rule P4 in cycle %llu: a request has the identifier %llu", when, (unsigned long long)tag);
      return;
    }
    bool twice = false;
    for (const Burst& b : c.waiting) twice |= b.tag == tag;
    for (const Due& d : c.due) twice |= d.tag == tag;
    if (twice && (axi_port || *channel == 'r')) stop(7, "rule P4 in cycle %llu: the tag %llu is under way twice", when, (unsigned long long)tag);
  }

 public:
  void cycle(uint64_t now, const Vtop& top, const Channel& r, const Channel& w, bool rv, bool wr, bool ar, bool aw) {
    request("read", now, read, top.ar_valid, ar, r, top.ar_addr, top.ar_beats, top.ar_tag);
    request("write", now, write, top.aw_valid, aw, w, top.aw_addr, top.aw_beats, write_tag(top));
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
    bool awaited = false;
    for (size_t i = 0; rv && i < r.waiting.size() && (by_tag || !i); i++) awaited |= r.waiting[i].tag == top.r_tag;
    if (rv && top.r_ready && !top.read_fault && (!awaited || failed))
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
    if (uint32_t(number) >> 31) stop(6, "the machine stopped: a %s answer has a tag that no request has had", reads ? "read" : "write");
    const std::string at = number < c.asked.size() ? " (DRAM address 0x" + hex(c.asked[number]) + ")" : "";
    stop(6, "the machine stopped: %s request %llu%s %s", reads ? "read" : "write", (unsigned long long)number, at.c_str(),
         by_tag && (reads ? top.read_fault : top.write_fault) == 2 ? "was answered again, or before its data" : why[reads ? top.read_fault : top.write_fault]);
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
    uint64_t& moved = stored[owner(w.hand.at)];
    for (size_t i = 0; i < BUS_BYTES; i++)
      if (strobe[i / 8] >> (i % 8) & 1) { memory.at(base + i) = data[i]; if (!when.empty()) when[base + i] = uint32_t(cycle + 1); moved++; }
    w.beat(cycle);
  }

  // What the memory says of a beat read, and of a burst written.
  void respond(unsigned read, bool answers, unsigned write, uint64_t tag) {
#ifdef AXI_PORT
    top.r_resp = read; top.b_valid = answers; top.b_resp = write;
#ifdef BY_TAG
    top.b_tag = tag;
#endif
#else
    top.r_error = read > 0; top.w_error = write > 0;
#endif
    (void)answers; (void)tag;
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
    respond(0, false, 0, 0);
    step();
    top.rst = 0;
  }

  void write(uint32_t address, uint32_t data) { top.cfg_we = 1; top.cfg_addr = address; top.cfg_data = data; step(); top.cfg_we = 0; }

  // From `start` until the machine rests: the cycles in which it was busy.
  uint64_t run(const std::vector<uint64_t>& array_words, const std::vector<uint64_t>& dma_words, uint64_t limit) {
    loaded.assign(regions.size(), 0); stored.assign(regions.size(), 0);
    Channel r{timing, 0, false}, w{timing, 1, axi_port};
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
      const bool reads = r.serves(cycle), writes = w.serves(cycle), responds = axi_port && w.response(cycle);
      const uint64_t fails = r.has ? r.troubled(r.hand.number) : 0;
      const uint64_t write_fails = axi_port ? (responds ? w.troubled(w.answer.number) : 0) : w.has ? w.troubled(w.hand.number) : 0;
      rv = reads && fails != silence && (r_kept || !(still & 2));
      wr = writes && (axi_port || write_fails != silence) && !(still & 8);
      bv = responds && (b_kept || !(still & 16));
      ar = r.takes() && !(still & 1); aw = w.takes() && !(still & 4);
      top.r_valid = rv; top.w_ready = wr; top.ar_ready = ar; top.aw_ready = aw;
      const auto strange = [](const Channel& c) { const uint64_t tag = c.free_tag(); return tag == Channel::no_tag ? 0 : tag; };
      respond(rv ? answer_code(fails) : 0, bv, (axi_port ? bv : wr) ? answer_code(write_fails) : 0,
              write_fails == strange_tag ? strange(w) : w.answer.tag);
      if (rv) { memcpy(&top.r_data, &memory[r.base()], BUS_BYTES); top.r_tag = fails == strange_tag ? strange(r) : r.hand.tag ^ (fails == wrong_order); }
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
      return axi_port && (top.read_fault || top.write_fault) && t.trouble != silence && !(r.waiting.empty() && w.waiting.empty() && w.due.empty());
    };
    while (top.busy || drains()) {
      protocol.cycle(cycles, top, r, w, rv, wr, ar, aw);
      r_kept = rv && !top.r_ready;
#ifdef AXI_PORT
      b_kept = bv && !top.b_ready;
      if (bv && top.b_ready) w.responded();
#endif
      if (rv) { loaded[owner(r.hand.at)] += top.ev_loaded; if (top.r_ready) r.beat(cycles); }
      if (wr && top.w_valid) store(w, cycles);
      if (top.ar_valid && ar) { owner(top.ar_addr); r.ask(cycles, top.ar_addr, top.ar_beats, top.ar_tag); }
      if (top.aw_valid && aw) { owner(top.aw_addr); w.ask(cycles, top.aw_addr, top.aw_beats, write_tag(top)); }
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

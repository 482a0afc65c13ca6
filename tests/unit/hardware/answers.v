module answers(input clk, input pushes, input ends, input moves, input [`BITS-1:0] tag, input [`BITS-1:0] mark, input [15:0] datum);
  localparam N = `ENTRIES;
  wire [`BITS-1:0] asked, oldest; wire [`BITS:0] under_way; wire [N-1:0] answered;
  wire [`WIDTH-1:0] entry [0:N-1]; wire room, pop, awaited; wire [31:0] number;
  reg [N-1:0] open = 0; reg [31:0] gone = 0;                 // requests whose data have not all come; those that are over
  reg [`BITS-1:0] watched = 0; reg began = 0;                // any one tag, drawn once
  reg [15:0] kept = 0;                                       // what the entry of its request holds
  wire push = began && pushes && room;
  wire update = began && moves && awaited, finish = update && ends;
  always @(posedge clk) begin
    began <= 1;
    if (!began) watched <= mark;
    open <= (open | (push ? 1 << asked : 0)) & ~(finish ? 1 << tag : 0);
    gone <= gone + pop;
    if (push && asked == watched) kept <= datum;
    else if (update && tag == watched) kept <= datum;
  end
  bursts inside(.clk(clk), .rst(1'b0), .e_push(push), .e_answer(tag), .e_finish(finish), .e_update(update), .e_stop(1'b0), .e_blame(1'b0),
    .e_give_line(datum), .e_next_line(datum), .e_room(room), .e_pop(pop), .e_awaited(awaited), .e_tag(asked), .e_number(number),
    .under_way(under_way), .oldest(oldest), .answered(answered), `TABLE);
  function [`BITS:0] wrapped(input [`BITS+1:0] place); wrapped = place >= N ? place - N : place; endfunction
  integer i; reg bad;
  always @* begin
    bad = 0;
    for (i = 0; i < N; i = i + 1)                            // requests under way lie one after another from the oldest one on
      if (answered[i] != ((wrapped(i + N - oldest) < under_way) && !open[i]) || (open[i] && !(wrapped(i + N - oldest) < under_way))) bad = 1;
  end
  always @* begin
    assume(mark < N);
    assert(awaited == (tag < N && open[tag]));               // answers that are taken: one for every request under way, in any order
    assert(!open[watched] || entry[watched][15:0] == kept);  // no other answer touches what is kept of a request
    assert(!pop || !open[oldest] || (finish && tag == oldest));
    assert(pop || under_way == 0 || open[oldest]);           // what is answered leaves: nothing waits but for the memory
    assert(room == (under_way < N) && under_way <= N && number == gone);
    assert(began || under_way == 0);
    assert(!bad && oldest < N && asked == wrapped(oldest + under_way) && watched < N);
  end
endmodule

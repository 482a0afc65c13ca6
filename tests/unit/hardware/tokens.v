module tokens(input clk, input [2:0] drawn, input loads, input [2:0] arrives, input steps, input stores, input [8:0] places);
  localparam DEPTH = `DEPTH;
  reg [2:0] last_0 = 0, last_1 = 0, last_2 = 0; reg began = 0;  // numbers of places: any, drawn once
  always @(posedge clk) begin began <= 1; if (!began) {last_2, last_1, last_0} <= places; end
  reg [2:0] cur = 7; reg [1:0] pos = 0;               // the loader's iteration and tensor
  reg [3*DEPTH-1:0] queue = 0; reg [7:0] n = 0;       // iterations whose tiles are taken, the array's first
  reg [2:0] carried = 0;                              // tiles of earlier iterations that the array still has
  reg [7:0] fly_0 = 0, fly_1 = 0, fly_2 = 0, leaving = 0;
  wire [2:0] room, ready;
  wire [3:0] held_0, held_1, held_2, waiting_0, waiting_1, waiting_2;
  wire wants = cur[pos];
  wire [2:0] fly = {fly_2 != 0, fly_1 != 0, fly_0 != 0};
  wire loader_can = !wants || room[pos];
  wire load = began && loads && loader_can;
  wire [2:0] take = load && wants ? 3'd1 << pos : 3'd0;
  wire [2:0] loaded = arrives & fly;
  wire [2:0] head = queue[2:0], next = n > 1 ? queue[5:3] : cur;
  wire array_can = n != 0 && !(head & ~ready);
  wire step = steps && array_can;
  wire [2:0] leave = step ? next : 3'd0;
  wire stored = stores && leaving != 0;
  wire [2:0] free = {stored, leave[1:0]};
  wire push = load && pos == 2;
  wire [7:0] left = n - step;
  always @(posedge clk) begin
    if (load) pos <= push ? 2'd0 : pos + 2'd1;
    if (push) cur <= drawn;
    queue <= (step ? queue >> 3 : queue) | (push ? {{(3*DEPTH-3){1'b0}}, cur} << 3 * left : 0);
    n <= left + push;
    if (step) carried <= (carried | head) & ~next;
    fly_0 <= fly_0 + take[0] - loaded[0]; fly_1 <= fly_1 + take[1] - loaded[1]; fly_2 <= fly_2 + take[2] - loaded[2];
    leaving <= leaving + leave[2] - stored;
  end
  halves inside(.clk(clk), .rst(1'b0), .half_take(take), .half_loaded(loaded), .half_leave(leave), .half_free(free),
    .last_place_A(last_0), .last_place_B(last_1), .last_place_O(last_2), .half_room(room), .half_ready(ready),
    .held_0(held_0), .held_1(held_1), .held_2(held_2), .waiting_0(waiting_0), .waiting_1(waiting_1), .waiting_2(waiting_2));
  integer i; reg [7:0] in_0, in_1, in_2; reg empty;
  always @* begin
    in_0 = 0; in_1 = 0; in_2 = 0; empty = 0;
    for (i = 0; i < DEPTH; i = i + 1) begin
      in_0 = in_0 + queue[3*i]; in_1 = in_1 + queue[3*i+1]; in_2 = in_2 + queue[3*i+2];
      if ((queue[3*i +: 3] != 0) != (i < n)) empty = 1;
    end
  end
  always @* begin
    assume(drawn != 0);
    assume(places[2:0] <= `MOST && places[5:3] <= `MOST && places[8:6] <= `MOST);
    assert(last_0 <= `MOST && last_1 <= `MOST && last_2 <= `MOST);
    assert(began || !(n || pos || carried || fly || leaving || held_0 || held_1 || held_2));
    assert(loader_can || fly != 0 || array_can || leaving != 0);   // somebody can always go on
    assert(n <= DEPTH && (!push || left < DEPTH) && !empty && cur != 0 && pos < 3);
    assert(fly_0 + waiting_0 == carried[0] + in_0 + (cur[0] && pos > 0));
    assert(fly_1 + waiting_1 == carried[1] + in_1 + (cur[1] && pos > 1));
    assert(fly_2 + waiting_2 == carried[2] + in_2);
    assert(held_0 == fly_0 + waiting_0 && held_1 == fly_1 + waiting_1);
    assert(held_2 == fly_2 + waiting_2 + leaving);
    assert(held_0 <= last_0 + 1 && held_1 <= last_1 + 1 && held_2 <= last_2 + 1);
    assert(fly_0 <= 8 && fly_1 <= 8 && fly_2 <= 8 && leaving <= 8 && waiting_0 <= 8 && waiting_1 <= 8 && waiting_2 <= 8);
    assert(!(carried & (n ? head : cur)) && !(carried & ~ready) && (carried | (n ? head : cur)) == 7);
  end
endmodule

Layer CONV2 {
  Type: CONV
  Stride { X: 1, Y: 1 }
  Dimensions { K: 8, C: 8, R: 3, S: 3, Y: 10, X: 10 }
  Dataflow {
    SpatialMap(1,1) K;
    TemporalMap(4,4) C;
    TemporalMap(Sz(R),Sz(R)) R;
    TemporalMap(Sz(S),Sz(S)) S;
    TemporalMap(Sz(R),1) Y;
    TemporalMap(Sz(S),1) X;
    Cluster(2, P);
    SpatialMap(1,1) C;
  }
}

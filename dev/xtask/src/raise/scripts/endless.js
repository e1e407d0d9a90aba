// A heap that has no end: the near-heap-limit callback, and the end of the process.
const all = [];
for (;;) all.push(new Array(1000).fill({}).map((_, i) => ({ i })));

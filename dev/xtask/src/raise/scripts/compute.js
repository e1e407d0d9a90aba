// Loops that are run long enough for every compiler that is there, and objects whose shape changes under them.
class Point { constructor(x, y) { this.x = x; this.y = y; } plus(other) { return new Point(this.x + other.x, this.y + other.y); } }
let sum = new Point(0, 0);
for (let i = 0; i < 300000; i++) sum = sum.plus(new Point(i, -i));
const loop = (n, step) => { let x = 0; for (let i = 0; i < n; i++) x = (x * 31 + step(i)) | 0; return x; };
loop(300000, (i) => i);
loop(3000, (i) => i / 3);
loop(3000, (i) => ({ valueOf: () => i }));
const floats = new Float64Array(100000).map((_, i) => Math.sin(i));
floats.sort();
emit("done");

// The heap grows and shrinks: young and old, large objects, buffers outside of it, maps that are laid out anew.
let kept = [];
for (let round = 0; round < 30; round++) {
  const part = Array.from({ length: 20000 }, (_, i) => ({ i, text: `text ${i}`, list: [i, i + 1] }));
  if (round % 3 === 0) kept.push(part);
  if (kept.length > 3) kept = [];
}
const buffers = [];
for (let i = 0; i < 20; i++) buffers.push(new Uint8Array(1 << 20).fill(i));
new ArrayBuffer(1 << 10, { maxByteLength: 1 << 20 }).resize(1 << 19);
const texts = new Map(Array.from({ length: 100000 }, (_, i) => [i, `${i}`]));
for (let i = 0; i < 100000; i++) texts.delete(i);
new WeakRef({});
new FinalizationRegistry(() => {}).register({}, 1);
emit("done");

// What the language brings along, with ICU's data behind some of it: numbers, dates, text, expressions, JSON, sorting.
Math.random();
new Date().toString();
new Date(2026, 1, 3).toLocaleString("ja-JP", { timeZone: "Asia/Tokyo", dateStyle: "full" });
new Intl.NumberFormat("de-DE", { style: "currency", currency: "EUR" }).format(12345.6);
new Intl.Collator("sv").compare("z", "ö");
[...new Intl.Segmenter("th", { granularity: "word" }).segment("สวัสดีครับ")];
new Intl.DisplayNames("fr", { type: "region" }).of("JP");
"A\u030a".normalize("NFC").toLocaleUpperCase("tr");
/(?<year>\d{4})-\p{L}+(?=x)/u.exec("2026-äöüx");
"a".repeat(1 << 16).replace(/(a+)+$/, "b");
JSON.parse(JSON.stringify(Array.from({ length: 5000 }, (_, i) => ({ i, half: i / 2 }))));
Array.from({ length: 100000 }, (_, i) => (i * 7919) % 100003).sort((a, b) => a - b);
2n ** 4096n % 97n;
function* numbers() { for (let i = 0; i < 1000; i++) yield i; }
[...numbers()];
await Promise.all(Array.from({ length: 1000 }, async (_, i) => i));
for await (const value of (async function* () { yield* [1, 2, 3]; })()) value;
emit("done");

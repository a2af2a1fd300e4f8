// What time it is, for ages of what is shown. It stands still while nobody looks at the page.

export const clock = $state({ now: Date.now() });
const tick = () => document.hidden || (clock.now = Date.now());
setInterval(tick, 10_000);
document.addEventListener('visibilitychange', tick);

/** ago is how many seconds ago a time was. */
export const ago = (time: string) => Math.max(0, (clock.now - Date.parse(time)) / 1000);

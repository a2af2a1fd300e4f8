// The time, for displayed ages. It stands still while the page is hidden.

export const clock = $state({ now: Date.now() });
const tick = () => document.hidden || (clock.now = Date.now());
setInterval(tick, 10_000);
document.addEventListener('visibilitychange', tick);

/** ago is how many seconds ago a time was. */
export const ago = (time: string) => Math.max(0, (clock.now - Date.parse(time)) / 1000);
